// The question before every change: what becomes what, on which line, for how many.

import { good } from './operator.js';
import { number, t } from './texts.js';

const $ = (id) => document.getElementById(id);
const dialog = $('confirm');
const form = dialog.querySelector('form');
const typed = form.elements.typed;
const go = form.querySelector('[data-do=confirm]');
const cancel = form.querySelector('[data-do=cancel]');

let asked = null; // what is asked about; null where nothing is
let sending = false;

// confirm asks, and sends the change when the operator agrees. An object that it is given has
//   title    what is to be done
//   line     the line that it concerns, as last read; or nothing
//   changes  () => [[name, from, to] …], read anew when the line was
//   effect   what follows from it
//   word     what has to be typed first; or nothing
//   danger   whether it cannot be undone
//   fresh    async () => whether "from" is still so; it updates what changes reads
//   send     async () => the server's answer
// It resolves to that answer once it is a good one, and to null if the operator gave up.
// A refusal is shown, and can be tried again.
export function confirm(question) {
  if (asked) return Promise.resolve(null);
  const { title, line, effect, word, danger } = question;
  $('confirmTitle').textContent = title;
  $('confirmWhere').textContent = line ? t('admin.onLine', { line: line.line, waiting: number(line.waiting), inside: number(line.inside) }) : '';
  $('confirmEffect').textContent = effect ?? '';
  trouble('');
  typed.value = '';
  $('confirmTyped').hidden = !word;
  $('confirmTyped').firstElementChild.textContent = t('admin.typeName', { word: word ?? '' });
  go.classList.toggle('danger', Boolean(danger || word));
  return new Promise((done) => {
    asked = { ...question, done };
    rows();
    ready();
    dialog.showModal();
    (word ? typed : go).focus();
  });
}

function rows() {
  $('confirmChanges').replaceChildren(...(asked.changes?.() ?? []).map(([name, from, to]) => {
    const row = document.createElement('li');
    const part = (tag, text) => row.appendChild(document.createElement(tag)).append(text);
    part('span', name);
    if (from !== null) {
      part('del', from);
      row.append(' → ');
    }
    part('ins', to);
    return row;
  }));
}

function ready() {
  cancel.disabled = sending; // its outcome is awaited: nobody may think that it was not made
  go.disabled = sending || Boolean(asked?.word && typed.value.trim() !== asked.word);
}

function trouble(text) {
  $('confirmTrouble').textContent = text;
  $('confirmTrouble').hidden = !text;
}

function end(answer) {
  const { done } = asked;
  asked = null;
  if (dialog.open) dialog.close(); // which gives the focus back
  done(answer);
}

async function send() {
  sending = true;
  ready();
  trouble('');
  const question = asked;
  const same = await (question.fresh?.() ?? true);
  const answer = same && asked === question ? await question.send() : null;
  sending = false;
  if (asked !== question) return; // given up meanwhile
  ready();
  if (answer && good(answer)) return end(answer);
  rows();
  trouble(answer ? answer.body.detail ?? t('admin.notDone') : t('admin.changedMeanwhile'));
  if (!go.disabled) go.focus();
}

typed.addEventListener('input', ready);
form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (asked && !go.disabled) send();
});
cancel.addEventListener('click', () => end(null));
// A key that is still held down from before is no answer.
dialog.addEventListener('keydown', (event) => event.repeat && event.key === 'Enter' && event.preventDefault());
dialog.addEventListener('cancel', (event) => sending && event.preventDefault());
dialog.addEventListener('close', () => asked && end(null));
