// What the waiting page shows of a state. It fills the elements of the page by their
// ids, and skips those that a shop's own template leaves out; an element with data-for
// is shown in the states that it lists.
import { notification, sound } from './alerts.js';
import { behind, worthSaying } from './reckon.js';
import { clock, moment, number, span, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const main = document.querySelector('main') ?? document.body;

// words are the title and the lead of each state. Where it matters whether a place is
// held, the lead says so below.
const words = {
  joining: ['wait.joining'],
  waiting: ['wait.title', 'wait.lead'],
  scheduled: ['wait.scheduled', 'wait.scheduledLead'],
  admitted: ['wait.admitted', 'wait.admittedLead'],
  elsewhere: ['wait.elsewhere', 'wait.elsewhereLead'],
  spent: ['wait.spent', 'wait.spentLead'],
  expired: ['wait.expired', 'wait.expiredLead'],
  left: ['wait.left', 'wait.leftLead'],
  removed: ['wait.removed', 'wait.removedLead'],
  closed: ['wait.closed', 'wait.closedLead'],
  full: ['wait.full', 'wait.fullLead'],
  blocked: ['wait.blocked'],
  none: ['wait.none', 'wait.noneLead'],
  unknown: ['wait.unknown', 'wait.unknownLead'],
  login: ['wait.login', 'wait.loginLead'],
};
const reasons = { paused: 'wait.paused', sold_out: 'wait.sold_out', degraded: 'wait.degraded', bypass: 'wait.bypass' };
const holds = { yes: 'wait.stayIn', no: 'wait.stayOut', unknown: 'wait.stayUnknown' };
const troubles = { offline: 'wait.offline', busy: 'wait.busy' };
const notes = { touch: 'wait.soundTouch', denied: 'wait.notifyDenied' };

let shown = {}; // what the page shows
let said = null; // { position, at }: the place that was read out last

// show shows a state: { state, held } and, where there are, the server's answer, the
// reason why nothing moves, a lead of its own with its number n, the journey, a trouble
// and its detail; usable and entering are what the buttons depend on.
export function show(now) {
  const focused = document.activeElement;
  main.dataset.state = now.state;
  set(main.dataset, 'reason', now.reason);
  set(main.dataset, 'trouble', now.trouble);
  for (const el of document.querySelectorAll('[data-for]')) el.hidden = !el.dataset.for.split(' ').includes(now.state);
  $('title')?.closest('[aria-busy]')?.removeAttribute('aria-busy');

  const title = titleOf(now);
  text('title', title);
  text('lead', leadOf(now));
  text('reason', now.reason ? t(reasons[now.reason]) : '');
  text('trouble', now.trouble ? troubleOf(now) : '');
  text('words', now.answer?.message);
  hide('message', !now.answer?.message);
  if (now.state === 'waiting') figures(now);
  if (now.state === 'scheduled') draw(now.answer);
  buttons(now);
  switches();
  document.title = tabTitle(now, title);

  announce(now, title);
  if (focused?.closest('[hidden]')) $('title')?.focus({ preventScroll: true });
  shown = now;
}

const set = (data, name, value) => (value ? (data[name] = value) : delete data[name]);

// text fills an element and hides it when there is nothing to say. What stays the same
// is left alone, so that nobody's selection or screen reader is disturbed.
function text(id, words) {
  const el = $(id);
  if (!el) return;
  el.hidden = !words;
  if (el.textContent !== (words ?? '')) el.textContent = words ?? '';
}

function hide(id, hidden) {
  const el = $(id);
  if (el) el.hidden = hidden;
}

const titleOf = (now) => t(now.state === 'waiting' && now.answer.position === 1 ? 'wait.next' : words[now.state][0]);

function leadOf(now) {
  if (now.lead) return t(now.lead, { n: now.n });
  if (now.state === 'blocked') return t(holds[now.held]);
  if (now.state === 'closed' && now.held === 'yes') return t('wait.closedIn');
  return words[now.state][1] ? t(words[now.state][1]) : '';
}

function troubleOf(now) {
  if (now.detail) return now.detail;
  const trouble = t(troubles[now.trouble]);
  return ['full', 'admitted', 'elsewhere'].includes(now.state) ? trouble : `${trouble} ${t(holds[now.held])}`;
}

function tabTitle(now, title) {
  return now.state === 'waiting' && now.answer.position ? `${number(now.answer.position)} · ${t('wait.name')}` : title;
}

function figures({ answer: a, journey, reason }) {
  const known = a.position !== null;
  text('position', known ? number(a.position) : t('wait.kept'));
  text('behind', known ? number(behind(a.position, a.waiting)) : '–');
  text('estimate', waitOf(a, reason));
  const bar = $('progress');
  if (!bar) return;
  bar.hidden = !known || journey?.best == null;
  if (!bar.hidden) bar.value = journey.best;
}

function waitOf(a, reason) {
  const range = a.estimated_wait_range_ms;
  if (range) return span(...range);
  return reason === 'sold_out' || !reason ? t('wait.measuring') : '–';
}

function draw(a) {
  text('opensAt', a.opens_at ? moment(a.opens_at) : '–');
  text('inDraw', number(a.waiting));
}

// count shows how much time is left.
export function count(left) {
  if (left === null) return;
  text('countdown', left > 0 || shown.state !== 'scheduled' ? clock(left) : t('wait.opening'));
}

function buttons(now) {
  text('enter', t(now.state === 'none' ? 'wait.enter' : 'wait.again'));
  hide('enter', !['none', 'spent', 'expired', 'left', 'removed'].includes(now.state));
  text('go', t(now.state === 'elsewhere' ? 'wait.goHere' : 'wait.go'));
  hide('go', !['admitted', 'elsewhere'].includes(now.state));
  hide('leave', !['waiting', 'scheduled', 'blocked'].includes(now.state) || now.held !== 'yes');
  // Not disabled, which would take the focus from whoever pressed it.
  $('go')?.setAttribute('aria-disabled', now.state === 'admitted' && !now.usable);
  $('enter')?.setAttribute('aria-disabled', Boolean(now.entering));
}

// switches shows whether the visitor is called by sound and notification.
export function switches() {
  for (const [id, { can, on, note }] of [['sound', sound()], ['notify', notification()]]) {
    if ($(id)) $(id).checked = on;
    hide($(`${id}Switch`) ? `${id}Switch` : id, !can);
    text(`${id}Note`, note ? t(notes[note]) : '');
  }
}

// announce tells a screen reader what matters: another state, the turn at once, and a
// place now and then; never each poll. What is seen is no live region.
function announce(now, title) {
  if (now.state !== shown.state || now.reason !== shown.reason) {
    const parts = [`${title}.`, leadOf(now), now.reason && t(reasons[now.reason]), now.trouble && troubleOf(now), now.answer?.message];
    speak(now.state === 'admitted' ? 'alarm' : 'announce', parts.filter(Boolean).join(' '));
    said = null;
  } else if (now.trouble !== shown.trouble) {
    speak('announce', now.trouble ? troubleOf(now) : title);
  }
  const { position } = now.answer ?? {};
  if (now.state !== 'waiting' || position === null || !worthSaying(said, position, Date.now())) return;
  const range = now.answer.estimated_wait_range_ms;
  const place = [t('wait.saidPlace', { n: number(position) }), range && t('wait.saidWait', { time: span(...range) })].filter(Boolean).join(' ');
  speak('announce', said ? place : `${$('announce')?.textContent ?? ''} ${place}`);
  said = { position, at: Date.now() };
}

function speak(id, words) {
  const el = $(id);
  if (el) el.textContent = words;
}
