// A chart of the last minutes, as SVG. Its nodes are made once and filled anew.

import { number, t } from './texts.js';

const shapes = 'http://www.w3.org/2000/svg';
const slots = 6; // series that a chart can have
const edge = { top: 8, bottom: 18, start: 4 };
const summaryEvery = 60_000; // ms; it is for those who listen

function shape(name, parent, attributes = {}) {
  const el = document.createElementNS(shapes, name);
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value);
  parent.append(el);
  return el;
}

function element(name, parent, className = '') {
  const el = document.createElement(name);
  el.className = className;
  parent.append(el);
  return el;
}

const clock = (ms) => new Date(ms).toLocaleTimeString();

// nice is the least of 1, 2, 2.5, 5 and 10 times a power of ten that is not below v.
function nice(v) {
  if (v <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 2.5, 5, 10].find((m) => m * power >= v * 0.9999) * power;
}

// Chart draws into a figure. series(past) answers at most six of { name, values }, with
// area: true for those that are stacked onto each other.
export class Chart {
  constructor(figure, { title, unit, series, format = number }) {
    Object.assign(this, { figure, title, unit, series, format, at: null, said: 0, past: null, minutes: 15 });
    const caption = element('figcaption', figure);
    element('strong', caption).textContent = title;
    element('span', caption, 'soft').textContent = unit;
    this.value = element('span', caption, 'value');
    this.summary = element('p', figure, 'unseen');
    this.plot = element('div', figure, 'plot');
    for (const [key, value] of Object.entries({
      role: 'slider', tabindex: 0, 'aria-label': t('admin.read', { title }), 'aria-valuemin': 0, 'aria-valuemax': 0, 'aria-valuenow': 0,
      'aria-valuetext': t('admin.newest'),
    })) this.plot.setAttribute(key, value);
    this.shapes();
    this.listen();
    this.width = 0;
    new ResizeObserver(([entry]) => {
      this.width = Math.round(entry.contentRect.width);
      this.height = Math.round(entry.contentRect.height);
      this.draw();
    }).observe(this.plot);
  }

  shapes() {
    this.svg = shape('svg', this.plot, { 'aria-hidden': 'true' });
    this.lines = [0, 1, 2].map(() => shape('line', this.svg, { class: 'rule' }));
    this.times = ['start', 'end'].map((anchor) => shape('text', this.svg, { class: 'mark', 'text-anchor': anchor }));
    this.areas = Array.from({ length: slots }, (_, i) => shape('path', this.svg, { class: `area c${i}` }));
    this.paths = Array.from({ length: slots }, (_, i) => shape('path', this.svg, { class: `path c${i}` }));
    this.marks = [0, 1, 2].map(() => shape('text', this.svg, { class: 'mark halo' }));
    this.names = Array.from({ length: slots }, (_, i) => shape('text', this.svg, { class: `name c${i}` }));
    this.cursor = shape('line', this.svg, { class: 'cursor', visibility: 'hidden' });
  }

  // listen lets a value be read: under the pointer or finger, and by the arrow keys.
  listen() {
    const point = (event) => {
      const within = (event.clientX - this.plot.getBoundingClientRect().left - edge.start) / this.inner;
      this.read(this.first() + Math.round(Math.min(1, Math.max(0, within)) * (this.count() - 1)));
    };
    this.plot.addEventListener('pointermove', point);
    this.plot.addEventListener('pointerdown', point);
    for (const end of ['pointerleave', 'pointercancel', 'blur']) this.plot.addEventListener(end, () => this.read(null));
    this.plot.addEventListener('keydown', (event) => {
      if (!this.past?.length) return;
      const last = this.past.length - 1;
      const now = this.index() ?? last;
      const to = {
        ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1,
        PageDown: now - 30, PageUp: now + 30, Home: this.first(), End: last, Escape: null,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.read(to === null ? null : Math.min(last, Math.max(0, this.first(), to)));
    });
  }

  count() {
    return this.minutes * 60;
  }

  // first is the index of the leftmost second; below 0 where less is known.
  first() {
    return (this.past?.length ?? 0) - this.count();
  }

  // index is that of the second that is read, or null.
  index() {
    if (this.at === null || !this.past?.length) return null;
    const i = this.past.length - 1 - Math.round((this.past.end - this.at) / this.past.step);
    return i >= Math.max(0, this.first()) && i < this.past.length ? i : null;
  }

  read(i) {
    if (!this.past?.length) return;
    this.at = i === null || i < 0 ? null : this.past.end - (this.past.length - 1 - i) * this.past.step;
    this.point();
    this.plot.setAttribute('aria-valuemax', this.count() - 1);
    this.plot.setAttribute('aria-valuenow', Math.max(0, (this.index() ?? this.past.length - 1) - this.first()));
    this.plot.setAttribute('aria-valuetext', this.value.textContent);
  }

  show(past, minutes) {
    Object.assign(this, { past, minutes });
    this.draw();
  }

  draw() {
    if (!this.past || !this.width) return; // nobody sees it
    const shown = this.series(this.past).slice(0, slots);
    const start = Math.max(0, this.first());
    stack(shown, start);
    let high = 0, low = 0;
    for (const { tops, values } of shown) {
      for (let i = start; i < values.length; i++) {
        const v = (tops ?? values)[i];
        if (v > high) high = v;
        if (v < low) low = v;
      }
    }
    Object.assign(this, { shown, high: nice(high) || 1, low: -nice(-low) });
    this.inner = this.width - edge.start - (shown.length > 1 ? 80 : 4);
    this.svg.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
    this.rules();
    for (let slot = 0; slot < slots; slot++) this.fill(slot, start);
    this.label();
    this.point();
    this.tell(start);
  }

  x(i) {
    return Math.round((edge.start + (i - this.first()) / (this.count() - 1) * this.inner) * 10) / 10;
  }

  y(v) {
    const tall = this.height - edge.top - edge.bottom;
    return Math.round((edge.top + (this.high - v) / (this.high - this.low) * tall) * 10) / 10;
  }

  rules() {
    const middle = this.low < 0 ? 0 : this.high / 2;
    [this.high, middle, this.low].forEach((v, i) => {
      const y = this.y(v);
      place(this.lines[i], { x1: edge.start, x2: edge.start + this.inner, y1: y, y2: y });
      place(this.marks[i], { x: edge.start, y: i === 0 ? y + 11 : y - 3 }, i === 2 && v === 0 ? '' : this.format(v));
    });
    place(this.times[0], { x: edge.start, y: this.height - 4 }, t('admin.ago', { n: this.minutes }));
    place(this.times[1], { x: edge.start + this.inner, y: this.height - 4 }, this.past.end ? clock(this.past.end) : '');
  }

  fill(slot, start) {
    const series = this.shown[slot];
    this.paths[slot].setAttribute('d', series ? this.outline(series.tops ?? series.values, start) : '');
    this.areas[slot].setAttribute('d', series?.tops ? this.band(series, start) : '');
  }

  outline(values, start) {
    let d = '', down = false;
    for (let i = start; i < values.length; i++) {
      const v = values[i];
      if (v !== null) d += `${down ? 'L' : 'M'}${this.x(i)} ${this.y(v)}${down ? '' : 'h0'}`;
      down = v !== null;
    }
    return d;
  }

  // band is what lies between a stacked series and the one below it, run by run.
  band({ tops, bottoms }, start) {
    let d = '';
    for (let i = start; i < tops.length; i++) {
      if (tops[i] === null) continue;
      let back = '', from = i;
      for (; i < tops.length && tops[i] !== null; i++) {
        d += `${i === from ? 'M' : 'L'}${this.x(i)} ${this.y(tops[i])}`;
        back = `L${this.x(i)} ${this.y(bottoms[i])}${back}`;
      }
      d += `${back}Z`;
    }
    return d;
  }

  // label writes each series' name at its end, none over another.
  label() {
    const tall = 13, bottom = this.height - edge.bottom;
    const ends = this.shown.map(({ tops, bottoms, values }, slot) => {
      const v = (tops ?? values).findLast((value) => value !== null);
      const under = bottoms?.findLast((_, i) => tops[i] !== null);
      return { slot, y: v !== undefined && this.y(under === undefined ? v : (v + under) / 2) };
    }).filter(({ y }) => y !== false).sort((a, b) => a.y - b.y);
    ends.forEach((end, i) => (end.y = Math.max(end.y, i ? ends[i - 1].y + tall : edge.top + 4)));
    ends.reverse().forEach((end, i) => (end.y = Math.min(end.y, i ? ends[i - 1].y - tall : bottom)));
    for (const name of this.names) name.textContent = '';
    if (this.shown.length < 2) return;
    for (const { slot, y } of ends) {
      place(this.names[slot], { x: edge.start + this.inner + 5, y: y + 4 }, short(this.shown[slot].name));
    }
  }

  // point shows the value that is read, or else the newest.
  point() {
    if (!this.shown) return;
    const i = this.index();
    this.cursor.setAttribute('visibility', i === null ? 'hidden' : 'visible');
    if (i !== null) place(this.cursor, { x1: this.x(i), x2: this.x(i), y1: edge.top, y2: this.height - edge.bottom });
    const said = this.shown.map(({ name, values }) => {
      const v = i === null ? values.at(-1) ?? values.at(-2) : values[i];
      const value = v === null || v === undefined ? '–' : this.format(v);
      return this.shown.length > 1 ? `${name} ${value}` : value;
    }).join(' · ') || t('admin.none');
    this.value.textContent = i === null ? said : `${clock(this.at)}: ${said}`;
    this.value.classList.toggle('single', this.shown.length < 2);
  }

  tell(start) {
    if (Date.now() - this.said < summaryEvery || !this.past.length) return;
    this.said = Date.now();
    const parts = this.shown.map(({ name, values }) => {
      const known = values.slice(start).filter((v) => v !== null);
      if (!known.length) return t('admin.unknownSeries', { name });
      const bound = (pick) => this.format(known.reduce((a, b) => pick(a, b)));
      return t('admin.seriesSaid', { name, now: this.format(known.at(-1)), low: bound(Math.min), high: bound(Math.max) });
    });
    this.summary.textContent = t('admin.chartSaid', { title: this.title, unit: this.unit, n: this.minutes, parts: parts.join('; ') || t('admin.none') });
  }
}

// stack adds tops and bottoms to the series that have an area.
function stack(shown, start) {
  let below = null;
  for (const series of shown.filter((s) => s.area)) {
    const under = below;
    series.bottoms = series.values.map((_, i) => (i < start ? 0 : under?.[i] ?? 0));
    series.tops = series.values.map((v, i) => (v === null || i < start ? null : v + series.bottoms[i]));
    below = series.tops.map((top, i) => top ?? series.bottoms[i]);
  }
}

function place(el, attributes, text) {
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value);
  if (text !== undefined && el.textContent !== text) el.textContent = text;
}

// short keeps both ends of a long name; of a process, host:pid:id, the id tells it apart.
const short = (name) => (name.length <= 12 ? name : name.includes(':') ? `…${name.slice(-6)}` : `${name.slice(0, 4)}…${name.slice(-6)}`);
