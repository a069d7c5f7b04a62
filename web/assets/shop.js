import { call, lineQuery, pictureAddress, receipt, sleep, turn, turnOf, wanted } from './api.js';
import { clock, money, moment, number, say, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const listEvery = 10_000; // ms between two looks at the stock
let busy = false;

say();
listProducts();
setInterval(() => document.hidden || listProducts(), listEvery);
setInterval(showTurn, 1000);
showTurn();
if (receipt.get()) showReceipt(receipt.get());
// Also with a turn that is over: the page may have been left with an order on
// its way, whose token still finds it.
else if (turn.get() && wanted.get()) order();

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

async function listProducts() {
  const [list, line] = await Promise.all([call('GET', '/products'), call('GET', '/queue/status')]);
  if (list.status === 200) {
    $('products').replaceChildren(...list.body.products.map(card));
    $('empty').hidden = list.body.products.length > 0;
    $('empty').textContent = t('shop.empty');
  }
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
  buy.addEventListener('click', () => start(p));
  foot.append(make('span', p.stock > 0 ? t('shop.stock', { n: number(p.stock) }) : t('shop.soldOut'), 'soft small'), buy);
  el.append(picture(p.image_url, 320, 200), facts, foot);
  return el;
}

// start buys with the turn at hand, or gets in line for one.
async function start(p) {
  if (busy) return;
  receipt.clear();
  wanted.set({ product: p.product_id, line: p.line });
  const held = liveTurn();
  if (held && (!p.line || held.line === p.line)) return order();
  turn.clear();
  await enter(p.line);
}

async function enter(line) {
  setBusy(true);
  notice(t('shop.entering'));
  const { status, body } = await call('POST', `/queue/enter${lineQuery(line)}`);
  setBusy(false);
  if (body.state === 'admitted') {
    turn.set(turnOf(body));
    return order();
  }
  if (body.state === 'waiting' || body.state === 'scheduled') return void location.assign(`/wait${lineQuery(line)}`);
  if (body.code === 'line_closed') return notice(t('shop.lineClosed'));
  notice(body.code === 'queue_full' ? t('shop.lineFull') : t('shop.failed'), body.detail ?? '', again(line));
}

// order places the order that is wanted with the turn at hand. The same token
// with the same body makes one order however often it is sent, so whatever is
// uncertain is simply sent again.
async function order() {
  setBusy(true);
  notice(t('shop.ordering'));
  const { token, usableAt, line } = turn.get();
  const { product } = wanted.get();
  await sleep(Math.max(0, usableAt - Date.now()));
  for (;;) {
    const { status, body, retryAfter } = await call('POST', '/orders', {
      body: { items: [{ product_id: product, quantity: 1 }] },
      headers: { Authorization: `Bearer ${token}` },
    });
    if (status === 0 || status === 503 || status === 425) {
      notice(t(status === 0 ? 'shop.offline' : 'shop.busy'));
      await sleep(retryAfter);
      continue;
    }
    setBusy(false);
    if (status !== 401) wanted.clear();
    if (status === 200 || status === 201) {
      turn.clear();
      receipt.set(body);
      showReceipt(body);
    } else if (status === 401 || body.code === 'token_spent') {
      turn.clear();
      notice(t('shop.turnOver'), body.detail, again(line));
    } else {
      notice(body.code === 'sold_out' ? t('shop.soldOutDetail') : t('shop.failed'), body.code === 'sold_out' ? '' : body.detail);
    }
    showTurn();
    return listProducts();
  }
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
  for (const button of document.querySelectorAll('#products button')) button.disabled = busy || button.disabled;
  if (!busy) listProducts();
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

function showReceipt(o) {
  const rows = o.items.map((item) => {
    const row = make('li');
    row.append(picture(item.image_url, 80, 50), make('span', `${item.quantity} × ${item.name}`, 'grow'), make('span', money(item.unit_price * item.quantity)));
    return row;
  });
  const items = make('ul', '', 'receipt');
  items.append(...rows);
  const pairs = make('dl', '', 'pairs');
  for (const [name, value] of [
    [t('shop.total'), money(o.total)],
    [t('shop.placedAt'), moment(o.created_at)],
    [t('shop.order'), o.order_id],
  ]) {
    const pair = make('div');
    pair.append(make('dt', name), make('dd', value));
    pairs.append(pair);
  }
  const close = make('button', t('shop.close'));
  close.addEventListener('click', () => {
    receipt.clear();
    $('notice').hidden = true;
  });
  notice(t('shop.thanks'), t('shop.toPay'), close);
  $('notice').querySelector('.actions').before(items, pairs);
  window.scrollTo({ top: 0 });
}
