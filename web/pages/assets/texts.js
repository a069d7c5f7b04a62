// What the pages say, in the reader's language. The words themselves are in files, one
// for each page and language, that a shop adds its own to.
import { rough } from './reckon.js';

// settings are what the server tells the scripts of a page.
export const settings = JSON.parse(document.querySelector('meta[name=sluice]').content);

// page is which one this is: wait, shop or admin.
const page = document.documentElement.dataset.page;
const storageKey = 'sluice.lang';
let texts = await load(language());

// language is the one that the address or the reader chose, or the first of the
// browser's that is there. The server chooses alike for its own page.
function language() {
  for (const wanted of [asked(), chosen(), ...navigator.languages, 'en']) {
    // zh-Hant-TW is also served by zh-Hant, and by zh.
    for (let code = (wanted ?? '').toLowerCase(); code; code = code.slice(0, Math.max(0, code.lastIndexOf('-')))) {
      const there = Object.keys(settings.languages).find((name) => name.toLowerCase() === code);
      if (there) return there;
    }
  }
}

function asked() {
  return new URLSearchParams(location.search).get('lang');
}

function chosen() {
  try {
    return localStorage.getItem(storageKey);
  } catch {
    return null; // storage is off
  }
}

// load asks until there is an answer. What is not there (a process of another release has
// answered) is said in English.
async function load(code) {
  for (let pause = 1000; ; pause = Math.min(2 * pause, 10_000)) {
    try {
      const answer = await fetch(new URL(`./texts/${page}.${code}.json`, import.meta.url));
      if (answer.ok) return await answer.json();
      if (answer.status === 404 && code !== 'en') return await load('en');
    } catch {} // no connection, or half an answer
    await new Promise((done) => setTimeout(done, pause * (0.75 + Math.random() / 2)));
  }
}

// languages are those there are: [{ code, name, current }].
export const languages = () => Object.entries(settings.languages).map(([code, name]) => ({ code, name, current: code === texts.lang }));

// choose changes the language, now and for the next visit. Fixed texts change by
// themselves; who fills in others listens for the document's event "sluice-language".
export async function choose(code) {
  if (!Object.hasOwn(settings.languages, code)) return;
  texts = await load(code);
  try {
    localStorage.setItem(storageKey, code);
  } catch {} // storage is off: for this page only
  const address = new URL(location.href);
  if (address.searchParams.has('lang')) { // it would win after a reload
    address.searchParams.delete('lang');
    history.replaceState(history.state, '', address);
  }
  say();
  document.dispatchEvent(new Event('sluice-language'));
}

// offer makes a select element the switch between the languages; with one there is
// nothing to choose.
function offer(select) {
  const all = languages();
  select.hidden = all.length < 2;
  select.replaceChildren(...all.map(({ code, name, current }) => {
    const option = new Option(name, code, current, current);
    option.lang = code;
    return option;
  }));
  select.setAttribute('aria-label', t('page.language'));
  select.onchange = () => choose(select.value);
}

// t is the text of a key with its values filled in.
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}

// number and money are written as the reader's language does.
export const number = (n) => new Intl.NumberFormat(texts.lang).format(n);

// money writes an amount that is given in the smallest unit of the currency.
export function money(n) {
  const cash = new Intl.NumberFormat(texts.lang, { style: 'currency', currency: settings.currency });
  return cash.format(n / 10 ** cash.resolvedOptions().maximumFractionDigits);
}

// span says a wait in the reader's language: about 4–6 minutes.
export function span(low, high) {
  const about = rough(low, high);
  if (!about) return t('time.now');
  const { unit, a, b } = about;
  const format = new Intl.NumberFormat(texts.lang, { style: 'unit', unit, unitDisplay: 'long' });
  return t('time.about', { span: a === b ? format.format(b) : (format.formatRange?.(a, b) ?? `${number(a)}–${format.format(b)}`) });
}

// clock is a remaining time as m:ss, with hours where there are any; as days and
// hours when it is long.
export function clock(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  if (h >= 48) return t('time.days', { d: Math.floor(h / 24), h: h % 24 });
  const two = (n) => String(n).padStart(2, '0');
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

// moment is a point in time as the reader writes it.
export const moment = (at) => new Date(at).toLocaleString(texts.lang, { dateStyle: 'medium', timeStyle: 'short' });

// say fills the page's fixed texts in, and makes each <select data-languages> the
// switch between the languages.
export function say(root = document) {
  document.documentElement.lang = texts.lang;
  document.documentElement.dir = texts.dir;
  for (const el of root.querySelectorAll('[data-text]')) el.textContent = t(el.dataset.text);
  for (const el of root.querySelectorAll('[data-label]')) el.setAttribute('aria-label', t(el.dataset.label));
  root.querySelectorAll('select[data-languages]').forEach(offer);
}
