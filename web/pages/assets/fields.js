// What an operator may change of a line: how it is written, read and asked about.

import { moment, number, t } from './texts.js';

const none = '–';
const modes = { normal: 'admin.modeNormal', passthrough: 'admin.modePassthrough', block: 'admin.modeBlock', bypass: 'admin.modeBypass' };
const yes = (a, b) => (v) => t(v ? a : b);
const bound = (v) => (v ? number(v) : t('admin.noLimit'));
const at = (v, otherwise) => (v ? `${moment(v)} (${iso(v)})` : t(otherwise));

// iso is a time in UTC.
const iso = (v) => `${new Date(v).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

const all = {
  paused: { label: 'admin.admission', worded: yes('admin.isPaused', 'admin.isRunning'), effect: (v) => (v ? 'admin.effectPause' : 'admin.effectResume') },
  message: { label: 'admin.message', worded: (v) => (v ? `“${v}”` : t('admin.noMessage')), effect: () => 'admin.effectMessage' },
  mode: {
    label: 'admin.mode', worded: (v) => t(modes[v ?? 'normal']),
    effect: (v) => ({ passthrough: 'admin.effectPassthrough', block: 'admin.effectBlock', bypass: 'admin.effectBypass' })[v] ?? 'admin.effectNormal',
  },
  rate_override: {
    label: 'admin.rateOverride', worded: (v) => (v === null ? t('admin.measured') : number(v)),
    effect: (v) => (v === null ? 'admin.effectAutomatic' : v === 0 ? 'admin.effectZero' : 'admin.effectRate'),
  },
  max_active: { label: 'admin.maxActive', worded: bound, effect: () => 'admin.effectMaxActive' },
  max_length: { label: 'admin.maxLength', worded: bound, effect: () => 'admin.effectMaxLength' },
  weight: { label: 'admin.weight', worded: (v) => number(v ?? 1), effect: () => 'admin.effectWeight' },
  poll_budget: { label: 'admin.pollBudget', worded: (v) => (v === null ? t('admin.configured') : number(v)), effect: () => 'admin.effectPolls' },
  opens_at: { label: 'admin.opensAt', worded: (v) => at(v, 'admin.opened'), effect: (v) => (v ? 'admin.effectOpens' : 'admin.effectOpenNow') },
  closes_at: { label: 'admin.closesAt', worded: (v) => at(v, 'admin.never'), effect: (v) => (v ? 'admin.effectCloses' : 'admin.effectNeverCloses') },
  sold_out: { label: 'admin.stock', worded: yes('admin.soldOut', 'admin.inStock'), effect: (v) => (v ? 'admin.effectSoldOut' : 'admin.effectStock') },
};

export const label = (name) => t(all[name].label);
export const worded = (name, value) => all[name].worded(value);

// title asks about a change.
export function title(name, to) {
  if (name === 'paused') return t(to ? 'admin.askPause' : 'admin.askResume');
  return t('admin.ask', { what: label(name) });
}

// effect says what follows from a change, on a line as it is now.
export const effect = (name, to, l) => t(all[name].effect(to), { waiting: number(l.waiting), inside: number(l.inside), n: worded(name, to) });

// dangerous reports whether a change is one that the operator has to spell out.
export function dangerous(name, to, l) {
  if (name === 'mode') return to === 'block' || to === 'bypass';
  return name === 'closes_at' && to !== null && Date.parse(to) <= Date.parse(l.server_time);
}

// entry is a value as its form's field takes it; times in the operator's own zone.
export function entry(name, value) {
  if (!name.endsWith('_at') || !value) return value;
  const d = new Date(value);
  return new Date(d - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

// value is what the operator wrote into a field.
export function value(field) {
  if (field.type === 'datetime-local') return new Date(field.value).toISOString();
  return field.type === 'number' ? field.valueAsNumber : field.value;
}

// zoned is a time of a field in words: the zone that it is in, and the same in UTC.
export function zoned(text) {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return text ? t('admin.zoned', { zone: timeZone, utc: iso(text) }) : t('admin.zone', { zone: timeZone || none });
}
