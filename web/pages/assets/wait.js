import { call, enter as takePlace, journey, lineQuery, sleep, turn, turnOf, wanted } from './api.js';
import { clock, moment, number, say, span, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const line = new URLSearchParams(location.search).get('line');
const query = lineQuery(line);
const closedEvery = 60_000; // ms between two looks at a line that may open again
let timer = 0;
let due = poll; // what the timer is for
let countdown = 0;

say();
title('wait.joining');
poll();

$('enter').addEventListener('click', enter);
$('leave').addEventListener('click', leave);
// A phone that slept or a tab in the background is late with its poll.
document.addEventListener('visibilitychange', () => document.hidden || timer === 0 || due());

async function poll() {
  clearTimeout(timer);
  timer = 0;
  show(await call('GET', `/queue/position${query}`));
}

async function enter() {
  clearTimeout(timer);
  timer = 0;
  $('enter').disabled = true;
  const answer = await takePlace(query, () => title('wait.joining', 'wait.working'));
  $('enter').disabled = false;
  // Who is not in line has nothing to poll with: what is tried again is to enter.
  if (troubled(answer)) return trouble(answer.retryAfter, 'wait.notIn', enter);
  show(answer);
}

async function leave() {
  if (!confirm(t('wait.leaveSure'))) return;
  clearTimeout(timer);
  timer = 0;
  const { status } = await call('POST', `/queue/leave${query}`);
  if (status === 0 || status === 503) return trouble(2000);
  show({ status: 200, body: { state: 'left' } });
}

function troubled({ status, body }) {
  return status === 0 || (status >= 500 && body.code !== 'queue_full') || status === 429;
}

function show({ status, body, retryAfter }) {
  if (troubled({ status, body })) return trouble(retryAfter);
  $('trouble').hidden = true;
  clearInterval(countdown);
  $('opening').hidden = true;
  if (body.state === 'scheduled') return scheduled(body);
  if (body.state === 'waiting') return waiting(body);
  if (body.state === 'admitted') return admitted(body);
  if (body.state === 'closed' || body.code === 'line_closed') return closed(body);
  ended(body.state ?? (body.code === 'queue_full' ? 'full' : 'none'));
  // Anything else is a mistake in how this page is served: say which.
  if ((status > 401 || body.code === 'identity_missing') && body.detail && body.code !== 'queue_full') {
    $('trouble').textContent = body.detail;
    $('trouble').hidden = false;
  }
}

function title(key, lead) {
  $('title').textContent = t(key);
  $('lead').textContent = lead ? t(lead) : '';
  document.title = t(key);
}

function next(ms, what = poll) {
  clearTimeout(timer);
  due = what;
  timer = setTimeout(due, ms);
}

function trouble(retryAfter, why = 'wait.trouble', again = poll) {
  $('trouble').textContent = t(why);
  $('trouble').hidden = false;
  next(retryAfter, again);
}

// scheduled counts down to the opening by the server's clock: the visitor's own
// may be wrong, or set while the page is open.
function scheduled(a) {
  title('wait.scheduled', 'wait.scheduledLead');
  $('line').hidden = true;
  $('reason').hidden = true;
  $('opening').hidden = false;
  $('opensAt').textContent = a.opens_at ? moment(a.opens_at) : '–';
  $('inDraw').textContent = number(a.waiting);
  const opens = performance.now() + (Date.parse(a.opens_at) - Date.parse(a.server_time));
  const tick = () => {
    const left = opens - performance.now();
    $('countdown').textContent = left > 0 ? clock(left) : t('wait.opening');
  };
  tick();
  countdown = setInterval(tick, 1000);
  message(a.message);
  buttons({ leave: true });
  next(a.poll_after_ms);
}

// closed keeps asking now and then for somebody who holds a place: the line may
// be opened again.
function closed(a) {
  ended('closed');
  message(a.message);
  buttons({ back: true });
  if (a.state) next(closedEvery * (0.8 + 0.4 * Math.random()));
}

function waiting(a) {
  // Without a position nobody knows it just now; the place is kept.
  const known = a.position !== null;
  title(a.position === 1 ? 'wait.next' : 'wait.title', 'wait.lead');
  document.title = known ? `${number(a.position)} · ${t('wait.name')}` : t('wait.name');
  $('line').hidden = false;
  $('position').textContent = known ? number(a.position) : t('wait.kept');
  $('waiting').textContent = number(a.waiting);
  const range = a.estimated_wait_range_ms;
  $('estimate').textContent = range ? span(range[0], range[1]) : a.reason === 'paused' || a.reason === 'degraded' ? '–' : t('wait.measuring');
  if (known) $('progress').value = progress(a);
  $('reason').hidden = !a.reason;
  $('reason').textContent = a.reason ? t(known || a.reason !== 'degraded' ? `wait.${a.reason}` : 'wait.bypass') : '';
  message(a.message);
  buttons({ leave: true });
  next(a.poll_after_ms);
}

// progress is how much of the way is done, and never goes back: when somebody
// returns to an earlier place the figure says so, the bar waits.
function progress(a) {
  let j = journey.get();
  if (!j || j.entered !== a.entered_at) j = { entered: a.entered_at, first: a.position, best: 0 };
  j.best = Math.max(j.best, 1 - a.position / (j.first + 1));
  journey.set(j);
  return j.best;
}

function message(text) {
  $('message').hidden = !text;
  $('message').textContent = text ?? '';
}

async function admitted(a) {
  const held = turnOf(a);
  turn.set(held);
  title('wait.admitted');
  $('line').hidden = true;
  $('reason').hidden = true;
  message('');
  buttons({});
  for (let left = held.usableAt - Date.now(); left > 0; left = held.usableAt - Date.now()) {
    $('lead').textContent = t('wait.admittedLead', { n: Math.ceil(left / 1000) });
    await sleep(Math.min(left, 250));
  }
  $('lead').textContent = t('wait.goNow');
  location.replace('/');
}

function ended(state) {
  clearTimeout(timer);
  timer = 0;
  // Used with what this tab wants still unanswered: the page was left with the
  // order on its way. The shop asks for it again and shows the receipt.
  if (state === 'spent' && turn.get() && wanted.get()) return location.replace('/');
  title(`wait.${state}`, `wait.${state}Lead`);
  $('line').hidden = true;
  $('reason').hidden = true;
  message('');
  journey.clear();
  turn.clear();
  // Who missed their turn, or found the line full or closed, still wants what they
  // chose.
  // After any other end a later turn must not order what nobody asked for again.
  if (!['expired', 'full', 'closed'].includes(state)) wanted.clear();
  $('enter').textContent = t(state === 'none' || state === 'full' ? 'wait.enter' : 'wait.again');
  buttons({ enter: true, back: true });
}

function buttons(shown) {
  for (const id of ['enter', 'leave', 'back']) $(id).hidden = !shown[id];
}
