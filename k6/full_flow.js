// A real user's path, 100 times: enter, poll until let in, order with the
// token, order again and get the same order, read it back. The run fails if
// one user gets no token or no order, or if the database counts another number
// of orders than the users were told of.
//
//   k6 run k6/full_flow.js
import { check } from 'k6';
import { Counter } from 'k6/metrics';
import { arrive, crowd } from './lib/crowd.js';
import { number, seconds } from './lib/env.js';
import { createProduct, orderSummary } from './lib/operator.js';
import { summary, value } from './lib/summary.js';
import { bound, thresholds, trendStats } from './lib/thresholds.js';
import { Visitor } from './lib/visitor.js';

const users = number('USERS', 100);
const ramp = seconds('RAMP', '0s');
const polls = number('POLLS', 20);

const orders = new Counter('orders_acknowledged');

export const options = {
  // Nobody is told to wait longer than half a minute between two polls.
  scenarios: { full_flow: crowd(users, ramp, polls * 30) },
  thresholds: thresholds({
    ...bound('order', 5000),
    orders_acknowledged: [`count==${users}`],
  }),
  summaryTrendStats: trendStats,
};

export function setup() {
  return { product: createProduct(), before: orderSummary().orders };
}

export default function ({ product }) {
  arrive(users, ramp);
  const visitor = new Visitor();
  const admitted = visitor.enter() && visitor.pollUntilAdmitted(polls);
  if (!check(visitor, { 'every user is let in': () => admitted })) {
    return;
  }
  visitor.waitUntilUsable();

  const first = visitor.order(product);
  if (!check(first, { 'every user gets an order': (r) => r.status === 201 && Boolean(r.json('order_id')) })) {
    return;
  }
  orders.add(1);

  const id = first.json('order_id');
  check(visitor.repeatOrder(product), {
    'ordering again gives the same order': (r) => r.status === 200 && r.json('order_id') === id,
  });
  check(visitor.readOrder(id), {
    'the order can be read back': (r) => r.status === 200 && r.json('order_id') === id && r.json('total') === 1000,
  });
}

export function teardown({ before }) {
  const made = orderSummary().orders - before;
  check(made, { 'the database counts one order per user': (n) => n === users });
}

export const handleSummary = summary('full_flow', (metrics) => ({ users, ordered: value(metrics, 'orders_acknowledged', 'count') }));
