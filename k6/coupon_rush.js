// The rush for coupons: everybody gets their token first, and then, at one moment
// of the wall clock, all claim the same coupon at once. There are half as many
// coupons as users.
//
//   k6 run k6/coupon_rush.js
//
//   0            moment - SETTLE      moment
//   |--tokens, over RAMP--|--silence--|--all claims--|
import { check, sleep } from 'k6';
import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { arrive, crowd, sleepUntil } from './lib/crowd.js';
import { number, seconds } from './lib/env.js';
import { createCoupon, letEverybodyIn, putBack } from './lib/operator.js';
import { summary, times, value } from './lib/summary.js';
import { bound, nothingFails, trendStats } from './lib/thresholds.js';
import { Visitor } from './lib/visitor.js';

const users = number('USERS', 10000);
const coupons = number('COUPONS', Math.floor(users / 2));
const ramp = seconds('RAMP', '30s');
const settle = seconds('SETTLE', '5s');

// The connection that brought the token is the one that claims. A service closes it
// after 75 idle seconds.
if (ramp + settle > 60) {
  throw new Error('RAMP and SETTLE together must be at most 60s');
}

const winners = Math.min(users, coupons);

const issued = new Counter('coupons_issued');
const soldOut = new Counter('coupons_sold_out');
// answered is the time from the moment to each answer. Unlike http_req_duration it
// has in it how long the users themselves waited for a processor to send their claim.
const answered = new Trend('claim_answered', true);

export const options = {
  scenarios: { rush: crowd(users, ramp, settle, { maxDuration: `${Math.ceil(ramp + settle) + 90}s` }) },
  thresholds: {
    ...nothingFails,
    ...bound('enter', 1000),
    ...bound('claim', 1500),
    coupons_issued: [`count==${winners}`],
    coupons_sold_out: [`count==${users - winners}`],
    claim_answered: ['max>0'], // there were claims
  },
  summaryTrendStats: trendStats,
};

export function setup() {
  return { coupon: createCoupon(coupons), before: letEverybodyIn() };
}

export default function ({ coupon }) {
  const moment = exec.scenario.startTime + (ramp + settle) * 1000;
  arrive(users, ramp);
  const visitor = new Visitor();
  if (!visitor.enter()) {
    return;
  }
  const early = moment - Date.now() - visitor.answer.usable_in_ms;
  if (!check(early, { 'a token that is good before the moment': (ms) => ms >= 0 })) {
    return;
  }
  sleepUntil(moment);
  const res = visitor.claim(coupon);
  const after = Date.now() - moment;

  // The answers are judged when all are there: to do it meanwhile would take the
  // service's own time.
  sleepUntil(moment + 10000);
  answered.add(after);
  const code = res.json('code');
  const won = res.status === 201 && Boolean(code);
  const lost = res.status === 409 && code === 'sold_out';
  check(res, { 'claim: a code, or sold out': () => won || lost });
  issued.add(won ? 1 : 0);
  soldOut.add(lost ? 1 : 0);
}

export function teardown({ coupon, before }) {
  putBack(before);
  sleep(2); // what everybody may read of a coupon is up to a second old
  check(new Visitor().readCoupon(coupon), {
    'what is left of the coupons': (r) => r.status === 200 && r.json('quantity') === coupons && r.json('remaining') === coupons - winners,
  });
}

export const handleSummary = summary('coupon_rush', (metrics) => {
  const claims = times(metrics['http_req_duration{name:claim}']);
  const answers = times(metrics.claim_answered);
  if (answers.count === 0) {
    return null;
  }
  const result = {
    users,
    coupons,
    issued: value(metrics, 'coupons_issued', 'count'),
    sold_out: value(metrics, 'coupons_sold_out', 'count'),
    answered_ms: answers,
  };
  const row = (name, t) => `${name.padEnd(34)}${[t.p50, t.p95, t.p99, t.max].map((ms) => ms.toFixed(0).padStart(9)).join('')}`;
  const lines = [
    '',
    `${users} claims at once for ${coupons} coupons: ${result.issued} issued, ${result.sold_out} told that it is sold out`,
    '',
    `${'ms'.padEnd(34)}${['p50', 'p95', 'p99', 'max'].map((s) => s.padStart(9)).join('')}`,
    row('a claim, sent to answered', claims),
    row('from the moment to the answer', answers),
  ];
  return { lines, ...result };
});
