import { call, coupon, enter as takePlace, lineQuery, pictureAddress, receipt, sleep, turn, turnOf, wanted } from './api.js';
import { clock, money, moment, number, say, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const listEvery = 10_000; // ms between two looks at the stock
const checkEvery = 2_000; // ms between two looks at a payment that is being checked
// What a receipt says of an order in each state.
const headings = {
  pending: ['shop.thanks', 'shop.toPay'],
  payment_unknown: ['shop.checking', 'shop.checkingLead'],
  paid: ['shop.paid', 'shop.paidLead'],
  declined: ['shop.declined', 'shop.declinedLead'],
  cancelled: ['shop.cancelled', 'shop.cancelledLead'],
};
const unpaid = ['pending', 'declined'];
let busy = false;

say();
list();
setInterval(() => document.hidden || list(), listEvery);
setInterval(showTurn, 1000);
showTurn();
if (receipt.get()) {
  showReceipt();
  check();
}
// Also with a turn that is over: the page may have been left with an order on
// its way, whose token still finds it.
else if (turn.get() && wanted.get()) proceed();

function make(tag, text, className) {
  const el = document.createElement(tag);
  if (text) el.textContent = text;
  if (className) el.className = className;
  return el;
}

function picture(address, width, height) {
  const el = make('img');
  el.src = pictureAddress(address);
  el.alt = '';
  el.width = width;
  el.height = height;
  return el;
}

async function list() {
  const [products, coupons, line] = await Promise.all([call('GET', '/products'), call('GET', '/coupons'), call('GET', '/queue/status')]);
  if (products.status === 200) {
    $('products').replaceChildren(...products.body.products.map(card));
    $('empty').hidden = products.body.products.length > 0;
    $('empty').textContent = t('shop.empty');
  }
  if (coupons.status === 200) $('coupons').replaceChildren(...coupons.body.coupons.map(couponCard));
  $('crowd').hidden = line.status !== 200 || line.body.waiting === 0;
  $('crowd').textContent = t('shop.crowd', { n: number(line.body.waiting ?? 0) });
}

function card(p) {
  const el = make('article', '', 'panel product');
  const facts = make('div', '', 'facts');
  facts.append(make('p', p.brand, 'soft small'), make('h2', p.name), make('p', money(p.price), 'price'));
  const foot = make('div', '', 'foot');
  const buy = make('button', t('shop.buy'), 'primary');
  buy.disabled = busy || p.stock === 0;
  buy.setAttribute('aria-label', `${t('shop.buy')}: ${p.name}`);
  buy.addEventListener('click', () => start({ product: p.product_id, line: p.line }));
  foot.append(make('span', p.stock > 0 ? t('shop.stock', { n: number(p.stock) }) : t('shop.soldOut'), 'soft small'), buy);
  el.append(picture(p.image_url, 320, 200), facts, foot);
  return el;
}

function couponCard(c) {
  const el = make('article', '', 'panel coupon');
  const facts = make('div');
  const held = coupon.get()?.id === c.coupon_id && coupon.get();
  const left = c.remaining > 0 ? t('shop.stock', { n: number(c.remaining) }) : t('shop.couponGone');
  facts.append(make('h2', c.name), make('p', `${t('shop.couponOff', { amount: money(c.discount) })} · ${left}`, 'soft small'));
  el.append(facts);
  if (held) {
    el.append(make('span', t(held.used ? 'shop.couponUsed' : 'shop.couponHeld'), 'chip'));
  } else {
    const claim = make('button', t('shop.claim'));
    claim.disabled = busy || c.remaining === 0;
    claim.setAttribute('aria-label', `${t('shop.claim')}: ${c.name}`);
    claim.addEventListener('click', () => start({ coupon: c.coupon_id, line: c.line }));
    el.append(claim);
  }
  return el;
}

// start asks for what is wanted with the turn at hand, or gets in line for one.
async function start(want) {
  if (busy) return;
  // Only this page can still have it paid: nothing but its buyer's word ends that.
  if ([...unpaid, 'payment_unknown'].includes(receipt.get()?.order.state)) return showReceipt(t('shop.first'));
  receipt.clear();
  wanted.set(want);
  const held = liveTurn();
  if (held && (!want.line || held.line === want.line)) return proceed();
  turn.clear();
  await enter(want.line);
}

function proceed() {
  return wanted.get().coupon ? claim() : order();
}

async function enter(line) {
  setBusy(true);
  notice(t('shop.entering'));
  const { body } = await takePlace(lineQuery(line), () => notice(t('shop.entering'), t('shop.working')));
  setBusy(false);
  if (body.state === 'admitted') {
    turn.set(turnOf(body));
    return proceed();
  }
  if (body.state === 'waiting' || body.state === 'scheduled') return void location.assign(`/wait${lineQuery(line)}`);
  if (body.code === 'line_closed') return notice(t('shop.lineClosed'));
  notice(body.code === 'queue_full' ? t('shop.lineFull') : t('shop.failed'), body.detail ?? '', again(line));
}

// settled asks until the answer is a definite one: whatever is asked with a token may
// be asked again, and is done once.
async function settled(method, path, token, body) {
  for (;;) {
    const answer = await call(method, path, { body, headers: { Authorization: `Bearer ${token}` } });
    if (![0, 425, 503].includes(answer.status)) return answer;
    notice(t(answer.status === 0 ? 'shop.offline' : 'shop.busy'));
    await sleep(answer.retryAfter);
  }
}

// order places the order that is wanted with the turn at hand.
async function order() {
  setBusy(true);
  notice(t('shop.ordering'));
  const { token, usableAt, line } = turn.get();
  const { product } = wanted.get();
  const body = { items: [{ product_id: product, quantity: 1 }] };
  const held = coupon.get();
  if (held && !held.used && (!held.line || held.line === line)) body.coupon_code = held.code;
  await sleep(Math.max(0, usableAt - Date.now()));
  const { status, body: answer } = await settled('POST', '/orders', token, body);
  if (status !== 401) wanted.clear();
  if (status === 200 || status === 201) {
    turn.clear();
    if (body.coupon_code) coupon.set({ ...held, used: true });
    receipt.set({ order: answer, token });
    showReceipt();
  } else if (status === 401 || answer.code === 'token_spent') {
    turn.clear();
    notice(t('shop.turnOver'), answer.detail, again(line));
  } else if (answer.code === 'coupon_spent' || answer.code === 'coupon_invalid') {
    coupon.set({ ...held, used: true });
    notice(t('shop.couponSpent'));
  } else {
    notice(answer.code === 'sold_out' ? t('shop.soldOutDetail') : t('shop.failed'), answer.code === 'sold_out' ? '' : answer.detail);
  }
  setBusy(false);
  showTurn();
}

// claim takes the coupon that is wanted. The turn is still good after it.
async function claim() {
  setBusy(true);
  notice(t('shop.claiming'));
  const { token, usableAt, line } = turn.get();
  const { coupon: id, line: couponLine } = wanted.get();
  await sleep(Math.max(0, usableAt - Date.now()));
  const { status, body } = await settled('POST', `/coupons/${id}/claim`, token);
  if (status !== 401) wanted.clear();
  if (status === 200 || status === 201) {
    coupon.set({ id, code: body.code, line: couponLine });
    notice(t('shop.claimed'), t('shop.claimedLead'));
  } else if (status === 401) {
    turn.clear();
    notice(t('shop.turnOver'), body.detail, again(line));
  } else {
    notice(body.code === 'sold_out' ? t('shop.couponGone') : t('shop.failed'), body.code === 'sold_out' ? '' : body.detail);
  }
  setBusy(false);
  showTurn();
}

// pay pays the order of the receipt, once however often it is asked.
async function pay() {
  const { order, token } = receipt.get();
  notice(t('shop.paying'));
  const { status, body } = await settled('POST', `/orders/${order.order_id}/payment`, token, { method: 'card' });
  const state = status === 200 || status === 202 ? body.state : { payment_declined: 'declined', order_state: 'cancelled' }[body.code];
  receipt.set({ order: { ...order, state: state ?? order.state, paid_at: body.paid_at }, token });
  showReceipt(state === 'declined' || !state ? body.detail : '');
  if (state === 'payment_unknown') check();
}

// check looks at the order of the receipt, and again until its payment is settled.
async function check() {
  const { order, token } = receipt.get();
  if (order.state === 'payment_unknown') await sleep(checkEvery);
  const { status, body } = await call('GET', `/orders/${order.order_id}`, { headers: { Authorization: `Bearer ${token}` } });
  if (receipt.get()?.order.order_id !== order.order_id) return; // closed meanwhile
  if (status === 200 && body.state !== order.state) {
    receipt.set({ order: body, token });
    showReceipt();
  }
  if (receipt.get().order.state === 'payment_unknown' && [0, 200, 503].includes(status)) check();
}

function again(line) {
  const button = make('button', t('shop.again'), 'primary');
  button.addEventListener('click', () => {
    if (wanted.get()) return enter(line);
    location.assign(`/wait${lineQuery(line)}`);
  });
  return button;
}

function liveTurn() {
  const held = turn.get();
  return held && held.expiresAt > Date.now() ? held : null;
}

function showTurn() {
  const held = liveTurn();
  $('turn').hidden = !held || busy;
  if (held) $('turn').textContent = t('shop.turn', { time: clock(held.expiresAt - Date.now()) });
}

function setBusy(now) {
  busy = now;
  for (const button of document.querySelectorAll('#products button, #coupons button')) button.disabled = busy || button.disabled;
  if (!busy) list();
}

function notice(title, detail = '', ...actions) {
  const parts = [make('h2', title)];
  if (detail) parts.push(make('p', detail, 'soft'));
  if (actions.length) {
    const row = make('p', '', 'actions');
    row.append(...actions);
    parts.push(row);
  }
  $('notice').replaceChildren(...parts);
  $('notice').hidden = false;
}

// showReceipt shows the order; lead, where given, stands for what its state says.
function showReceipt(lead) {
  const { order: o } = receipt.get();
  const rows = o.items.map((item) => {
    const row = make('li');
    row.append(picture(item.image_url, 80, 50), make('span', `${item.quantity} × ${item.name}`, 'grow'), make('span', money(item.unit_price * item.quantity)));
    return row;
  });
  const items = make('ul', '', 'receipt');
  items.append(...rows);
  const facts = [[t('shop.total'), money(o.total)], [t('shop.placedAt'), moment(o.created_at)], [t('shop.order'), o.order_id]];
  if (o.discount > 0) facts.unshift([t('shop.discount'), money(-o.discount)]);
  if (o.paid_at) facts.push([t('shop.paidAt'), moment(o.paid_at)]);
  const pairs = make('dl', '', 'pairs');
  for (const [name, value] of facts) {
    const pair = make('div');
    pair.append(make('dt', name), make('dd', value));
    pairs.append(pair);
  }
  const actions = [];
  if (unpaid.includes(o.state)) {
    const button = make('button', t('shop.pay', { amount: money(o.total) }), 'primary');
    button.addEventListener('click', pay);
    actions.push(button);
  }
  const close = make('button', t(unpaid.includes(o.state) ? 'shop.giveUp' : 'shop.close'));
  close.addEventListener('click', () => {
    if (o.state !== 'payment_unknown') receipt.clear();
    $('notice').hidden = true;
  });
  const [title, usual] = headings[o.state];
  notice(t(title), lead || t(usual), ...actions, close);
  $('notice').querySelector('.actions').before(items, pairs);
  window.scrollTo({ top: 0 });
}
