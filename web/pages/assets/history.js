// The last quarter of an hour, second by second: what the charts draw.

const most = 900; // seconds kept, and never more

// Past holds columns of equal length, by name: waiting, order_ms.p95, processes.NAME,
// errors.CODE. What is not known is null.
export class Past {
  constructor() {
    this.clear();
  }

  clear() {
    this.columns = new Map();
    this.length = 0;
    this.end = 0; // Unix ms of the newest second; 0 where there is none
    this.step = 1000;
  }

  // add takes in an answer of the server; what is here already is left out.
  add(answer) {
    const added = flat(answer);
    const size = added.get('waiting')?.length ?? 0;
    if (!size) return;
    const last = answer.from + (size - 1) * answer.step_ms;
    if (this.length && Math.abs(last - this.end) > most * answer.step_ms) this.clear();
    if (last < this.end - 60_000) this.clear(); // another server's clock
    const missing = this.length ? Math.round((answer.from - this.end) / answer.step_ms) - 1 : 0;
    if (missing > 0) this.append(new Map(), missing);
    const known = Math.max(0, -missing);
    if (known >= size) return;
    this.append(added, size - known, known);
    this.end = last;
    this.step = answer.step_ms;
  }

  append(added, size, known = 0) {
    for (const name of added.keys()) {
      if (!this.columns.has(name)) this.columns.set(name, new Array(this.length).fill(null));
    }
    const over = Math.max(0, this.length + size - most);
    for (const [name, values] of this.columns) {
      const news = added.get(name);
      for (let i = 0; i < size; i++) values.push(news?.[known + i] ?? null);
      values.splice(0, over);
      if (!added.has(name) && values.every((v) => v === null)) this.columns.delete(name);
    }
    this.length += size - over;
  }

  column(name) {
    return this.columns.get(name) ?? [];
  }

  // below are the columns of a group, by the part of their name after it.
  below(group) {
    const start = `${group}.`;
    return [...this.columns].filter(([name]) => name.startsWith(start)).map(([name, values]) => [name.slice(start.length), values]);
  }
}

function flat(answer) {
  const columns = new Map();
  for (const [name, value] of Object.entries(answer)) {
    if (Array.isArray(value)) columns.set(name, value);
    else if (value && typeof value === 'object') {
      for (const [part, values] of Object.entries(value)) columns.set(`${name}.${part}`, values);
    }
  }
  return columns;
}
