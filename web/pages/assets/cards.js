// The cards of what is for sale. They are changed where they stand, so that nobody who
// reads, scrolls or uses the keyboard is disturbed by a stock that falls.
import { pictureAddress } from './api.js';
import { coupon, next } from './coupons.js';
import { money, number, say, t } from './texts.js';

const few = 20; // from here on what is left is marked
const fallsFor = 900; // ms that a number takes to fall
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const most = {}; // of each product that this page has seen: what a full bar means

// clone makes an element of the template of a name.
export function clone(name) {
  const el = document.getElementById(name).content.firstElementChild.cloneNode(true);
  say(el);
  return el;
}

export function picture(el, address) {
  const now = pictureAddress(address);
  if (el.dataset.shows === now) return;
  el.dataset.shows = now;
  el.src = pictureAddress(address);
}

// showAll has one card in a list for each item, in their order: kind is the template.
export function showAll(list, kind, items, dress) {
  const there = new Map([...list.children].map((el) => [el.dataset[kind], el]));
  let before = null;
  for (const item of items) {
    const id = String(item[`${kind}_id`]);
    const el = there.get(id) ?? clone(kind);
    if (!there.delete(id)) {
      el.dataset[kind] = id;
      if (before) before.after(el);
      else list.prepend(el);
    }
    before = el;
    dress(el, item);
  }
  for (const gone of there.values()) gone.remove();
}

export function dressProduct(el, p) {
  picture(el.querySelector('img'), p.image_url);
  put(el, '.brand', p.brand);
  put(el, '.price', money(p.price));
  most[p.product_id] = Math.max(p.stock, most[p.product_id] ?? 100);
  common(el, p, p.stock, most[p.product_id]);
  put(el, '.mark', { low: t('shop.low'), gone: t('shop.soldOut') }[el.dataset.state]);
}

// dressCoupon; line is that of the next order, as far as one knows.
export function dressCoupon(el, c, line) {
  const held = coupon(c.coupon_id);
  put(el, '.off', money(-c.discount));
  common(el, c, c.remaining, c.quantity);
  el.querySelector('button').hidden = Boolean(held);
  const now = held && (held.used ? 'shop.couponUsed' : next(line)?.code === held.code ? 'shop.couponNext' : 'shop.couponHeld');
  if (held) el.dataset.state = held.used ? 'used' : 'held';
  put(el, '.held', held && t(now, { code: held.code }));
}

function common(el, item, left, full) {
  const button = el.querySelector('button');
  const low = Math.min(few, full / 5);
  el.dataset.state = left === 0 ? 'gone' : left <= low ? 'low' : 'open';
  put(el, '.name', item.name);
  put(el, '.ownLine', item.line && t('shop.ownLine', { line: item.line }));
  button.disabled = left === 0;
  button.setAttribute('aria-label', `${button.textContent}: ${item.name}`);
  el.querySelector('.fill').style.inlineSize = `${100 * Math.min(1, left / full)}%`;
  fall(el.querySelector('.left'), left, low);
}

// put shows a text, or nothing where there is none.
function put(el, selector, text) {
  const at = el.querySelector(selector);
  at.hidden = !text;
  if (text && at.textContent !== text) at.textContent = text;
}

const leftText = (n, low) => (n > 0 ? t(n <= low ? 'shop.onlyLeft' : 'shop.left', { n: number(n) }) : t('shop.soldOut'));

// fall has a number count from what it shows to what it is.
function fall(el, to, low) {
  const from = Number(el.dataset.left ?? to);
  el.dataset.left = to;
  if (from === to && el.dataset.falls) return; // it is on its way there
  if (from === to || calm.matches) return void (el.textContent = leftText(to, low));
  const start = performance.now();
  const run = (el.dataset.falls = String(start));
  const step = (now) => {
    if (el.dataset.falls !== run) return; // there is a later one
    const part = Math.min(1, Math.max(0, now - start) / fallsFor);
    el.textContent = leftText(Math.round(from + (to - from) * (1 - (1 - part) ** 3)), low);
    if (part < 1) return requestAnimationFrame(step);
    delete el.dataset.falls;
  };
  requestAnimationFrame(step);
}
