import http from 'k6/http';
import { fail, sleep } from 'k6';
import { adminToken, line, urls } from './env.js';

// The operator API. It takes changes only as JSON, without a foreign Origin
// (none is sent) and under the Host that the listener is known by, which is the
// one in the URL. A call that fails ends setup(), teardown() or the iteration:
// an experiment whose conditions were not set measures nothing.

const lineURL = `${urls.queueAdmin}/admin/api/lines/${encodeURIComponent(line)}`;
const ordersURL = `${urls.ordersAdmin}/admin/api/orders`;

// createProduct makes a product of which there is more than any run can buy, so
// that stock never limits the figures, and returns its id.
export function createProduct() {
  const made = call('POST', `${urls.ordersAdmin}/admin/api/products`, 201, {
    name: 'Load test mug',
    brand: 'Sluice',
    price: 1000,
    stock: 999999,
    image_url: 'https://example.com/mug.jpg',
  });
  return made.product_id;
}

// createCoupon makes a coupon of which there are so many and returns its id.
export function createCoupon(quantity) {
  const made = call('POST', `${urls.ordersAdmin}/admin/api/coupons`, 201, {
    name: 'Load test coupon',
    quantity,
    discount: 100,
  });
  return made.coupon_id;
}

// letEverybodyIn ends all waiting and returns the line as it was, for putBack().
export function letEverybodyIn() {
  const before = readLine();
  changeLine({ paused: false, mode: 'passthrough', rate_override: null, max_active: 0, max_length: 0 });
  return before;
}

// letNobodyIn has everybody wait who comes and returns the line as it was, for putBack().
export function letNobodyIn() {
  const before = readLine();
  changeLine({ paused: true, mode: 'normal', max_length: 0 });
  return before;
}

// waiting is how many wait, counted now: what the operator reads is up to a second old.
export function waiting() {
  sleep(2);
  return readLine().waiting;
}

export const putBack = ({ paused, mode, rate_override, max_active, max_length }) =>
  changeLine({ paused, mode, rate_override, max_active, max_length });

const readLine = () => call('GET', lineURL, 200);

export const changeLine = (change) => call('PATCH', lineURL, 200, change);

export const restartLine = () => call('POST', `${lineURL}/restart`, 200, {});

export const delayOrders = (ms) => call('PATCH', ordersURL, 200, { test_delay_ms: ms });

export const orderSummary = () => call('GET', `${ordersURL}/summary`, 200);

function call(method, url, expected, body) {
  const headers = {};
  if (adminToken) {
    headers.Authorization = `Bearer ${adminToken}`;
  }
  if (body) {
    headers['Content-Type'] = 'application/json';
  }
  const res = http.request(method, url, body ? JSON.stringify(body) : null, {
    headers,
    tags: { name: 'operator' },
    responseCallback: http.expectedStatuses(expected),
  });
  if (res.status !== expected) {
    fail(`${method} ${url}: ${res.status || res.error} where ${expected} was expected: ${res.body}`);
  }
  return res.json();
}
