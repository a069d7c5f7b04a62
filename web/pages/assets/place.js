// The visitor's place in a line: what they came with, the requests for it, and the tabs
// that share it. This module knows no words, so that the first request is on its way
// while the words still are.
import { call, enter as takePlace, inBrowser, inTab, lineQuery } from './api.js';
import { arrival } from './handover.js';

export const line = new URLSearchParams(location.search).get('line') || 'default';
const query = lineQuery(line);

export const journey = inBrowser(`journey.${line}`); // of the progress bar; while there is one, a place is held
const to = inTab(`to.${line}`); // where the shop wants them to go on to
const login = inTab('login'); // the shop's own login token
const left = inTab('left'); // the line that this tab left
const stored = inBrowser(`ticket.${line}`);

// The ticket travels as a cookie. Where cookies are off it goes in a header instead, and
// is kept here, since then nothing else would know it after a reload.
let ticket = stored.get();
let byHeader = ticket !== null || navigator.cookieEnabled === false;

// arrive takes in what the address's fragment brings, and strips it, so that a reload
// does not take a place again. It tells whether to take one now.
export function arrive() {
  const came = arrival(location.hash);
  if (!came) return false;
  if (came.to) to.set(came.to);
  else if (came.enter) to.clear(); // of an earlier visit
  if (came.login) login.set(came.login);
  history.replaceState(history.state, '', location.pathname + location.search);
  return came.enter;
}

export const destinationAsked = () => to.get();

function headers() {
  const all = {};
  if (login.get()) all.Authorization = `Bearer ${login.get()}`;
  if (byHeader && ticket) all['X-Queue-Ticket'] = ticket;
  return all;
}

function keep(answer) {
  if (!answer.ticket) return answer;
  ticket = answer.ticket;
  if (byHeader) stored.set(ticket);
  return answer;
}

// position asks where the visitor stands.
export async function position() {
  const ask = async () => keep(await call('GET', `/queue/position${query}`, { headers: headers() }));
  const answer = await ask();
  if (answer.body.code !== 'ticket_missing' || !ticket || byHeader) return answer;
  // We hold a ticket whose cookie did not come along.
  byHeader = true;
  stored.set(ticket);
  return ask();
}

// enter asks for a place; working is called when that takes some work first.
export async function enter(working) {
  left.clear();
  return keep(await takePlace(query, working, headers()));
}

// leave gives the place up, and tells whether that is certain.
export async function leave() {
  const { status } = await call('POST', `/queue/leave${query}`, { headers: headers() });
  // Without a ticket that is good there is no place: 401, and 404 of a line that is not there.
  if (![204, 401, 404].includes(status)) return false;
  left.set(line);
  forget();
  tell('left');
  return true;
}

// forget drops what belongs to a place that is no more.
export function forget() {
  journey.clear();
  stored.clear();
  ticket = null;
  byHeader = navigator.cookieEnabled === false;
}

// Several tabs may wait with the same place. Only one of them goes on with a turn: the
// first that writes its name beside it. Where that cannot be kept each goes on, and the
// server still makes one order of them.
const own = inTab('tab');
const me = own.get() ?? Math.random().toString(36).slice(2);
own.set(me);
const going = inBrowser(`going.${line}`);
const name = (token) => `${token.slice(-16)} ${me}`; // of a turn and this tab, without what could be used

// claim makes a turn this tab's, unless it is another's already; insist takes it over.
export function claim(token, insist) {
  if (insist || !going.get()?.startsWith(token.slice(-16))) {
    going.set(name(token));
    tell('going');
  }
  return mine(token);
}

// mine tells whether a turn is this tab's. Two tabs may claim one at the same moment and
// see each other's word a little later, so it is asked again before going on.
export const mine = (token) => going.get() === name(token);

const channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel(`sluice.${line}`) : null;

function tell(what) {
  channel?.postMessage(what);
}

// hear calls back when another tab with this place has left, or goes on with the turn.
export function hear(what) {
  if (channel) channel.onmessage = ({ data }) => what(data);
}

let toWork;
export const atWork = new Promise((done) => {
  toWork = done;
});
export const entering = arrive();
export const first = entering ? enter(toWork) : position();
