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

async function call(method, path, body) {
  const token = sessionStorage.getItem(tokenKey);
  const answer = await ask(method, path, { body, headers: token ? { Authorization: `Bearer ${token}` } : {} });
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
  if ($('lines').options.length !== lines.length) {
    $('lines').replaceChildren(...lines.map((l) => new Option(l.line, l.line)));
    $('lines').value = line;
  }
}

function show(l) {
  shown = l;
  $('state').hidden = false;
  $('state').textContent = t(`admin.${l.state}`);
  $('state').className = `chip ${l.state}`;
  $('clock').textContent = new Date(l.server_time).toLocaleTimeString();
  tiles('figures', [
    ['admin.waiting', l.waiting], ['admin.inside', l.inside], ['admin.away', l.away],
    ['admin.admitted', l.admitted], ['admin.spent', l.spent], ['admin.expired', l.expired],
    ['admin.rate', l.rate], ['admin.moving', l.admitted_per_second],
    ['admin.limitedBy', (l.limited_by ?? '–').replaceAll('_', ' ')], ['admin.modeNow', l.mode],
  ]);
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
    if (!edited.has(form)) field.value = l[form.dataset.patch] ?? '';
  }
}

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
    tile.lastChild.textContent = typeof value === 'number' ? number(value) : value;
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
$('restart').addEventListener('click', async () => {
  if (confirm(t('admin.restartSure', { line }))) outcome(await call('POST', `${linePath()}/restart`, {}), t('admin.changed'));
});
