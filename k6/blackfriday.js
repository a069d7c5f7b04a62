// Mass entry: 1,000 users come in over 5 seconds and each polls, as told, for
// 30 seconds.
//
//   k6 run k6/blackfriday.js
import { crowd, visit } from './lib/crowd.js';
import { number, seconds } from './lib/env.js';
import { createProduct } from './lib/operator.js';
import { summary } from './lib/summary.js';
import { thresholds, trendStats } from './lib/thresholds.js';

const users = number('USERS', 1000);
const ramp = seconds('RAMP', '5s');
const hold = seconds('HOLD', '30s');

export const options = {
  scenarios: { blackfriday: crowd(users, ramp, hold) },
  thresholds: thresholds(),
  summaryTrendStats: trendStats,
};

export function setup() {
  return { product: createProduct() };
}

export default function ({ product }) {
  visit(users, ramp, hold, product);
}

export const handleSummary = summary('blackfriday', () => ({ users }));
