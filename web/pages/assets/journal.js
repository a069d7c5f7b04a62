// Who did what, newest first.

import { ask, good } from './operator.js';
import { t } from './texts.js';

const $ = (id) => document.getElementById(id);
let shown = '';

// refresh reads the journal, and draws it if there is something new.
export async function refresh() {
  const answer = await ask('GET', '/admin/api/journal?limit=100');
  if (!good(answer)) return;
  const { entries } = answer.body;
  const same = JSON.stringify(entries);
  if (same === shown) return;
  shown = same;
  $('journal').hidden = !entries.length;
  $('noJournal').hidden = entries.length > 0;
  $('journal').replaceChildren(...entries.map(entry));
}

function entry({ at, who, from, line, what, detail }) {
  const row = document.createElement('li');
  const part = (tag, name, text) => {
    const el = row.appendChild(document.createElement(tag));
    el.className = name;
    el.textContent = text;
    return el;
  };
  part('time', 'when', new Date(at).toLocaleString()).dateTime = at;
  part('span', 'whose', from ? t('admin.whoFrom', { who, from }) : who);
  part('span', 'line', line || '–');
  part('strong', 'what', what.replaceAll('_', ' '));
  part('span', 'detail break', detail ?? '');
  return row;
}

// me says who the operator is.
export async function me() {
  const answer = await ask('GET', '/admin/api/me');
  $('who').textContent = good(answer) ? t('admin.youAre', { who: answer.body.who }) : '';
}
