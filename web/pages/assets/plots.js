// Which charts there are, and what each shows.

import { Chart } from './charts.js';
import { number, t } from './texts.js';

const rounded = (v) => number(Math.abs(v) < 100 ? Math.round(v * 10) / 10 : Math.round(v));

// share is a part of 1 as a percentage that says which way it is off.
const share = (v) => `${v > 0 ? '+' : ''}${number(Math.round(v * 100))} %`;

// named is columns under the names that people read.
const named = (...columns) => (past) => columns.map(([column, name]) => ({ name, values: past.column(column) }));

// parts are the capacities of the processes, stacked: those that come first by name,
// and the others as one.
function parts(past) {
  const all = past.below('processes').sort(([a], [b]) => (a < b ? -1 : 1));
  return grouped(all, 4).map((series) => ({ ...series, area: true }));
}

function grouped(all, most) {
  const shown = all.slice(0, most).map(([name, values]) => ({ name, values }));
  const others = all.slice(most).map(([, values]) => values);
  if (others.length) {
    const sum = others[0].map((_, i) => others.reduce((a, values) => (values[i] === null ? a : (a ?? 0) + values[i]), null));
    shown.push({ name: t('admin.others'), values: sum });
  }
  return shown;
}

// errors are the codes that were answered most. That a visitor has no ticket yet is none:
// every first look at the waiting page says so.
function errors(past) {
  const total = (values) => values.reduce((a, v) => a + (v ?? 0), 0);
  const all = past.below('errors').filter(([code]) => code !== 'ticket_missing').map(([code, values]) => [code.replaceAll('_', ' '), values]).filter(([, values]) => total(values) > 0);
  return grouped(all.sort((a, b) => total(b[1]) - total(a[1])), 5);
}

const kinds = {
  waiting: () => ({ title: t('admin.waiting'), unit: t('admin.unitVisitors'), series: named(['waiting', t('admin.waiting')]), format: rounded }),
  pace: () => ({
    title: t('admin.chartPace'), unit: t('admin.unitPerSecond'), format: rounded,
    series: named(['arrivals_per_second', t('admin.arrivals')], ['admitted_per_second', t('admin.letIn')]),
  }),
  capacity: () => ({
    title: t('admin.chartCapacity'), unit: t('admin.unitPerSecond'), format: rounded,
    series: (past) => [{ name: t('admin.rate'), values: past.column('rate') }, ...parts(past)],
  }),
  estimate: () => ({
    title: t('admin.chartEstimate'), unit: t('admin.unitEstimate'), format: share,
    series: named(['estimate_error', t('admin.chartEstimate')]),
  }),
  pool: () => ({
    title: t('admin.chartPool'), unit: t('admin.unitWorkers'), format: rounded,
    series: named(['busy', t('admin.busy')], ['workers', t('admin.workers')]),
  }),
  backlog: () => ({ title: t('admin.backlog'), unit: t('admin.unitOrders'), format: rounded, series: named(['backlog', t('admin.backlog')]) }),
  latency: () => ({
    title: t('admin.chartLatency'), unit: t('admin.unitMS'), format: rounded,
    series: named(['order_ms.p50', 'p50'], ['order_ms.p95', 'p95'], ['order_ms.p99', 'p99']),
  }),
  errors: () => ({ title: t('admin.chartErrors'), unit: t('admin.unitPerSecond'), format: rounded, series: errors }),
};

// plots makes all charts of the page.
export const plots = () => [...document.querySelectorAll('figure[data-chart]')].map((figure) => new Chart(figure, kinds[figure.dataset.chart]()));
