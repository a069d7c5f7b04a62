// How a shop sells behind Sluice. This is all that a page of your own needs, in idea:
// send who wants to buy to the waiting page, take the token that they come back with,
// and present it. `call` is fetch, answering { status, body, retryAfter }.
import { call, sleep } from './api.js';

// What this tab keeps over the way to the waiting page and back. In the tab only: what is
// wanted, and the turn to buy it, are not another tab's. Where storage is off it is kept in
// memory; then the way through the waiting page forgets what was wanted, and no more.
const memory = {};
export function kept(name) {
  const key = `sluice.${name}`;
  return {
    get() {
      if (key in memory) return memory[key];
      try {
        return JSON.parse(sessionStorage.getItem(key));
      } catch {
        return null;
      }
    },
    set(value) {
      try {
        sessionStorage.setItem(key, JSON.stringify(value));
        delete memory[key];
      } catch {
        memory[key] = value;
      }
    },
    clear() {
      this.set(null);
    },
  };
}

export const wanted = kept('wanted'); // the request to make: { path, body, line, name }; line null: any turn will do
export const turn = kept('turn'); // { token, line, expiresAt (ms of this clock) }
const sent = kept('sent'); // true: this tab is in line, and comes back with a turn

// 1. Who wants to buy goes to the waiting page. `#enter` has it take a place at once.
export function getInLine(line) {
  sent.set(true);
  location.assign(`/wait${line ? `?line=${encodeURIComponent(line)}` : ''}#enter`);
}

// 2. When it is their turn the waiting page sends them back with the token in the
// fragment, which no server and no log ever sees. Take it, and strip it from the address:
// a token in a bookmark or in a shared link is somebody's turn given away.
export function takeTurn() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (!given.get('sluice_token')) return false;
  history.replaceState(history.state, '', location.pathname + location.search);
  // A link can bring a token as well, of somebody who would see what is bought with it. So
  // what nobody went in line for replaces no turn, and buys nothing by itself.
  const asked = sent.get();
  sent.clear();
  if (!asked && live()) return false;
  if (!asked) wanted.clear();
  turn.set({
    token: given.get('sluice_token'),
    line: given.get('sluice_line') || 'default',
    expiresAt: Date.now() + Number(given.get('sluice_expires_in_ms')),
  });
  return true;
}

// fits tells whether what belongs to a line (null: to all) can be bought with a turn.
export const fits = (held, line) => Boolean(held) && (!line || line === held.line);

// live is the turn at hand, while there is time left.
export function live() {
  const held = turn.get();
  return held?.expiresAt > Date.now() ? held : null;
}

// 3. Present the token. What is asked with a token may be asked again and is done once: so
// no answer (status 0), 503 (busy, for as long as Retry-After says) and 425 (a moment too
// early) are asked again, by reloading too. Every other answer is for good: 200 and 201 are
// done; 401 is a turn that is over, get in line again; 409 says by its code what is in the
// way: sold_out leaves the turn as good as it was, token_spent has bought something already.
export async function present(token, method, path, body, meanwhile = () => {}) {
  for (;;) {
    const answer = await call(method, path, { body, headers: { Authorization: `Bearer ${token}` } });
    if (![0, 425, 429, 502, 503, 504].includes(answer.status)) return answer;
    meanwhile(answer.status);
    await sleep(answer.retryAfter);
  }
}
