// What the line is doing and why, in figures and in words.

import { rough } from './reckon.js';
import { moment, number, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const none = '–';
const time = (at) => new Date(at).toLocaleTimeString();
const percent = (part) => (part === null ? none : `${number(Math.round(part * 1000) / 10)} %`);
const seconds = (ms) => (ms === null ? none : number(Math.round(ms / 100) / 10));
const quantiles = (l) => l && `${number(Math.round(l.p50))} / ${number(Math.round(l.p95))} / ${number(Math.round(l.p99))}`;
export const written = (value) => (typeof value === 'number' ? number(value) : value ?? none);

const limits = {
  capacity: ['admin.byCapacity', 'admin.whyCapacity'], backlog: ['admin.byBacklog', 'admin.whyBacklog'],
  max_active: ['admin.byMaxActive', 'admin.whyMaxActive'], override: ['admin.byOverride', 'admin.whyOverride'],
  paused: ['admin.byPaused', 'admin.whyPaused'], schedule: ['admin.bySchedule', 'admin.whySchedule'],
  recovering: ['admin.byRecovering', 'admin.whyRecovering'], no_one_waiting: ['admin.byNoOne', 'admin.whyNoOne'],
  passthrough: ['admin.byPassthrough', 'admin.whyPassthrough'], block: ['admin.byBlock', 'admin.whyBlock'],
  bypass: ['admin.byBypass', 'admin.whyBypass'],
};
const states = {
  open: 'admin.open', paused: 'admin.paused', scheduled: 'admin.scheduled', closed: 'admin.closed', degraded: 'admin.degraded',
};
const answers = { up: 'admin.answers', down: 'admin.silent' };

// show fills in a line as it was last read.
export function show(l) {
  const state = l.degraded && l.state === 'open' ? 'degraded' : l.state;
  put($('state'), t(states[state]));
  $('state').className = `chip ${state}`;
  $('state').hidden = false;
  document.title = t('admin.title', { n: number(l.waiting), state: t(states[state]), line: l.line });
  now(l);
  more(l);
  processes(l);
  $('seed').hidden = !l.seed_sha256;
  put($('seed'), t('admin.seed', { hash: l.seed_sha256 ?? '' }));
}

function now(l) {
  const [by, why] = limits[limit(l)] ?? ['admin.unknown', 'admin.whyUnknown'];
  put($('why'), t(why, {
    line: l.line, waiting: number(l.waiting), rate: number(l.rate), max: number(l.max_active),
    opens: l.opens_at ? moment(l.opens_at) : none, until: l.hold_until ? time(l.hold_until) : none,
  }));
  const database = l.orders?.database ?? l.processes.find((p) => p.database)?.database;
  tiles('now', [
    ['waiting', t('admin.waiting'), l.waiting],
    ['admitted', t('admin.letInRate'), l.admitted_per_second],
    ['limited', t('admin.limitedBy'), t(by)],
    ['newcomer', t('admin.newcomer'), newcomer(l)],
    ['inside', t('admin.inside'), l.max_active ? t('admin.of', { n: number(l.inside), most: number(l.max_active) }) : l.inside],
    ['store', t('admin.store'), t(l.store === 'there' ? 'admin.answers' : 'admin.silent'), l.store !== 'there'],
    ['database', t('admin.database'), database ? t(answers[database]) : none, database === 'down'],
    ['hold', t('admin.hold'), l.hold_until ? time(l.hold_until) : t('admin.noHold'), l.hold_until !== null],
  ]);
}

// limit is what keeps people from being let in: what holds everybody up, be there anybody
// or not, and else what bounded the last batch.
function limit(l) {
  if (l.mode_in_force === 'block' || l.mode_in_force === 'bypass') return l.mode_in_force;
  if (l.paused) return 'paused';
  if (l.state === 'scheduled' || l.state === 'closed') return 'schedule';
  return l.degraded ? 'recovering' : l.limited_by;
}

// newcomer is what somebody who enters now is told.
function newcomer(l) {
  if (['no_one_waiting', 'passthrough'].includes(limit(l)) && !l.waiting) return t('admin.noWait');
  return l.estimated_wait_range_ms ? span(...l.estimated_wait_range_ms) : t('admin.notKnown');
}

// span is the wait that visitors are told, in short.
function span(low, high) {
  const wait = rough(low, high);
  if (!wait) return t('time.now');
  const { unit, a, b } = wait;
  const format = new Intl.NumberFormat(t('lang'), { style: 'unit', unit, unitDisplay: 'short' });
  return a === b ? format.format(b) : format.formatRange?.(a, b) ?? `${number(a)}–${format.format(b)}`;
}

function more(l) {
  tiles('figures', [
    ['arrived', t('admin.visitorsArrived'), l.arrived], ['let', t('admin.visitorsLetIn'), l.admitted], ['spent', t('admin.visitorsOrdered'), l.spent],
    ['expired', t('admin.visitorsExpired'), l.expired], ['left', t('admin.visitorsLeft'), l.left], ['givenUp', t('admin.visitorsGivenUp'), l.given_up],
    ['away', t('admin.away'), l.away], ['bypassed', t('admin.bypassed'), l.bypassed], ['unrecorded', t('admin.unrecorded'), l.unrecorded],
    ['rate', t('admin.rate'), l.rate], ['rateLimit', t('admin.rateLimit'), l.rate_limit], ['moving', t('admin.moving'), l.moved_per_second],
    ['share', t('admin.shareOf'), percent(l.share)], ['conversion', t('admin.conversion'), percent(l.conversion)], ['pending', t('admin.pending'), l.pending],
    ['capacity', t('admin.orderCapacity'), l.capacity], ['budget', t('admin.budget'), l.budget], ['pipe', t('admin.inPipe'), `${written(l.in_pipe)} / ${written(l.target)}`],
    ['modeInForce', t('admin.modeInForce'), l.mode_in_force], ['queues', t('admin.queues'), l.queue_instances],
    ['polls', t('admin.pollsNow'), l.effective_poll_budget || none], ['lag', t('admin.lag'), seconds(l.lag_ms)],
    ['dropped', t('admin.dropped'), l.dropped_permits], ['register', t('admin.registerAge'), seconds(l.register_age_ms)],
    ['epoch', t('admin.epoch'), String(l.epoch)], ['created', t('admin.createdAt'), moment(l.created_at)],
  ]);
}

// processes shows the order side, one card for each process.
function processes(l) {
  const root = $('processes');
  $('processSection').hidden = !l.processes.length;
  const gone = new Set(root.children);
  for (const p of l.processes) {
    let card = [...root.children].find((el) => el.dataset.process === p.process);
    if (!card) {
      card = document.createElement('li');
      card.className = 'panel';
      card.dataset.process = p.process;
      card.append(document.createElement('h3'), Object.assign(document.createElement('dl'), { className: 'tiles' }));
      card.firstChild.textContent = p.process;
      root.append(card);
    }
    gone.delete(card);
    fill(card.lastChild, process(p, l));
  }
  for (const card of gone) card.remove();
}

const reasons = { measured: 'admin.measuredBusy', growing: 'admin.growing', first_guess: 'admin.firstGuess', idle: 'admin.idle' };

function process(p, l) {
  const age = ['age', t('admin.reportAge'), seconds(Math.max(0, Date.parse(l.server_time) - Date.parse(p.at)))];
  if (p.workers === undefined) return [['serves', t('admin.serves'), t('admin.queueOnly')], age];
  return [
    ['capacity', t('admin.orderCapacity'), p.capacity], ['reason', t('admin.reason'), reasons[p.reason] ? t(reasons[p.reason]) : p.reason],
    ['throughput', t('admin.throughput'), p.throughput], ['busy', t('admin.workersBusy'), `${p.busy} / ${p.workers}`],
    ['use', t('admin.utilisation'), percent(p.utilisation)], ['backlog', t('admin.backlog'), p.backlog_limit ? `${p.backlog} / ${p.backlog_limit}` : p.backlog],
    ['work', t('admin.work'), quantiles(p.work_ms)], ['wait', t('admin.wait'), quantiles(p.wait_ms)],
    ['completed', t('admin.ordersDone'), p.completed], ['refused', t('admin.ordersRefused'), p.refused], ['returning', t('admin.returning'), p.returning],
    ...(p.database ? [['database', t('admin.database'), t(answers[p.database]), p.database === 'down']] : []), age,
  ];
}

export const tiles = (id, figures) => fill($(id), figures);

// fill shows figures, each [key, name, value, whether it is bad], in nodes that stay.
function fill(root, figures) {
  for (const [key, name, value, bad] of figures) {
    let tile = [...root.children].find((el) => el.dataset.key === key);
    if (!tile) {
      tile = document.createElement('div');
      tile.dataset.key = key;
      tile.append(document.createElement('dt'), document.createElement('dd'));
      tile.firstChild.textContent = name;
      root.append(tile);
    }
    put(tile.lastChild, written(value));
    tile.classList.toggle('bad', Boolean(bad));
  }
}

function put(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

// troubles are what is wrong with a line, in words.
export function troubles(l) {
  const found = [];
  if (l.store === 'away') {
    const meanwhile = l.mode_in_force === 'bypass' ? 'admin.awayBypass' : 'admin.awayBlock';
    found.push(t('admin.storeAway'), t(meanwhile), t('admin.onlyHere'));
  } else if (l.warning) {
    found.push(l.warning);
  }
  if (l.degraded) found.push(t('admin.lineLost', { until: l.hold_until ? time(l.hold_until) : none }));
  const down = l.processes.filter((p) => p.database === 'down').map((p) => p.process);
  if (down.length) found.push(t('admin.databaseDown', { processes: down.join(', ') }));
  else if (l.orders?.database === 'down') found.push(t('admin.databaseDown', { processes: t('admin.thisProcess') }));
  if (l.capacity === 0) found.push(t('admin.noCapacity'));
  return found.join(' ');
}
