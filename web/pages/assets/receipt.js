// The receipt of an order: what it says in each state, paying it, and looking at it again
// until nothing changes any more. The token that made the order is good for all that.
import { call } from './api.js';
import { clone, picture } from './cards.js';
import { coupon as known, keep } from './coupons.js';
import { money, moment, t } from './texts.js';
import { kept, present } from './turn.js';

const $ = (id) => document.getElementById(id);
const receipt = kept('receipt'); // { order, token, coupon (its id), elsewhere }
const says = {
  pending: ['shop.thanks', 'shop.toPay'],
  payment_unknown: ['shop.checking', 'shop.checkingLead'],
  paid: ['shop.paid', 'shop.paidLead'],
  declined: ['shop.declined', 'shop.declinedLead'],
  cancelled: ['shop.cancelled', 'shop.cancelledLead'],
};
const lookEvery = { pending: 15_000, declined: 15_000, payment_unknown: 2_000 }; // ms
let paying = false;
let timer = 0;

export const there = () => receipt.get();

// open is true while only this page can still have the order paid.
export const open = () => ['pending', 'declined', 'payment_unknown'].includes(there()?.order.state) && !there().elsewhere;

export function make(order, token, coupon) {
  receipt.set({ order, token, coupon });
  show('', true);
}

export function close() {
  clearTimeout(timer);
  receipt.clear();
  $('receipt').hidden = true;
}

// show shows the order; lead, where given, stands for what its state says. The eyes are
// led there where that is news.
export function show(lead, news = false) {
  const { order: o, coupon, elsewhere } = there();
  const [title, usual] = elsewhere ? ['shop.thanks', 'shop.elsewhere'] : says[o.state];
  $('receipt').hidden = false;
  $('receipt').dataset.state = o.state;
  $('receiptTitle').textContent = t(title);
  $('receiptLead').textContent = lead || t(usual);
  $('receiptItems').replaceChildren(...o.items.map(item));
  fact('receiptDiscount', o.discount > 0 && money(-o.discount));
  const name = known(coupon)?.name;
  $('receiptCoupon').textContent = name ? t('shop.discountNamed', { name }) : t('shop.discount');
  fact('receiptTotal', money(o.total));
  fact('receiptPlaced', moment(o.created_at));
  fact('receiptPaid', o.paid_at && moment(o.paid_at));
  fact('receiptOrder', o.order_id);
  const payable = open() && o.state !== 'payment_unknown';
  $('receiptPay').hidden = !payable;
  $('receiptPay').textContent = t('shop.pay', { amount: money(o.total) });
  $('receiptClose').textContent = t(payable ? 'shop.giveUp' : 'shop.close');
  clearTimeout(timer);
  if (lookEvery[o.state]) timer = setTimeout(look, lookEvery[o.state]);
  if (!news) return;
  $('receipt').focus();
  $('receipt').scrollIntoView({ block: 'start' });
}

function item(i) {
  const el = clone('item');
  picture(el.querySelector('img'), i.image_url);
  el.querySelector('.name').textContent = `${i.quantity} × ${i.name}`;
  el.querySelector('.price').textContent = money(i.unit_price * i.quantity);
  return el;
}

function fact(id, value) {
  $(id).parentElement.hidden = !value;
  $(id).textContent = value || '';
}

// pay pays the order, once however often it is asked.
export async function pay() {
  if (paying) return;
  paying = true;
  const { order, token } = there();
  show(t('shop.paying'));
  const { status, body } = await present(token, 'POST', `/orders/${order.order_id}/payment`, { method: 'card' },
    (none) => show(t(none === 0 ? 'shop.payOffline' : 'shop.payBusy')));
  paying = false;
  if (status === 200 || status === 202) change({ ...order, state: body.state, paid_at: body.paid_at });
  else if (body.code === 'payment_declined') change({ ...order, state: 'declined' }, body.detail);
  else if (body.code === 'not_found') change(order, '', true); // nobody here takes payments
  else if (body.code === 'order_state') await look(); // it has been cancelled, or paid
  else change(order, body.detail || t('shop.failed'));
  if ($('receiptPay').hidden) $('receipt').focus(); // it had the focus
}

function change(order, lead, elsewhere = there().elsewhere) {
  const { token, coupon } = there();
  receipt.set({ order, token, coupon, elsewhere });
  if (order.state === 'cancelled' && coupon) keep(coupon, { used: false }); // it is given back
  show(lead);
}

// look asks what has become of the order.
export async function look() {
  clearTimeout(timer);
  const { order, token } = there();
  const { status, body } = document.hidden || paying ? { status: 0 } : await call('GET', `/orders/${order.order_id}`, { headers: { Authorization: `Bearer ${token}` } });
  if (there()?.order.order_id !== order.order_id || paying) return; // closed meanwhile, or about to change
  if (status === 200 && body.state !== order.state) return change(body);
  clearTimeout(timer);
  if ([0, 200, 503].includes(status)) timer = setTimeout(look, lookEvery[order.state] ?? 60_000);
}
