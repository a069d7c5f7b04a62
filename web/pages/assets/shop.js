// The demo shop. What makes it one behind a waiting room is in turn.js; here is what it
// does with that: a click becomes a request that is made once there is a turn for it.
import { dressCoupon, dressProduct, showAll } from './cards.js';
import { byCode, keep, next } from './coupons.js';
import * as receipt from './receipt.js';
import { clock, number, say, t } from './texts.js';
import { fits, getInLine, live, present, takeTurn, turn, wanted } from './turn.js';

const $ = (id) => document.getElementById(id);
let busy = false; // a request is on its way
let shown = { products: [], coupons: [], line: null }; // as last read

say();
resume();
look();
setInterval(showTurn, 1000);
addEventListener('hashchange', () => busy || resume());
addEventListener('pageshow', (e) => e.persisted && !busy && resume()); // by the Back button
document.addEventListener('sluice-language', () => {
  render();
  if (receipt.there()) receipt.show();
});
document.addEventListener('click', ({ target }) => {
  const button = target.closest('button[data-do]');
  if (button && !busy) does[button.dataset.do](button);
});

const does = {
  buy(button) {
    const id = Number(button.closest('[data-product]').dataset.product);
    const p = shown.products.find((one) => one.product_id === id);
    const body = { items: [{ product_id: p.product_id, quantity: 1 }] };
    const coupon = next(p.line ?? live()?.line ?? 'default');
    if (coupon) body.coupon_code = coupon.code;
    start({ path: '/orders', body, line: p.line, name: p.name });
  },
  claim(button) {
    const id = Number(button.closest('[data-coupon]').dataset.coupon);
    const c = shown.coupons.find((one) => one.coupon_id === id);
    start({ path: `/coupons/${c.coupon_id}/claim`, coupon: c, line: c.line, name: c.name });
  },
  pay: receipt.pay,
  close() {
    receipt.close();
    render();
    $('title').focus();
  },
  again: (button) => getInLine(button.dataset.line),
  forget() {
    wanted.clear();
    $('notice').hidden = true;
    render();
    $('title').focus();
  },
};

// start makes a request with the turn at hand, or gets in line for one.
function start(want) {
  if (receipt.open()) return receipt.show(t('shop.first'), true);
  receipt.close();
  wanted.set(want);
  if (fits(live(), want.line)) return proceed();
  if (!live()) turn.clear();
  tell('leaving', t('shop.leaving'));
  getInLine(want.line);
}

// resume goes on where this tab was: come back with a turn, reloaded with a request on its
// way (even with a turn that is over: the token repeats its order), or with a receipt.
function resume() {
  const arrived = takeTurn();
  const want = wanted.get();
  $('notice').hidden = true;
  if (receipt.there()) {
    wanted.clear();
    receipt.show();
    receipt.look();
  } else if (want && fits(turn.get(), want.line)) {
    return proceed();
  } else if (want) {
    tell('wanted', t('shop.wanted', { name: want.name }), t('shop.wantedLead'), action('again', 'shop.toLine', want.line), action('forget', 'shop.forget'));
  }
  render();
  if (arrived) $('said').textContent = $('turnText').textContent;
}

// proceed makes the request that is wanted.
async function proceed() {
  const want = wanted.get();
  const { token, line } = turn.get();
  busy = true;
  const working = want.coupon ? 'shop.claiming' : 'shop.ordering';
  tell('working', t(working));
  render();
  const { status, body } = await present(token, 'POST', want.path, want.body, (none) =>
    none === 0 ? tell('offline', t('shop.offline')) : tell('busy', t('shop.busy')));
  busy = false;
  $('notice').hidden = true;
  if (status === 200 || status === 201) want.coupon ? claimed(want.coupon, body) : ordered(want.body, body, token);
  else refused(want, line, status, body);
  await look();
}

function ordered({ coupon_code: code }, order, token) {
  const coupon = code && byCode(code);
  if (coupon) keep(coupon, { used: true });
  receipt.make(order, token, coupon);
  wanted.clear();
  turn.clear(); // it has bought what it can
}

function claimed({ coupon_id: id, name, line, discount }, { code }) {
  keep(id, { code, name, line, discount });
  wanted.clear();
  tell('claimed', t('shop.claimed'), t('shop.claimedLead', { code }));
  $('notice').focus(); // the button that was used goes away
}

function refused(want, line, status, { code, detail }) {
  const over = status === 401 || code === 'token_spent';
  if (over) turn.clear();
  if (status !== 401) wanted.clear(); // after 401 it is asked for again with the next turn
  if (status === 401) tell('over', t('shop.turnOver'), t('shop.turnOverLead', { name: want.name }), action('again', 'shop.again', line), action('forget', 'shop.forget'));
  else if (over) tell('spent', t('shop.turnSpent'), t('shop.turnSpentLead'));
  else if (code === 'sold_out') tell('sold_out', t(want.coupon ? 'shop.couponGone' : 'shop.gone', { name: want.name }), t('shop.goneLead'));
  else if (code === 'coupon_spent' || code === 'coupon_invalid') {
    keep(byCode(want.body.coupon_code), { used: true });
    tell('coupon', t('shop.couponSpent'), t('shop.couponSpentLead'));
  } else tell('failed', t('shop.failed'), detail);
}

// look at what is for sale. These answers are the same for everybody, and a CDN may keep
// them for a second; who does not look at the page does not ask.
async function look() {
  const [products, coupons, line] = await Promise.all(['/products', '/coupons', '/queue/status'].map(read));
  shown = { products: products?.products ?? shown.products, coupons: coupons?.coupons ?? shown.coupons, line, known: true };
  render();
}

async function read(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

function again() {
  setTimeout(async () => {
    if (!document.hidden) await look();
    again();
  }, 2000 + 1000 * Math.random());
}
again();
document.addEventListener('visibilitychange', () => document.hidden || look());

function render() {
  const line = live()?.line ?? 'default';
  showAll($('products'), 'product', shown.products, dressProduct);
  showAll($('coupons'), 'coupon', shown.coupons, (el, c) => dressCoupon(el, c, line));
  $('empty').hidden = !shown.known || shown.products.length > 0;
  $('couponSection').hidden = shown.coupons.length === 0;
  $('crowd').hidden = !shown.line;
  if (shown.line) crowd(shown.line);
  showTurn();
  steps();
}

function crowd({ state, waiting, admitted_per_second: rate }) {
  const line = waiting > 0 && t('shop.crowd', { n: number(waiting) });
  const pace = state !== 'open' ? t('shop.crowdShut') : rate >= 1 && line && t('shop.crowdRate', { n: number(Math.round(rate)) });
  $('crowd').dataset.state = state;
  $('crowd').textContent = [line, pace].filter(Boolean).join(' · ') || t('shop.noCrowd');
}

// steps marks where in the purchase the visitor is.
function steps() {
  const now = receipt.there() ? 'pay' : wanted.get() ? (busy ? 'order' : 'wait') : live() ? 'order' : 'choose';
  for (const step of $('steps').children) {
    if (step.dataset.step === now) step.setAttribute('aria-current', 'step');
    else step.removeAttribute('aria-current');
  }
}

// showTurn counts the turn down; aloud only now and then.
function showTurn() {
  const held = turn.get();
  const left = (held?.expiresAt ?? 0) - Date.now();
  const was = !$('turn').hidden;
  $('turn').hidden = !held || left <= 0 || busy;
  if (!$('turn').hidden) {
    const text = t('shop.turn', { time: clock(left) });
    $('turnText').textContent = text;
    $('turn').dataset.state = left < 30_000 ? 'short' : 'open';
    if ([60, 15].includes(Math.ceil(left / 1000))) $('said').textContent = text;
  } else if (was && held && !busy) {
    turn.clear();
    tell('over', t('shop.turnOver'), '', action('again', 'shop.again', held.line));
  }
}

function action(does, key, line) {
  const button = document.createElement('button');
  button.textContent = t(key);
  button.dataset.do = does;
  if (line) button.dataset.line = line;
  if (does === 'again') button.className = 'primary';
  return button;
}

// tell says what is going on, above what is for sale.
function tell(state, title, detail = '', ...actions) {
  const parts = [['h2', title], ['p', detail]].filter(([, text]) => text).map(([tag, text]) => {
    const el = document.createElement(tag);
    el.textContent = text;
    return el;
  });
  if (actions.length) {
    const row = document.createElement('p');
    row.className = 'actions';
    row.append(...actions);
    parts.push(row);
  }
  $('notice').replaceChildren(...parts);
  $('notice').dataset.state = state;
  $('notice').hidden = false;
  $('notice').scrollIntoView({ block: 'nearest' });
}
