import assert from 'node:assert/strict';
import test from 'node:test';
import { arrival, destination, onward } from './handover.js';
import { behind, pauseBefore, pollIn, retryIn, rough, travelled, worthSaying } from './reckon.js';

const minute = 60_000;

test('the next poll', () => {
  for (const [name, given, want] of [
    ['in sight, as told', { told: 3000, low: 10 * minute }, 3000],
    ['hidden for a moment', { told: 3000, low: 60 * minute, hiddenFor: 4 * minute }, 3000],
    ['hidden for long, far away', { told: 3000, low: 60 * minute, hiddenFor: 5 * minute }, 5 * minute],
    ['a quarter of what is left', { told: 3000, low: 8 * minute, hiddenFor: 5 * minute }, 2 * minute],
    ['near the turn, as told', { told: 3000, low: 8000, hiddenFor: 50 * minute }, 3000],
    ['no estimate', { told: 3000, low: null, hiddenFor: 5 * minute }, minute],
    ['never faster than told', { told: 2 * minute, low: null, hiddenFor: 5 * minute }, 2 * minute],
    ['wants to be called', { told: 3000, low: 60 * minute, hiddenFor: 50 * minute, calls: true }, 3000],
  ]) assert.equal(pollIn(given), want, name);
});

test('the next try', () => {
  const tries = [1, 2, 3, 50].map((failures) => retryIn({ failures, random: 0.5 }));
  assert.deepEqual(tries, [1500, 2400, 3840, 30_000]);
  assert.equal(retryIn({ failures: 1, asked: 7000, random: 0.5 }), 7000);
  assert.equal(retryIn({ failures: 1, told: 9000, random: 0.5 }), 9000);
  assert.equal(pauseBefore(10_000, 9_400), 400);
  assert.equal(pauseBefore(10_000, 5_000), 0);
  assert.equal(pauseBefore(10_000, 99_000), 1000, 'a clock that was set back');
});

test('the bar never goes back', () => {
  let j = null;
  const bar = (position, entered = 'a') => (j = travelled(j, entered, position)).best;
  assert.equal(bar(11), 0);
  assert.equal(bar(6), 0.5);
  assert.equal(bar(8), 0.5, 'somebody came back in front');
  assert.equal(bar(1), 1, 'next');
  assert.equal(bar(5, 'b'), 0, 'another place');
  assert.equal(bar(1, 'c'), null, 'the first of all has no way to go');
  assert.equal(bar(2, 'c'), null);
  assert.equal(bar(12, 'd'), 0);
  assert.equal(bar(40, 'd'), 0);
});

test('people behind', () => {
  assert.equal(behind(342, 1207), 865);
  assert.equal(behind(1, 1), 0);
  assert.equal(behind(5, 3), 0, 'two figures of different moments');
});

test('a rough span', () => {
  for (const [low, high, want] of [
    [0, 9_999, null],
    [0, 10_000, ['second', 10, 10]],
    [11_000, 42_000, ['second', 20, 50]],
    [240_000, 360_000, ['minute', 4, 6]],
    [80_000, 91_000, ['minute', 2, 2]],
    [5_400_000, 5_400_000, ['minute', 90, 90]],
    [5_000_000, 7_300_000, ['hour', 1.5, 2.5]],
  ]) {
    const got = rough(low, high);
    assert.deepEqual(got && [got.unit, got.a, got.b], want, `${low} to ${high}`);
  }
});

test('what is read out', () => {
  assert.ok(worthSaying(null, 10, 0));
  const last = { position: 10, at: 0 };
  assert.ok(!worthSaying(last, 9, 59_000));
  assert.ok(worthSaying(last, 9, 60_000));
  assert.ok(worthSaying(last, 5, 1000), 'half');
  assert.ok(!worthSaying(last, 10, 600_000), 'the same');
});

test('what the shop gives along', () => {
  assert.equal(arrival(''), null);
  assert.equal(arrival('#title'), null);
  assert.deepEqual(arrival('#enter'), { enter: true, to: null, login: null });
  assert.deepEqual(arrival('#enter&to=%2Fcart%3Fa%3D1&login=a.b.c'), { enter: true, to: '/cart?a=1', login: 'a.b.c' });
  assert.deepEqual(arrival('#to=/x'), { enter: false, to: '/x', login: null });
});

test('where it goes on', () => {
  const shop = 'https://shop.example/start';
  const here = 'https://queue.example/wait?line=a';
  for (const [to, want] of [
    [null, shop],
    ['', shop],
    ['/cart?item=1', 'https://shop.example/cart?item=1'],
    ['cart', 'https://shop.example/cart'],
    ['https://shop.example/cart', 'https://shop.example/cart'],
    ['https://shop.example:443/cart', 'https://shop.example/cart'],
    // Anywhere else is refused.
    ['https://evil.example/', shop],
    ['//evil.example/', shop],
    ['/\\evil.example/', shop],
    ['\\\\evil.example/', shop],
    ['/\t/evil.example/', shop],
    ['https:evil.example', 'https://shop.example/evil.example'], // a path, by the rules of addresses
    ['http://shop.example/', shop],
    ['https://shop.example:8443/', shop],
    ['https://shop.example@evil.example/', shop],
    ['https://user:word@shop.example/', shop],
    ['https://shop.example.evil.example/', shop],
    ['javascript:alert(1)', shop],
    ['JaVaScRiPt:alert(1)', shop],
    ['\u0001javascript:alert(1)', shop],
    ['java\nscript:alert(1)', shop],
    ['data:text/html,x', shop],
    ['blob:https://shop.example/1', shop],
    ['filesystem:https://shop.example/1', shop],
    ['https://[', shop],
  ]) assert.equal(destination(to, shop, here).href, want, JSON.stringify(to));
  assert.equal(destination('/orders', '/', here).href, 'https://queue.example/orders');
  assert.equal(destination('/wait?line=b', '/', here).href, 'https://queue.example/', 'not back to the waiting page');
});

test('what the shop is given', () => {
  assert.equal(
    onward('https://shop.example/cart?item=1#part', { token: 'a.b.c', line: 'vip', expiresIn: 179_999.4 }),
    'https://shop.example/cart?item=1#sluice_token=a.b.c&sluice_line=vip&sluice_expires_in_ms=179999',
  );
  assert.match(onward('https://shop.example/', { token: 'a', line: 'b', expiresIn: -1 }), /expires_in_ms=0$/);
});
