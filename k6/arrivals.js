// Arrivals at a constant rate: 10,000 people a second for 30 seconds, whether the
// answers keep up or not. Nobody may be refused, and in the end the line must hold
// exactly those who entered.
//
//   k6 run k6/arrivals.js
//
// The line is paused meanwhile, so that nobody leaves it at the other end.
import { check } from 'k6';
import { Counter } from 'k6/metrics';
import { number, seconds } from './lib/env.js';
import { letNobodyIn, putBack, waiting } from './lib/operator.js';
import { percent, summary, value } from './lib/summary.js';
import { bound, nothingFails, trendStats } from './lib/thresholds.js';
import { Visitor } from './lib/visitor.js';

const rate = number('RATE', 10000);
const duration = seconds('DURATION', '30s');
const users = number('USERS', Math.ceil(rate / 5)); // how many may wait for their answer at one time
const minShare = number('MIN_SHARE', 0.99); // of those who were to come

const entered = new Counter('entered');
// Thresholds cannot compare a counter with the line: one counts up and down.
const lineAmiss = new Counter('line_amiss');

export const options = {
  scenarios: {
    arrivals: { executor: 'constant-arrival-rate', rate, timeUnit: '1s', duration: `${duration}s`, preAllocatedVUs: users, maxVUs: users },
  },
  thresholds: {
    ...nothingFails,
    ...bound('enter', 1000),
    entered: [`count>=${Math.floor(minShare * rate * duration)}`],
    line_amiss: ['count==0'],
  },
  summaryTrendStats: trendStats,
};

export function setup() {
  const before = letNobodyIn();
  return { before, waited: waiting() };
}

// The answer's body is not read: at this rate its parsing would be most of what is
// measured. That everybody has a place is counted in the end.
export default function () {
  const res = new Visitor().askForPlace();
  if (check(res, { 'enter: a place': (r) => r.status === 201 })) {
    entered.add(1);
    lineAmiss.add(1);
  }
}

export function teardown({ before, waited }) {
  lineAmiss.add(waited - waiting());
  putBack(before);
}

export const handleSummary = summary('arrivals', (metrics) => {
  const came = value(metrics, 'entered', 'count');
  const result = {
    planned: rate * duration,
    entered: came,
    per_second: came / duration,
    line_amiss: value(metrics, 'line_amiss', 'count'),
  };
  const lines = [
    '',
    `${came} entered in ${duration} s, ${result.per_second.toFixed(0)}/s, ${percent(came / result.planned)} of ${result.planned}; ` +
      (result.line_amiss === 0 ? 'the line holds exactly those' : `the line is ${Math.abs(result.line_amiss)} ${result.line_amiss > 0 ? 'short' : 'too long'}`),
  ];
  return { lines, ...result };
});
