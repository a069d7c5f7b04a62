// What the pages say, in the reader's language. The words themselves are in files, one
// for each page and language, that a shop adds its own to.

// settings are what the server tells the scripts of a page.
export const settings = JSON.parse(document.querySelector('meta[name=sluice]').content);

// page is which one this is: wait, shop or admin.
const page = document.documentElement.dataset.page;
const texts = await load(language());

// language is the one that the reader chose, or the first of the browser's that is there.
function language() {
  const there = (code) => code in settings.languages;
  const known = navigator.languages.flatMap((l) => [l, l.split('-')[0]]);
  return [chosen(), ...known, 'en'].find(there);
}

function chosen() {
  try {
    return localStorage.getItem('sluice.lang');
  } catch {
    return null; // storage is off
  }
}

async function load(code) {
  const answer = await fetch(new URL(`./texts/${page}.${code}.json`, import.meta.url));
  return answer.json();
}

// t is the text of a key with its values filled in.
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}

// number and money are written as the reader's language does.
export const number = (n) => new Intl.NumberFormat(texts.lang).format(n);

const cash = new Intl.NumberFormat(texts.lang, { style: 'currency', currency: settings.currency });
const smallest = 10 ** cash.resolvedOptions().maximumFractionDigits;
export const money = (n) => cash.format(n / smallest);

// span says a wait from low to high, in ms, as roughly as it is known.
export function span(low, high) {
  if (high < 10_000) return t('time.now');
  const [unit, ms] = high < 90_000 ? ['seconds', 1000] : high < 5_400_000 ? ['minutes', 60_000] : ['hours', 3_600_000];
  const step = unit === 'seconds' ? 5 : 1;
  const round = (v) => Math.max(step, Math.ceil(v / ms / step) * step);
  const a = round(low), b = round(high);
  return a === b ? t(`time.${unit}`, { a }) : t(`time.range.${unit}`, { a, b });
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

// say fills the page's fixed texts in.
export function say(root = document) {
  document.documentElement.lang = texts.lang;
  document.documentElement.dir = texts.dir;
  for (const el of root.querySelectorAll('[data-text]')) el.textContent = t(el.dataset.text);
  for (const el of root.querySelectorAll('[data-label]')) el.setAttribute('aria-label', t(el.dataset.label));
}
