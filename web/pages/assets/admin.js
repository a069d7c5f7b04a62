import { call as ask } from './api.js';
import { number, say, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const tokenKey = 'sluice.operator';
let line = 'default';
let shown = null; // the line as last read
const edited = new Set(); // forms that hold something not sent yet

say();
refresh();
setInterval(() => document.hidden || refresh(), 1000);

function credentials() {
  const token = sessionStorage.getItem(tokenKey);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function call(method, path, body) {
  const token = sessionStorage.getItem(tokenKey);
  const answer = await ask(method, path, { body, headers: credentials() });
  if (answer.status === 401) {
    if (token) trouble(t('admin.wrongToken'));
    sessionStorage.removeItem(tokenKey);
    $('login').hidden = false;
    $('live').hidden = true;
  }
  return answer;
}

async function refresh() {
  if (!$('login').hidden) return;
  const { status, body } = await call('GET', '/admin/api/lines');
  if (status === 401) return;
  if (status !== 200) return trouble(body.detail ?? t('admin.noAnswer'));
  trouble('');
  $('live').hidden = false;
  choose(body.lines);
  show(body.lines.find((l) => l.line === line) ?? body.lines[0]);
}

function choose(lines) {
  $('lines').hidden = lines.length < 2;
  if (![...$('lines').options].every((o, i) => o.value === lines[i]?.line) || $('lines').options.length !== lines.length) {
    $('lines').replaceChildren(...lines.map((l) => new Option(l.line, l.line)));
    $('lines').value = line;
  }
}

function show(l) {
  shown = l;
  trouble(l.warning ?? '');
  $('state').hidden = false;
  $('state').textContent = t(`admin.${l.degraded && l.state === 'open' ? 'degraded' : l.state}`);
  $('state').className = `chip ${l.state}`;
  $('clock').textContent = new Date(l.server_time).toLocaleTimeString();
  tiles('figures', [
    ['admin.waiting', l.waiting], ['admin.inside', l.inside], ['admin.away', l.away],
    ['admin.admitted', l.admitted], ['admin.arrived', l.arrived], ['admin.spent', l.spent], ['admin.expired', l.expired],
    ['admin.left', l.left], ['admin.givenUp', l.given_up],
    ['admin.rate', l.rate], ['admin.rateLimit', l.rate_limit], ['admin.admittedRate', l.admitted_per_second], ['admin.moving', l.moved_per_second],
    ['admin.limitedBy', (l.limited_by ?? '–').replaceAll('_', ' ')], ['admin.modeNow', l.mode], ['admin.modeInForce', l.mode_in_force],
    ['admin.store', l.store], ['admin.viewAge', l.view_age_ms / 1000], ['admin.bypassed', l.bypassed], ['admin.unrecorded', l.unrecorded],
    ['admin.share', percent(l.share)], ['admin.conversion', percent(l.conversion)], ['admin.pending', l.pending],
    ['admin.lag', l.lag_ms / 1000], ['admin.pollsNow', l.effective_poll_budget || '–'],
    ['admin.hold', l.hold_until ? new Date(l.hold_until).toLocaleTimeString() : '–'],
  ]);
  $('capacitySection').hidden = l.capacity === null;
  if (l.capacity !== null) capacity(l);
  $('seed').hidden = !l.seed_sha256;
  $('seed').textContent = t('admin.seed', { hash: l.seed_sha256 ?? '' });
  $('poolSection').hidden = !l.orders;
  $('product').hidden = !l.orders;
  if (l.orders) {
    const o = l.orders;
    tiles('pool', [
      ['admin.workers', `${o.busy} / ${o.workers}`], ['admin.backlog', o.backlog], ['admin.completed', o.completed],
      ['admin.refused', o.refused], ['admin.work', `${o.work_ms.p50} / ${o.work_ms.p95}`],
      ['admin.wait', `${o.wait_ms.p50} / ${o.wait_ms.p95}`], ['admin.delay', o.test_delay_ms],
    ]);
  }
  $('pause').textContent = t(l.paused ? 'admin.resume' : 'admin.pause');
  $('soldOut').textContent = t(l.sold_out ? 'admin.sayStock' : 'admin.saySoldOut');
  for (const form of document.querySelectorAll('form[data-patch]')) {
    const field = form.elements[form.dataset.patch];
    if (edited.has(form)) continue;
    const value = l[form.dataset.patch] ?? '';
    field.value = field.type === 'datetime-local' && value ? local(value) : value;
  }
}

const percent = (part) => (part === null ? '–' : `${number(Math.round(part * 1000) / 10)} %`);

// local is a time as a field for one wants it: in the operator's own zone.
function local(at) {
  const d = new Date(at);
  return new Date(d - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function capacity(l) {
  tiles('capacity', [
    ['admin.orderCapacity', l.capacity], ['admin.budget', l.budget], ['admin.inPipe', `${number(l.in_pipe)} / ${number(l.target)}`],
    ['admin.queues', l.queue_instances], ['admin.registerAge', l.register_age_ms / 1000],
  ]);
  const columns = [
    ['admin.process', (p) => p.process], ['admin.orderCapacity', (p) => p.capacity], ['admin.reason', (p) => p.reason?.replaceAll('_', ' ')],
    ['admin.throughput', (p) => p.throughput], ['admin.utilisation', (p) => (p.workers ? percent(p.utilisation) : undefined)],
    ['admin.workers', (p) => (p.workers ? `${p.busy} / ${p.workers}` : undefined)], ['admin.backlog', (p) => (p.workers ? `${p.backlog} / ${p.backlog_limit || '∞'}` : undefined)], ['admin.returning', (p) => p.returning],
    ['admin.completed', (p) => p.completed], ['admin.refused', (p) => p.refused],
    ['admin.work', (p) => p.work_ms && `${p.work_ms.p50} / ${p.work_ms.p95}`], ['admin.wait', (p) => p.wait_ms && `${p.wait_ms.p50} / ${p.wait_ms.p95}`],
    ['admin.age', (p) => Math.max(0, Math.round((Date.parse(l.server_time) - Date.parse(p.at)) / 100) / 10)],
  ];
  $('processHead').replaceChildren(...columns.map(([key]) => cell('th', t(key))));
  $('processes').replaceChildren(...l.processes.map((p) => {
    const row = document.createElement('tr');
    row.append(...columns.map(([, read]) => cell('td', read(p))));
    return row;
  }));
}

function cell(tag, value) {
  const el = document.createElement(tag);
  el.textContent = shownAs(value);
  return el;
}

const shownAs = (value) => (typeof value === 'number' ? number(value) : value ?? '–');

function tiles(id, figures) {
  const root = $(id);
  for (const [key, value] of figures) {
    let tile = root.querySelector(`[data-key="${key}"]`);
    if (!tile) {
      tile = document.createElement('div');
      tile.dataset.key = key;
      tile.append(document.createElement('dt'), document.createElement('dd'));
      tile.firstChild.textContent = t(key);
      root.append(tile);
    }
    tile.lastChild.textContent = shownAs(value);
  }
}

function trouble(text) {
  $('trouble').textContent = text;
  $('trouble').hidden = !text;
}

// outcome says how a change went and shows the line as it is now.
function outcome({ status, body }, text) {
  const good = status >= 200 && status < 300;
  if (status !== 401) $('done').textContent = good ? text : (body.detail ?? t('admin.noAnswer'));
  if (good && body.line) show(body);
  return good;
}

const linePath = () => `/admin/api/lines/${encodeURIComponent(line)}`;
const patch = async (change) => outcome(await call('PATCH', linePath(), change), t('admin.changed'));

$('lines').addEventListener('change', () => {
  line = $('lines').value;
  edited.clear();
  refresh();
});
$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(tokenKey, $('login').elements.token.value);
  $('login').reset();
  $('login').hidden = true;
  refresh();
});
$('pause').addEventListener('click', () => patch({ paused: !shown.paused }));
$('soldOut').addEventListener('click', () => patch({ sold_out: !shown.sold_out }));

for (const form of document.querySelectorAll('form[data-patch]')) {
  const name = form.dataset.patch;
  const send = async (value) => {
    if (await patch({ [name]: value })) edited.delete(form);
  };
  form.addEventListener('input', () => edited.add(form));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const field = form.elements[name];
    if (field.type === 'datetime-local') return send(new Date(field.value).toISOString());
    send(field.type === 'number' ? field.valueAsNumber : field.value);
  });
  form.querySelector('[data-clear]')?.addEventListener('click', () => {
    edited.delete(form);
    send(null);
  });
}

$('product').addEventListener('submit', async (event) => {
  event.preventDefault();
  const f = $('product').elements;
  const answer = await call('POST', '/admin/api/products', {
    name: f.name.value, brand: f.brand.value, price: f.price.valueAsNumber, stock: f.stock.valueAsNumber, image_url: f.image_url.value,
  });
  if (outcome(answer, t('admin.added', { n: answer.body.product_id }))) $('product').reset();
});
$('remove').addEventListener('submit', async (event) => {
  event.preventDefault();
  const id = encodeURIComponent($('remove').elements.visitor.value);
  if (outcome(await call('DELETE', `${linePath()}/visitors/${id}`, {}), t('admin.removed'))) $('remove').reset();
});
$('create').addEventListener('submit', async (event) => {
  event.preventDefault();
  const id = $('create').elements.line.value;
  if (!outcome(await call('PUT', `/admin/api/lines/${encodeURIComponent(id)}`, {}), t('admin.created'))) return;
  $('create').reset();
  line = id;
  edited.clear();
  refresh();
});
// The token is in no cookie, so a plain link could not bring it along.
$('export').addEventListener('click', async () => {
  try {
    const res = await fetch(`${linePath()}/audit`, { headers: credentials(), cache: 'no-store' });
    if (!res.ok) throw new Error((await res.json()).detail);
    const address = URL.createObjectURL(await res.blob());
    const name = /filename="([^"]+)"/.exec(res.headers.get('Content-Disposition'))[1];
    Object.assign(document.createElement('a'), { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (err) {
    $('done').textContent = err.message || t('admin.noAnswer');
  }
});
$('restart').addEventListener('click', async () => {
  if (confirm(t('admin.restartSure', { line }))) outcome(await call('POST', `${linePath()}/restart`, {}), t('admin.changed'));
});
