// Order and pay, in a closed loop: each user gets a token, creates an order, reads
// its id and total, waits a second, has it paid, and waits a second more, again and
// again for a minute. The payment provider takes a second of its own.
//
//   k6 run k6/order_payment.js
//
// If the service took no time a user would make two requests, order and payment, in
// three seconds. How much of that ceiling is reached does not depend on the machine.
import { check, fail, sleep } from 'k6';
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
import { number, seconds } from './lib/env.js';
import { createProduct, letEverybodyIn, orderSummary, putBack } from './lib/operator.js';
import { percent, summary, value } from './lib/summary.js';
import { bound, nothingFails, trendStats } from './lib/thresholds.js';
import { Visitor } from './lib/visitor.js';

const users = number('USERS', 700);
const duration = seconds('DURATION', '60s');
const provider = seconds('PROVIDER_TIME', '1s'); // what the payment provider takes
const think = 1;
const minShare = number('MIN_SHARE', 0.9);

const ceiling = (2 * users) / (2 * think + provider); // requests per second

// inTime counts the orders and payments that were answered before the time was over.
const inTime = new Counter('requests_in_time');
// What was acknowledged and not found in the database afterwards, or the other way
// round: thresholds cannot compare two counters, so one counts up and down.
const ordersAmiss = new Counter('orders_amiss');
const paymentsAmiss = new Counter('payments_amiss');

export const options = {
  scenarios: {
    order_payment: { executor: 'constant-vus', vus: users, duration: `${duration}s`, gracefulStop: '60s' },
  },
  thresholds: {
    ...nothingFails,
    ...bound('enter', 1000),
    ...bound('order', 5000),
    ...bound('payment', 5000 + 1000 * provider),
    requests_in_time: [`count>=${Math.ceil(minShare * ceiling * duration)}`],
    orders_amiss: ['count==0'],
    payments_amiss: ['count==0'],
  },
  summaryTrendStats: trendStats,
};

export function setup() {
  const before = letEverybodyIn();
  const visitor = new Visitor();
  visitor.enter();
  if (!(visitor.answer.usable_in_ms <= 20)) {
    putBack(before);
    fail('tokens must be good at once: start the service with SLUICE_LINE_JITTER=0s');
  }
  return { product: createProduct(), before, earlier: orderSummary() };
}

export default function ({ product }) {
  const end = exec.scenario.startTime + duration * 1000;
  const visitor = new Visitor();
  if (!visitor.enter()) {
    return;
  }
  visitor.waitUntilUsable();

  const order = visitor.order(product);
  const id = order.json('order_id');
  if (!check(order, { 'order: its id and total': (r) => r.status === 201 && Boolean(id) && r.json('total') === 1000 })) {
    return;
  }
  acknowledged(ordersAmiss, end);
  sleep(think);
  const payment = visitor.pay(id);
  if (check(payment, { 'payment: paid': (r) => r.status === 200 && r.json('state') === 'paid' })) {
    acknowledged(paymentsAmiss, end);
  }
  sleep(think);
}

function acknowledged(amiss, end) {
  amiss.add(1);
  inTime.add(Date.now() <= end ? 1 : 0);
}

export function teardown({ before, earlier }) {
  putBack(before);
  const now = orderSummary();
  const paid = (s) => s.by_state.paid || 0;
  ordersAmiss.add(earlier.orders - now.orders);
  paymentsAmiss.add(paid(earlier) - paid(now));
}

export const handleSummary = summary('order_payment', (metrics) => {
  const rate = value(metrics, 'requests_in_time', 'count') / duration;
  const share = rate / ceiling;
  return {
    lines: ['', `${users} users, ${duration} s: ${rate.toFixed(1)} requests/s, ${percent(share)} of the ${ceiling.toFixed(1)} that the loop allows`],
    users,
    requests_per_second: rate,
    ceiling_per_second: ceiling,
    share,
  };
});
