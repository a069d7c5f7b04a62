import { text } from './env.js';

// summary makes a script's handleSummary: a table and the same as one line of JSON on
// standard output, and, where SUMMARY_JSON names a file, the JSON there. What a script
// has to say beyond what all have comes from own(metrics, seconds): `lines` to print, and
// fields of the JSON; null when the run ended before there was anything to say.
export function summary(script, own = () => ({})) {
  return (data) => {
    const { metrics } = data;
    const seconds = data.state.testRunDurationMs / 1000;
    const said = own(metrics, seconds);
    const { lines, ...more } = said || { lines: ['The run ended before it was measured.'] };
    const broken = [...brokenThresholds(metrics), ...brokenChecks(data.root_group), ...(said ? [] : ['the run ended early'])];
    const result = {
      script,
      right: broken.length === 0,
      seconds,
      requests: value(metrics, 'http_reqs', 'count'),
      failed: value(metrics, 'http_req_failed', 'passes'), // of the question "has it failed?"
      checks: value(metrics, 'checks', 'passes') + value(metrics, 'checks', 'fails'),
      checks_failed: value(metrics, 'checks', 'fails'),
      dropped: value(metrics, 'dropped_iterations', 'count'),
      broken,
      times: allTimes(metrics),
      ...more,
    };
    const out = { stdout: [...(lines || []), table(result), ...broken.map((b) => `BROKEN    ${b}`), ''].map(indent).join('\n') + `${JSON.stringify(result)}\n` };
    const file = text('SUMMARY_JSON', '');
    if (file) {
      out[file] = JSON.stringify(result, null, 2);
    }
    return out;
  };
}

// times are those of one Trend, in ms.
export function times(metric) {
  const v = metric ? metric.values : {};
  return { count: v.count || 0, avg: v.avg || 0, p50: v.med || 0, p95: v['p(95)'] || 0, p99: v['p(99)'] || 0, max: v.max || 0 };
}

// value is a figure of a metric, and 0 where nothing was ever added to it.
export const value = (metrics, name, field) => (metrics[name] && metrics[name].values[field]) || 0;

export const percent = (share) => `${(share * 100).toFixed(1)} %`;

// allTimes are those of each name of a request that a threshold is about: there are no
// others in a summary.
function allTimes(metrics) {
  const all = {};
  for (const [name, metric] of Object.entries(metrics)) {
    const named = /^http_req_duration\{name:(\w+)\}$/.exec(name);
    if (named) {
      all[named[1]] = times(metric);
    }
  }
  return all;
}

function brokenThresholds(metrics) {
  const lines = [];
  for (const [name, metric] of Object.entries(metrics)) {
    for (const [expression, { ok }] of Object.entries(metric.thresholds || {})) {
      if (!ok) {
        lines.push(`${name}: ${expression}`);
      }
    }
  }
  return lines;
}

function brokenChecks(group) {
  const checks = (group && group.checks) || [];
  return checks.filter((c) => c.fails > 0).map((c) => `${c.name}: ${c.fails} of ${c.passes + c.fails} times not`);
}

function table(result) {
  const row = (name, cells) => `${name.padEnd(14)}${cells.map((c) => String(c).padStart(11)).join('')}`;
  return [
    '',
    row('ms', ['count', 'avg', 'p50', 'p95', 'p99', 'max']),
    ...Object.entries(result.times).map(([name, t]) => row(name, [t.count, ...[t.avg, t.p50, t.p95, t.p99, t.max].map((ms) => ms.toFixed(1))])),
    '',
    `${result.requests} requests, ${result.failed} failed; ${result.checks - result.checks_failed} of ${result.checks} checks held`,
  ].join('\n');
}

const indent = (text) => text.replace(/^(?=.)/gm, '  ');
