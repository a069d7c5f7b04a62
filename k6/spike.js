// A sudden burst: 1,000 users within one second, each polls a few times, as
// told, for 10 seconds.
//
//   k6 run k6/spike.js
import { crowd, visit } from './lib/crowd.js';
import { number, seconds } from './lib/env.js';
import { createProduct } from './lib/operator.js';
import { summary } from './lib/summary.js';
import { thresholds, trendStats } from './lib/thresholds.js';

const users = number('USERS', 1000);
const ramp = seconds('RAMP', '1s');
const hold = seconds('HOLD', '10s');

export const options = {
  scenarios: { spike: crowd(users, ramp, hold) },
  thresholds: thresholds(),
  summaryTrendStats: trendStats,
};

export function setup() {
  return { product: createProduct() };
}

export default function ({ product }) {
  visit(users, ramp, hold, product);
}

export const handleSummary = summary('spike', () => ({ users }));
