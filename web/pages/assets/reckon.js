// What the waiting page reckons: pure functions, which need no browser. All times are
// in ms.

const soonest = 1000; // between two requests, whatever happens
const hiddenLong = 5 * 60_000;
const slowest = 5 * 60_000;
const slowUnknown = 60_000;

// pollIn is how long until the next poll of somebody who was told a time.
//
// A page that has been out of sight for long asks less often: nobody sees its figures,
// and a phone in a pocket should not wake the radio for them. A quarter of the least
// wait that is left (low, null where nobody knows) still finds the turn in time: the
// steps shorten as it comes near, until the page asks as told again. Whoever asked to
// be called (calls) relies on the page noticing at once, so that one always asks as
// told. Never faster than told.
export function pollIn({ told, low = null, hiddenFor = 0, calls = false }) {
  if (calls || hiddenFor < hiddenLong) return told;
  return Math.max(told, low === null ? slowUnknown : Math.min(slowest, low / 4));
}

// retryIn is how long until a request that failed is tried again: as the server said
// (asked), or else a little later each time, spread so that a crowd which lost its
// connection at once does not come back at once. random is in [0, 1).
export function retryIn({ failures, asked = 0, told = 0, random }) {
  const pause = Math.min(30_000, 1500 * 1.6 ** Math.min(failures - 1, 10));
  return Math.max(asked, told, Math.round(pause * (0.75 + random / 2)));
}

// pauseBefore is how long a request at once has to be held back after the last one.
export const pauseBefore = (now, last) => Math.min(soonest, Math.max(0, last + soonest - now));

// travelled is the journey to the head of the line so far, from the one that was kept:
// best, from 0 to 1, never goes back. When somebody returns to an earlier place the
// figure says so, the bar waits. Full means next; whoever came as the first has no way
// to go, and sees no bar (best is null).
export function travelled(kept, entered, position) {
  const j = kept?.entered === entered ? kept : { entered, first: position, best: 0 };
  if (j.first <= 1) return { ...j, best: null };
  return { ...j, best: Math.max(j.best ?? 0, Math.min(1, (j.first - position) / (j.first - 1))) };
}

// behind is how many people came later.
export const behind = (position, waiting) => Math.max(0, waiting - position);

// rough is a wait from low to high as roughly as it is known: { unit, a, b }, with a
// equal to b for a single figure, or null for a few seconds.
export function rough(low, high) {
  if (high < 10_000) return null;
  const [unit, ms, step] = high <= 90_000 ? ['second', 1000, 10] : high <= 5_400_000 ? ['minute', 60_000, 1] : ['hour', 3_600_000, 0.5];
  const round = (v) => Math.max(step, Math.ceil(v / ms / step) * step);
  return { unit, a: Math.min(round(low), round(high)), b: round(high) };
}

// worthSaying tells whether a screen reader should read a place out: the first one, one
// that is half of the last or less, or any other after a minute; never the same again.
export function worthSaying(last, position, now) {
  if (!last) return true;
  if (position === last.position) return false;
  return position <= last.position / 2 || now - last.at >= 60_000;
}
