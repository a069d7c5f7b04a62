// The cascade that a waiting room must not have: slow orders that make the
// queue slow. The same crowd of polling visitors is measured twice, first
// without one order running, then while a closed loop of buyers keeps every
// order worker busy. See k6/README.md for the service to start and how to read
// the table.
//
//   k6 run k6/cascade.js
//
// In both phases nobody of the crowd is let in, so both ask the same questions
// from the same positions. The buyers got their tokens before: the line is in
// passthrough until they all have, and stands still from then on.
//
//   0          gate        quiet                lead     saturated          end
//   |--tokens--|--settle--|--crowd--|--leave--|--orders--|--crowd + orders--|
import { check } from 'k6';
import exec from 'k6/execution';
import { Trend } from 'k6/metrics';
import { arrive, crowd, sleepUntil } from './lib/crowd.js';
import { number, seconds } from './lib/env.js';
import { changeLine, createProduct, delayOrders, letEverybodyIn, putBack, restartLine } from './lib/operator.js';
import { percent, summary, times } from './lib/summary.js';
import { bound, thresholds, trendStats } from './lib/thresholds.js';
import { Visitor } from './lib/visitor.js';

const users = number('USERS', 1000);
const ramp = seconds('RAMP', '5s');
const hold = seconds('HOLD', '40s'); // the length of a phase, its ramp included
const buyers = number('BUYERS', 60);
const workers = number('WORKERS', 10); // orders.workers of the service
const delay = seconds('ORDER_DELAY', '1298ms');

// The queue is isolated if no p95 of the saturated phase is more than this
// many times that of the quiet one, or, where that is larger, this many ms.
const maxRatio = number('MAX_RATIO', 1.5);
const floor = number('FLOOR_MS', 3);

// The timetable, in seconds since the start.
const gate = Math.max(5, buyers / 20); // the buyers have their tokens
const quiet = gate + 3; // whoever started a batch before the gate has ended it
const lead = quiet + hold + 5; // the first crowd has left, orders begin
const saturated = lead + Math.max(3, 2 * delay); // every worker has had an order
const end = saturated + hold;

// Each buyer needs tokens for a turn at the workers every buyers × delay ÷
// workers seconds, and two to spare.
const turn = (buyers * delay) / workers;
const tokens = Math.ceil((end - lead) / turn) + 2;

const completed = new Trend('order_completed_at', true); // ms since the start

export const options = {
  scenarios: {
    buyers: {
      executor: 'per-vu-iterations',
      exec: 'buy',
      vus: buyers,
      iterations: 1,
      maxDuration: `${Math.ceil(end + 2 * turn) + 30}s`,
    },
    gate: { executor: 'shared-iterations', exec: 'closeGate', vus: 1, iterations: 1, startTime: `${gate}s`, maxDuration: '2s' },
    quiet: crowd(users, 0, hold, { exec: 'wait', startTime: `${quiet}s`, maxDuration: `${hold + 4}s` }),
    saturated: crowd(users, 0, hold, { exec: 'wait', startTime: `${saturated}s`, maxDuration: `${hold + 30}s` }),
  },
  setupTimeout: '30s',
  thresholds: thresholds({
    ...bound('order', 15000),
    ...bounds('quiet'),
    ...bounds('saturated'),
    order_completed_at: ['max>0'], // there were orders
  }),
  summaryTrendStats: trendStats,
};

// A metric of one phase is in the summary only if a threshold names it.
function bounds(phase) {
  return {
    [of('enter', phase)]: [`p(95)<${number('P95_ENTER', 1000)}`],
    [of('position', phase)]: [`p(95)<${number('P95_POSITION', 1000)}`],
    [`http_req_failed{scenario:${phase}}`]: ['rate==0'],
  };
}

function of(name, phase) {
  return `http_req_duration{name:${name},scenario:${phase}}`;
}

export function setup() {
  delayOrders(Math.round(delay * 1000));
  restartLine(); // nobody of an earlier run may stand in front of the crowd
  const before = letEverybodyIn();
  return { product: createProduct(), before, start: Date.now() };
}

// buy collects one buyer's tokens and spends them, one order after the other,
// while the saturated phase lasts.
export function buy({ product, start }) {
  const purse = [];
  for (let i = 0; i < tokens; i++) {
    const visitor = new Visitor();
    if (visitor.enter() && visitor.pollUntilAdmitted(gate)) {
      purse.push(visitor);
    }
  }
  if (purse.length < tokens) {
    exec.test.abort(`a buyer got ${purse.length} of ${tokens} tokens`);
  }
  if (purse.some((v) => v.answer.expires_in_ms / 1000 < end + turn)) {
    exec.test.abort(`line.admission_ttl must be longer than the run: ${Math.ceil(end + turn)} s`);
  }

  sleepUntil(start + lead * 1000);
  while (purse.length > 0 && Date.now() < start + end * 1000) {
    const res = purse.pop().order(product);
    if (check(res, { 'order: 201': (r) => r.status === 201 })) {
      completed.add(Date.now() - start);
    }
  }
  // Out of tokens means that orders were faster than they were slowed to be.
  check(purse, { 'buyers: the tokens last to the end': (p) => p.length > 0 });
}

// closeGate ends the passthrough: from now on whoever enters waits.
export function closeGate() {
  changeLine({ mode: 'normal', rate_override: 0 });
}

// wait is one visitor of a crowd: enter, poll as told to the end of the phase,
// and make room for the next crowd.
export function wait() {
  const last = exec.scenario.startTime + hold * 1000;
  arrive(users, ramp);
  const visitor = new Visitor();
  if (!visitor.enter()) {
    return;
  }
  visitor.pollUntil(last);
  check(visitor.answer, { 'crowd: nobody is let in': (a) => a.state === 'waiting' });
  visitor.leave();
}

export function teardown({ before }) {
  putBack(before);
  delayOrders(0);
}

export const handleSummary = summary('cascade', (metrics) => {
  const measured = [of('enter', 'quiet'), of('position', 'quiet'), of('enter', 'saturated'), of('position', 'saturated'), 'order_completed_at'];
  if (!measured.every((name) => metrics[name] && metrics[name].values.count > 0)) {
    return null;
  }
  const result = judge(metrics);
  return { lines: phases(result), ...result };
});

function judge(metrics) {
  const phase = (name) => ({
    enter: times(metrics[of('enter', name)]),
    position: times(metrics[of('position', name)]),
    failed: metrics[`http_req_failed{scenario:${name}}`].values.rate,
  });
  const result = { users, buyers, workers, order_delay_ms: Math.round(delay * 1000), quiet: phase('quiet'), saturated: phase('saturated') };
  result.isolated = ['enter', 'position'].every(
    (name) => result.saturated[name].p95 <= Math.max(maxRatio * result.quiet[name].p95, floor),
  );
  result.orders = throughput(metrics.order_completed_at);
  return result;
}

// throughput counts the orders between the first and the last completion. The
// first of each worker starts the clock and is not counted: workers that start
// together end together, and counting their first orders in no time at all
// would flatter the figure.
function throughput(metric) {
  const span = (metric.values.max - metric.values.min) / 1000;
  const count = metric.values.count;
  const rate = (count - workers) / span;
  const possible = workers / delay;
  return { count, seconds: span, per_second: rate, possible_per_second: possible, share: rate / possible };
}

function phases(result) {
  const rows = [['', 'quiet', 'saturated', 'ratio']];
  for (const name of ['enter', 'position']) {
    for (const stat of ['avg', 'p95', 'p99', 'max']) {
      const [a, b] = [result.quiet[name][stat], result.saturated[name][stat]];
      rows.push([`${name} ${stat}, ms`, a.toFixed(2), b.toFixed(2), (b / a).toFixed(2)]);
    }
    rows.push([`${name} requests`, result.quiet[name].count, result.saturated[name].count, '']);
  }
  rows.push(['failed', percent(result.quiet.failed), percent(result.saturated.failed), '']);

  const o = result.orders;
  return [
    '',
    ...rows.map(([label, ...cells]) => `${label.padEnd(20)}${cells.map((c) => String(c).padStart(12)).join('')}`),
    '',
    `orders    ${o.count} in ${o.seconds.toFixed(1)} s = ${o.per_second.toFixed(2)}/s, ` +
      `${percent(o.share)} of ${workers} workers / ${delay} s = ${o.possible_per_second.toFixed(2)}/s`,
    `isolated  ${result.isolated ? 'yes' : 'NO'} (each p95 at most ${maxRatio} times the quiet one, or under ${floor} ms)`,
  ];
}
