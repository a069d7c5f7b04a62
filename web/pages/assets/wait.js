// The waiting page: it asks where the visitor stands, as often as it is told to, shows
// that, and takes them on to the shop when it is their turn.
import { atWork, claim, destinationAsked, enter, entering, first, forget, hear, journey, leave, line, mine, position, arrive } from './place.js';
import { call as callVisitor, calling, hush, setNotification, setSound } from './alerts.js';
import { destination, onward } from './handover.js';
import { pauseBefore, pollIn, retryIn, travelled } from './reckon.js';
import { clock, say, settings, t } from './texts.js';
import { count, show, switches } from './view.js';

const $ = (id) => document.getElementById(id);
const closedEvery = 60_000; // between two looks at a line that may open again, ms
const admittedEvery = 30_000; // between two looks at a turn that is open, ms
const settling = 250; // for two tabs that claim a turn at the same moment, ms
const callFor = 15_000; // how long a visitor who is not looking is called before the page goes on, ms
const ended = ['spent', 'expired', 'left', 'removed'];

let now = { state: 'joining' };
let until = null; // what the countdown counts to
let turn = null; // { token, line, usableAt, expiresAt }
let low = null; // the least wait that is left, where it is known
let held = journey.get() ? 'unknown' : entering ? 'no' : 'unknown'; // whether a place is held: yes, no, unknown
let told = 1000; // by the last answer
let failures = 0; // since the last answer
let hiddenSince = document.hidden ? Date.now() : null;

// One request at a time; due is when to make the next one, by the clock on the wall,
// which goes on while a phone sleeps.
let asked = Date.now();
let round = 0;
let timer = 0;
let stepping = 0; // the timer of the turn
let due = null; // { at, what }

say();
atWork.then(() => now.state === 'joining' && become({ state: 'joining', lead: 'wait.working' }));
ask(() => first, entering);
setInterval(tick, 1000);

// -- asking

async function ask(request, enters = false) {
  clearTimeout(timer);
  due = null;
  const mineRound = ++round;
  asked = Date.now();
  const answer = await request();
  if (mineRound === round) take(answer, enters);
}

const poll = () => ask(position);
const join = () => ask(() => enter(() => become({ state: 'joining', lead: 'wait.working' })), true);

function later(ms, what = poll) {
  clearTimeout(timer);
  due = { at: Date.now() + ms, what };
  timer = setTimeout(what, ms);
}

// drop forgets what is on its way, and what would be asked next.
function drop() {
  round++;
  clearTimeout(timer);
  due = null;
}

// soon brings the next request forward, for somebody who is back.
function soon() {
  if (due) later(pauseBefore(Date.now(), asked), due.what);
}

function tick() {
  if (until !== null) count(until - Date.now());
  // The timer of a phone that slept is late.
  if (due && Date.now() > due.at + 1500) soon();
}

document.addEventListener('visibilitychange', () => {
  hiddenSince = document.hidden ? Date.now() : null;
  if (document.hidden) return;
  if (turn && !turn.elsewhere && !turn.gone) goOn();
  else soon();
});
addEventListener('online', soon);
addEventListener('offline', () => due && become({ ...now, trouble: 'offline' }));
addEventListener('pageshow', (event) => event.persisted && soon());
addEventListener('hashchange', () => arrive() && join());
document.addEventListener('sluice-language', () => show(now));

// -- answers

function take({ status, body, retryAfter }, enters) {
  const failed = status === 0 || status >= 500 || status === 429;
  // An open turn needs nobody's answer.
  if (failed && turn && Date.now() < turn.expiresAt) return later(Math.max(retryAfter, told));
  if (body.code === 'queue_full') return full(retryAfter);
  if (body.code === 'queue_unavailable') return blocked(retryAfter, enters);
  if (failed) return trouble(status, retryAfter, enters);
  failures = 0;
  until = low = null;
  if (body.state !== 'admitted') noTurn();
  if (body.state === 'waiting') return waiting(body);
  if (body.state === 'scheduled') return scheduled(body);
  if (body.state === 'admitted') return admitted(body, enters);
  if (body.state === 'closed' || body.code === 'line_closed') return closed(body);
  if (ended.includes(body.state)) return end(body.state);
  refused(status, body);
}

function become(next) {
  now = { held, ...next };
  if (turn === null) hush();
  if (!['waiting', 'scheduled', 'blocked'].includes(now.state) && $('leaving')?.open) $('leaving').close();
  show(now);
}

function waiting(a) {
  held = 'yes';
  const known = a.position !== null;
  // Until all have asked again, places that others will come back to count as passed.
  if (known && a.reason !== 'degraded') journey.set(travelled(journey.get(), a.entered_at, a.position));
  low = a.estimated_wait_range_ms?.[0] ?? null;
  become({ state: 'waiting', answer: a, reason: a.reason === 'degraded' && !known ? 'bypass' : a.reason, journey: journey.get() });
  follow(a.poll_after_ms);
}

// scheduled counts down to the opening from the server's time: the visitor's own clock
// may be wrong.
function scheduled(a) {
  held = 'yes';
  if (a.opens_at) {
    low = Math.max(0, Date.parse(a.opens_at) - Date.parse(a.server_time));
    until = Date.now() + low;
  }
  become({ state: 'scheduled', answer: a });
  count(until === null ? null : until - Date.now());
  follow(a.poll_after_ms);
}

function follow(ms) {
  told = ms;
  later(pollIn({ told, low, hiddenFor: hiddenSince === null ? 0 : Date.now() - hiddenSince, calls: calling() }));
}

// closed goes on asking for somebody who holds a place: the line may open again.
function closed(a) {
  held = a.state ? 'yes' : 'no';
  become({ state: 'closed', answer: a });
  if (a.state) later(closedEvery * (0.8 + 0.4 * Math.random()));
}

function end(state) {
  held = 'no';
  noTurn();
  forget();
  become({ state });
}

// refused shows who has no place and why; what is nobody's fault but that of how the page
// is served is told as it came.
function refused(status, { code, detail }) {
  held = 'unknown';
  if (code === 'line_not_found') return become({ state: 'unknown' });
  if (code === 'identity_missing') return become({ state: 'login' });
  held = 'no';
  if (status === 401) forget();
  if (code === 'ticket_expired') return become({ state: 'none', lead: 'wait.oldLead' });
  become({ state: 'none', ...(status > 401 && detail && { trouble: 'busy', detail }) });
}

// full tries again by itself; nothing is kept for who has no place.
function full(ms) {
  held = 'no';
  until = Date.now() + ms;
  become({ state: 'full' });
  count(ms);
  later(ms, join);
}

// blocked: the line cannot be asked, or takes and lets in nobody just now.
function blocked(ms, enters) {
  until = null;
  become({ state: 'blocked' });
  later(Math.max(told, ms), enters ? join : poll);
}

// trouble leaves what is shown as it is. One request that nobody answered says little: a
// phone that wakes up asks before its radio is there.
function trouble(status, ms, enters) {
  failures++;
  const certain = status !== 0 || failures > 1 || navigator.onLine === false;
  become({ ...now, entering: false, held, ...(certain && { trouble: status === 0 ? 'offline' : 'busy' }) });
  later(retryIn({ failures, asked: ms, told: enters ? 0 : told, random: Math.random() }), enters ? join : poll);
}

// -- the turn

// admitted opens the turn in one tab: who has just asked for it here (insist), or the
// first to notice.
function admitted(a, insist) {
  held = 'yes';
  const again = turn?.token === a.token && turn;
  turn = {
    token: a.token,
    line: a.line ?? line,
    usableAt: Date.now() + a.usable_in_ms,
    expiresAt: Date.now() + a.expires_in_ms,
    gone: again && again.gone,
  };
  until = turn.expiresAt;
  later(Math.min(admittedEvery, a.expires_in_ms + 500));
  if (!claim(turn.token, insist)) return elsewhere();
  journey.clear();
  // A visitor who is not looking, and asked to be called, is called before the page goes.
  turn.goAt = Math.max(turn.usableAt, Date.now() + (document.hidden && calling() ? callFor : settling));
  opening();
  if (!again) callVisitor({ title: t('wait.admitted'), text: t('wait.noteText', { time: clock(a.expires_in_ms) }) });
}

// noTurn ends the turn here: nothing may take the visitor on any more.
function noTurn() {
  clearTimeout(stepping);
  turn = null;
}

function elsewhere() {
  clearTimeout(stepping);
  turn.elsewhere = true;
  hush();
  become({ state: 'elsewhere' });
  count(until - Date.now());
}

// opening counts down to when the turn is good, and goes on then.
function opening() {
  clearTimeout(stepping);
  const left = turn.goAt - Date.now();
  const usable = Date.now() >= turn.usableAt;
  if (left > 0) become({ state: 'admitted', usable, lead: 'wait.admittedLead', n: Math.ceil(left / 1000) });
  else become({ state: 'admitted', usable, lead: 'wait.goNow' });
  count(until - Date.now());
  if (left > 0) stepping = setTimeout(opening, left % 1000 || 1000);
  else if (!turn.gone) goOn();
}

// goOn takes the visitor on, in the tab that the turn belongs to. Where there is no
// connection the page stays: leaving it would lose what it shows. A turn may have passed
// while the page slept, and the shop could do nothing with that.
function goOn() {
  clearTimeout(stepping);
  if (Date.now() >= turn.expiresAt) return poll();
  if (Date.now() < turn.usableAt) {
    turn.goAt = turn.usableAt;
    return opening();
  }
  if (!mine(turn.token)) return elsewhere();
  if (navigator.onLine === false) {
    turn.goAt = Date.now();
    become({ ...now, trouble: 'offline' });
    return;
  }
  turn.gone = true;
  const url = destination(destinationAsked(), settings.shop, location.href);
  location.replace(onward(url, { token: turn.token, line: turn.line, expiresIn: turn.expiresAt - Date.now() }));
}

$('go')?.addEventListener('click', () => {
  if (!turn || (now.state === 'admitted' && !now.usable)) return;
  turn.elsewhere = false;
  claim(turn.token, true);
  goOn();
});

$('back')?.addEventListener('click', (event) => {
  event.preventDefault();
  location.assign(destination(null, settings.shop, location.href));
});

hear((what) => {
  if (what === 'left') {
    drop();
    return end('left');
  }
  if (what === 'going') return turn && !mine(turn.token) ? elsewhere() : soon();
});

// -- the visitor's choices

$('enter')?.addEventListener('click', () => {
  if (now.entering) return;
  become({ ...now, entering: true, trouble: undefined });
  join();
});

$('leave')?.addEventListener('click', () => {
  const dialog = $('leaving');
  if (!dialog) return giveUp();
  dialog.showModal();
});
$('leaving')?.addEventListener('submit', (event) => event.submitter?.value === 'leave' && giveUp());

async function giveUp() {
  drop();
  if (await leave()) return end('left');
  become({ ...now, trouble: 'busy' });
  later(told);
}

$('sound')?.addEventListener('change', (event) => setSound(event.target.checked).finally(switches));
$('notify')?.addEventListener('change', (event) => setNotification(event.target.checked).finally(switches));
// A touch may have let the sound play.
for (const event of ['pointerdown', 'keydown']) addEventListener(event, () => setTimeout(switches, 300));
