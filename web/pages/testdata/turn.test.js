import assert from 'node:assert/strict';
import test from 'node:test';

// What a browser has; the tab's storage can be switched off.
const stored = new Map();
let storageOff = false;
const through = (use) => (...args) => {
  if (storageOff) throw new Error('storage is off');
  return use(...args);
};
globalThis.sessionStorage = {
  getItem: through((key) => stored.get(key) ?? null),
  setItem: through((key, value) => void stored.set(key, value)),
};
globalThis.location = { pathname: '/', search: '?lang=ko', hash: '', assign: (address) => (location.went = address) };
globalThis.history = { state: null, replaceState: (_, __, address) => (location.shows = address) };
globalThis.setTimeout = (f) => queueMicrotask(f); // nobody waits here

const { fits, getInLine, kept, live, present, takeTurn, turn, wanted } = await import('./turn.js');
const coupons = await import('./coupons.js');

test('where a line is got in', () => {
  for (const [line, address] of [[null, '/wait#enter'], ['vip', '/wait?line=vip#enter'], ['a b', '/wait?line=a%20b#enter']]) {
    getInLine(line);
    assert.equal(location.went, address);
  }
});

test('a turn is taken from the fragment, which is gone then', () => {
  location.hash = '#other=1';
  assert.equal(takeTurn(), false);
  assert.equal(location.shows, undefined);
  location.hash = '#sluice_token=a.b.c&sluice_line=vip&sluice_expires_in_ms=60000';
  assert.equal(takeTurn(), true);
  assert.equal(location.shows, '/?lang=ko');
  const { token, line, expiresAt } = turn.get();
  assert.deepEqual([token, line], ['a.b.c', 'vip']);
  assert.ok(Math.abs(expiresAt - Date.now() - 60_000) < 5_000);
  assert.equal(live().token, 'a.b.c');
  assert.ok(JSON.parse(stored.get('sluice.turn')).token);
});

test('a token that nobody went in line for replaces no turn and buys nothing by itself', () => {
  const arrive = (token) => {
    location.hash = `#sluice_token=${token}&sluice_expires_in_ms=60000`;
    return takeTurn();
  };
  turn.clear();
  wanted.set({ path: '/orders' });
  assert.equal(arrive('a.link'), true);
  assert.equal(wanted.get(), null);
  assert.equal(arrive('another.link'), false);
  assert.equal(live().token, 'a.link');
  wanted.set({ path: '/orders' });
  getInLine(null);
  assert.equal(arrive('own'), true);
  assert.deepEqual([live().token, wanted.get().path], ['own', '/orders']);
  assert.equal(arrive('a.third.link'), false);
  wanted.clear();
});

test('a turn is over when its time is', () => {
  turn.set({ token: 'a', line: 'default', expiresAt: Date.now() - 1 });
  assert.equal(live(), null);
  turn.clear();
  assert.equal(live(), null);
});

test('what belongs to a line needs a turn of that line', () => {
  const held = { line: 'default' };
  assert.deepEqual([fits(held, null), fits(held, 'default'), fits(held, 'vip'), fits(null, null)], [true, true, false, false]);
});

test('without storage the tab keeps it in memory', () => {
  const thing = kept('thing');
  storageOff = true;
  assert.equal(thing.get(), null);
  thing.set({ n: 1 });
  assert.deepEqual(thing.get(), { n: 1 });
  thing.clear();
  assert.equal(thing.get(), null);
  wanted.set({ path: '/orders' });
  assert.equal(wanted.get().path, '/orders');
  storageOff = false;
  wanted.clear();
});

// asked answers one after the other, and counts; the last for good.
function asked(...answers) {
  const seen = [];
  globalThis.fetch = async (path, init) => {
    seen.push([path, init]);
    if (seen.length > 20) return new Response('{}', { status: 201 }); // it would go on for ever
    const answer = answers[Math.min(seen.length, answers.length) - 1];
    if (!answer) throw new TypeError('no connection');
    const [status, body] = answer;
    return new Response(JSON.stringify(body), { status });
  };
  return seen;
}

test('a request is made until there is an answer for good, always the same', async () => {
  const body = { items: [{ product_id: 1, quantity: 1 }] };
  const seen = asked(null, [503, { code: 'overloaded', retry_after_ms: 1 }], [425, {}], [429, {}], [502, {}], [504, {}], [201, { order_id: 'x' }]);
  const told = [];
  const answer = await present('a.b.c', 'POST', '/orders', body, (status) => told.push(status));
  assert.equal(answer.status, 201);
  assert.deepEqual(told, [0, 503, 425, 429, 502, 504]);
  assert.equal(new Set(seen.map((one) => JSON.stringify([one[0], one[1].headers, one[1].body]))).size, 1);
  assert.equal(seen[0][1].headers.Authorization, 'Bearer a.b.c');
});

test('what is refused is not asked again', async () => {
  for (const status of [200, 202, 400, 401, 402, 403, 404, 409, 500]) {
    const seen = asked([status, { code: 'x' }]);
    assert.equal((await present('a', 'POST', '/orders', {})).status, status);
    assert.equal(seen.length, 1);
  }
});

test('the best coupon that fits goes with an order, once', () => {
  coupons.keep(1, { code: 'one', line: null, discount: 500 });
  coupons.keep(2, { code: 'two', line: 'vip', discount: 900 });
  coupons.keep(3, { code: 'three', line: null, discount: 700 });
  assert.equal(coupons.next('default').code, 'three');
  assert.equal(coupons.next('vip').code, 'two');
  coupons.keep(coupons.byCode('three'), { used: true });
  assert.equal(coupons.next('default').code, 'one');
  assert.equal(coupons.coupon(3).code, 'three');
  coupons.keep(1, { used: true });
  assert.equal(coupons.next('default'), undefined);
});
