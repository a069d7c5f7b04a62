// The controls: every one asks first, says how it went, and keeps what was typed.

import { confirm } from './confirm.js';
import { ask, download, good, linePath } from './operator.js';
import * as fields from './fields.js';
import { number, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const edited = new Map(); // form → what its field was on the server when the operator began to write
let line = null; // as last read
let changed = () => {}; // told of every change that was made

// start wires the controls; told(name) is called after each change, with the name of a
// line that was made.
export function start(told) {
  changed = told;
  for (const form of document.querySelectorAll('form[data-patch]')) wire(form);
}

// show fills a line in as it was read. What the operator is writing stays.
export function show(l) {
  line = l;
  $('gate').hidden = false;
  $('pause').textContent = t(l.paused ? 'admin.resume' : 'admin.pause');
  $('soldOut').textContent = t(l.sold_out ? 'admin.sayStock' : 'admin.saySoldOut');
  $('stock').textContent = t(l.sold_out ? 'admin.isSoldOut' : 'admin.notSoldOut');
  for (const form of document.querySelectorAll('form[data-patch]')) fill(form);
}

// forget drops what was being written: another line is looked at.
export function forget() {
  edited.clear();
}

function fill(form) {
  const name = form.dataset.patch;
  const value = line[name] ?? '';
  if (!edited.has(form)) {
    const field = form.elements[name];
    const text = String(fields.entry(name, value));
    if (field.value !== text) field.value = text;
  }
  meanwhile(form, edited.has(form) && edited.get(form) !== value);
  utc(form);
}

// meanwhile says that somebody else has changed what is being written here.
function meanwhile(form, other) {
  let note = form.querySelector('.meanwhile');
  if (!note) {
    if (!other) return;
    note = Object.assign(document.createElement('p'), { className: 'meanwhile notice small' });
    note.setAttribute('role', 'status');
    const take = Object.assign(document.createElement('button'), { type: 'button', textContent: t('admin.take') });
    take.addEventListener('click', () => {
      edited.delete(form);
      fill(form);
      form.elements[form.dataset.patch].focus();
    });
    note.append(document.createElement('span'), take);
    form.append(note);
  }
  note.hidden = !other;
  if (!other) return;
  const text = t('admin.meanwhile', { value: fields.worded(form.dataset.patch, line[form.dataset.patch]) });
  if (note.firstChild.textContent !== text) note.firstChild.textContent = text;
}

function utc(form) {
  const note = form.querySelector('.utc');
  if (note) note.textContent = fields.zoned(form.elements[form.dataset.patch].value);
}

function wire(form) {
  const name = form.dataset.patch;
  form.addEventListener('input', () => {
    if (!edited.has(form)) edited.set(form, line[name] ?? '');
    utc(form);
  });
  const send = async (value) => {
    if (!(await patch(name, value))) return;
    edited.delete(form);
    fill(form);
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    send(fields.value(form.elements[name]));
  });
  form.querySelector('[data-clear]')?.addEventListener('click', () => send(null));
}

// patch changes one field of the line. It is looked at once more right before, so that
// nobody overwrites what another has just decided.
async function patch(name, to) {
  const on = line;
  let from = on[name];
  const answer = await confirm({
    title: fields.title(name, to), line: on, danger: fields.dangerous(name, to, on),
    changes: () => [[fields.label(name), fields.worded(name, from), fields.worded(name, to)]],
    effect: fields.effect(name, to, on),
    word: fields.dangerous(name, to, on) ? on.line : null,
    fresh: async () => {
      const now = await ask('GET', linePath(on.line));
      if (!good(now) || now.body[name] === from) return true; // the change itself says why it fails
      from = now.body[name];
      return false;
    },
    send: () => ask('PATCH', linePath(on.line), { [name]: to }),
  });
  if (!answer) return false;
  done(t('admin.changed', { what: fields.label(name), from: fields.worded(name, from), to: fields.worded(name, to) }));
  if (answer.body.line === line.line) show(answer.body);
  changed();
  return true;
}

function done(text) {
  $('done').textContent = text;
}

// act asks about something that is no field of a line.
async function act(question, text) {
  const answer = await confirm(question);
  if (!answer) return null;
  done(text(answer.body));
  changed();
  return answer;
}

const on = (id, event, act) => $(id).addEventListener(event, (e) => {
  e.preventDefault();
  act(e.currentTarget.elements);
});

on('pause', 'click', () => patch('paused', !line.paused));
on('soldOut', 'click', () => patch('sold_out', !line.sold_out));
on('closeNow', 'click', () => patch('closes_at', line.server_time));

on('remove', 'submit', async ({ visitor }) => {
  const id = visitor.value.trim();
  const answer = await act({
    title: t('admin.askRemove'), line, danger: true, changes: () => [[t('admin.visitor'), null, id]], effect: t('admin.effectRemove'),
    send: () => ask('DELETE', `${linePath(line.line)}/visitors/${encodeURIComponent(id)}`, {}),
  }, () => t('admin.removed', { id }));
  if (answer) visitor.value = '';
});

on('restart', 'click', () => {
  const { line: name } = line;
  return act({
    title: t('admin.askRestart'), line, word: name, changes: () => [[t('admin.waiting'), number(line.waiting), number(0)]],
    effect: t('admin.effectRestart'), send: () => ask('POST', `${linePath(name)}/restart`, {}),
  }, () => t('admin.restarted', { line: name }));
});

on('create', 'submit', async ({ line: field }) => {
  const name = field.value;
  const answer = await act({
    title: t('admin.askCreate'), changes: () => [[t('admin.line'), null, name]], effect: t('admin.effectCreate'),
    send: () => ask('PUT', linePath(name), {}),
  }, () => t('admin.created', { line: name }));
  if (!answer) return;
  field.value = '';
  changed(name);
});

on('export', 'click', async () => {
  try {
    await download(`${linePath(line.line)}/audit`);
  } catch (err) {
    done(err.message || t('admin.notDone'));
  }
});
