// The operator's page: what runs when.

import * as controls from './controls.js';
import * as figures from './figures.js';
import { Past } from './history.js';
import * as journal from './journal.js';
import { ask, good, keep, linePath, token } from './operator.js';
import { plots } from './plots.js';
import * as stock from './stock.js';
import { say, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const address = new URLSearchParams(location.search);
const journalEvery = 15_000; // ms

const past = new Past();
let line = address.get('line') ?? 'default';
let every = Math.max(100, Number(address.get('every')) || 3600); // ms between two updates
let timer, busy = false, again = false;
let viewAge = 0; // ms, of the figures when the server sent them
let failed = false; // whether it did not, the last time
let heard = null; // when the server last answered, by performance.now()
let journalRead = -Infinity;
let problem = ''; // what is wrong with the line, in words

say();
for (const el of document.querySelectorAll('[data-hint]')) el.placeholder = t(el.dataset.hint);
const wide = matchMedia('(min-width: 48rem)').matches;
for (const el of document.querySelectorAll('details[data-wide]')) el.open = wide;
const charts = plots();
controls.start(changed);
stock.start((text) => {
  $('done').textContent = text;
  changed();
});
journal.me();
refresh();
setInterval(() => document.hidden || age(), 1000);
document.addEventListener('visibilitychange', () => document.hidden || refresh());

// refresh reads everything and comes again; never twice at once, and not while nobody
// looks.
async function refresh() {
  if (busy) return void (again = true);
  clearTimeout(timer);
  busy = true;
  again = false;
  try {
    if ($('login').hidden) await read();
  } finally {
    busy = false;
    if (!document.hidden) timer = setTimeout(refresh, again ? 0 : every);
  }
}

async function read() {
  const asked = line;
  const [answer, history] = await Promise.all([
    ask('GET', '/admin/api/lines'), ask('GET', `${linePath(asked)}/history?after=${past.end}`),
  ]);
  if (answer.status === 401) return login();
  failed = !good(answer);
  if (failed) {
    problem = answer.body.detail ?? '';
    return age();
  }
  heard = performance.now();
  $('live').hidden = false;
  const { lines } = answer.body;
  choices(lines);
  if (asked !== line) return; // another was chosen meanwhile
  const l = lines.find((one) => one.line === line);
  if (!l) return choose(lines[0].line);
  $('noHistory').hidden = good(history);
  if (good(history)) past.add(history.body);
  show(l, lines);
  if (heard - journalRead > journalEvery) {
    journalRead = heard;
    journal.refresh();
  }
}

function show(l, lines) {
  problem = figures.troubles(l);
  viewAge = l.view_age_ms;
  figures.show(l);
  controls.show(l);
  stock.show(l, lines);
  draw();
  age();
}

function draw() {
  for (const chart of charts) chart.show(past, Number($('span').value));
}

// age says how old the figures are, and that they are when that is long.
function age() {
  if (!$('login').hidden) return;
  const old = heard === null ? null : performance.now() - heard + viewAge;
  const stale = failed || old > Math.max(5000, 2.5 * every);
  $('age').textContent = old === null ? '' : t('admin.age', { n: Math.round(old / 1000) });
  document.body.classList.toggle('stale', stale);
  trouble(failed ? `${t(heard === null ? 'admin.neverAnswered' : 'admin.noAnswer')} ${problem}`.trim() : problem);
}

// trouble says what is wrong, once: whoever listens is not told again of what stays.
function trouble(text) {
  if ($('trouble').textContent === text) return;
  $('trouble').textContent = text;
  $('trouble').hidden = !text;
}

function choices(lines) {
  const there = lines.map((l) => l.line);
  $('lines').hidden = there.length < 2;
  if ([...$('lines').options].map((o) => o.value).join() !== there.join()) {
    $('lines').replaceChildren(...there.map((id) => new Option(id, id)));
  }
  $('lines').value = line;
}

// choose looks at another line; a reload stays there.
function choose(id) {
  line = id;
  past.clear();
  controls.forget();
  address.set('line', id);
  history.replaceState(null, '', `?${address}`);
  refresh();
}

// changed is after a change by this operator.
function changed(created) {
  journalRead = -Infinity;
  if (created) return choose(created);
  refresh();
}

function login() {
  trouble(token() ? t('admin.wrongToken') : '');
  keep(null);
  $('login').hidden = false;
  $('live').hidden = $('gate').hidden = true;
  $('login').elements.token.focus();
}

$('lines').addEventListener('change', () => choose($('lines').value));
$('span').addEventListener('change', draw);
$('every').addEventListener('change', () => {
  every = Number($('every').value);
  refresh();
});
$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  keep($('login').elements.token.value);
  $('login').reset();
  $('login').hidden = true;
  trouble('');
  journal.me();
  refresh();
});
