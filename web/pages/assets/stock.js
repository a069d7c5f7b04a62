// What the demo shop sells, and what was sold.

import { confirm } from './confirm.js';
import { tiles } from './figures.js';
import { ask, good } from './operator.js';
import { money, number, t } from './texts.js';

const $ = (id) => document.getElementById(id);
let delayed = false; // whether this process was started with a delay to change

// show fills in what this process knows of orders.
export function show(l, lines) {
  $('shop').hidden = $('summary').hidden = !l.orders;
  if (!l.orders) return;
  for (const form of [$('product'), $('coupon')]) options(form.elements.line, lines);
  delayed ||= l.orders.test_delay_ms > 0;
  $('delay').hidden = !delayed;
  const field = $('delay').elements.test_delay_ms;
  if (document.activeElement !== field && !$('delay').dataset.edited) field.value = l.orders.test_delay_ms;
  $('delay').dataset.now = l.orders.test_delay_ms;
}

function options(select, lines) {
  const there = ['', ...lines.map((l) => l.line)];
  if ([...select.options].map((o) => o.value).join() === there.join()) return;
  const { value } = select;
  select.replaceChildren(...there.map((id) => new Option(id || t('admin.everyLine'), id)));
  select.value = there.includes(value) ? value : '';
}

// start wires the forms; done(text) is told of what was made.
export function start(done) {
  const add = (id, path, read, shown, title, text) => $(id).addEventListener('submit', async (event) => {
    event.preventDefault();
    const f = $(id).elements;
    const body = { ...read(f), ...(f.line.value && { line: f.line.value }) };
    const changes = [...shown(body), [t('admin.soldTo'), body.line ?? t('admin.everyLine')]].map(([name, to]) => [name, null, to]);
    const answer = await confirm({ title: t(title), changes: () => changes, effect: t('admin.effectSale'), send: () => ask('POST', path, body) });
    if (!answer) return;
    $(id).reset();
    done(text(answer.body));
  });
  add('product', '/admin/api/products',
    (f) => ({ name: f.name.value, brand: f.brand.value, price: f.price.valueAsNumber, stock: f.stock.valueAsNumber, image_url: f.image_url.value }),
    (b) => [[t('admin.itemName'), b.name], [t('admin.productPrice'), money(b.price)], [t('admin.productStock'), number(b.stock)]],
    'admin.askProduct', (b) => t('admin.added', { n: b.product_id }));
  add('coupon', '/admin/api/coupons',
    (f) => ({ name: f.name.value, quantity: f.quantity.valueAsNumber, discount: f.discount.valueAsNumber }),
    (b) => [[t('admin.itemName'), b.name], [t('admin.couponQuantity'), number(b.quantity)], [t('admin.couponDiscount'), money(b.discount)]],
    'admin.askCoupon', (b) => t('admin.couponAdded', { n: b.coupon_id }));
  $('delay').addEventListener('input', () => ($('delay').dataset.edited = 'yes'));
  $('delay').addEventListener('submit', (event) => {
    event.preventDefault();
    delay(done);
  });
  $('sum').addEventListener('click', sum);
  $('summary').addEventListener('toggle', () => $('summary').open && sum());
}

async function delay(done) {
  const ms = $('delay').elements.test_delay_ms.valueAsNumber;
  const answer = await confirm({
    title: t('admin.askDelay'), changes: () => [[t('admin.delay'), number(Number($('delay').dataset.now)), number(ms)]], effect: t('admin.effectDelay'),
    send: () => ask('PATCH', '/admin/api/orders', { test_delay_ms: ms }),
  });
  if (!answer) return;
  delete $('delay').dataset.edited;
  done(t('admin.delayed', { n: number(answer.body.test_delay_ms) }));
}

async function sum() {
  const answer = await ask('GET', '/admin/api/orders/summary');
  if (!good(answer)) return;
  const { orders, items_sold, revenue, by_state: by } = answer.body;
  tiles('sums', [
    ['orders', t('admin.sumOrders'), orders], ['items', t('admin.sumItems'), items_sold], ['revenue', t('admin.sumRevenue'), money(revenue)],
    ['pending', t('admin.sumPending'), by.pending], ['paid', t('admin.sumPaid'), by.paid], ['unknown', t('admin.sumUnknown'), by.payment_unknown],
    ['declined', t('admin.sumDeclined'), by.declined], ['cancelled', t('admin.sumCancelled'), by.cancelled],
  ]);
}
