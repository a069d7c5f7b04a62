// Talking to the server, and what a visitor carries from page to page.

// call asks the server. It answers { status, body, retryAfter (ms), ticket }; status 0
// means that there was no answer at all, or one that was not ours. ticket is one to
// present from now on, where the answer brings one.
export async function call(method, path, { body, headers = {} } = {}) {
  const init = { method, headers: { ...headers }, cache: 'no-store' };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  try {
    const res = await fetch(path, { ...init, signal: AbortSignal.timeout(20_000) });
    const text = await res.text();
    const answer = parsed(text);
    // What stands between may answer for the server, with a page of its own.
    if (!answer && res.ok) return { status: 0, body: {}, retryAfter: 2000 };
    const retryAfter = answer?.retry_after_ms ?? (1000 * Number(res.headers.get('Retry-After')) || 2000);
    return { status: res.status, body: answer ?? {}, retryAfter, ticket: answer?.ticket ?? res.headers.get('X-Queue-Ticket') };
  } catch {
    return { status: 0, body: {}, retryAfter: 1500 + Math.random() * 1500 };
  }
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    return null;
  }
}

// enter asks for a place, with headers that say who asks. Where newcomers have to do some
// work first, a worker does it, so that the page stays quick; working is called before.
export async function enter(query, working, headers = {}) {
  for (let tries = 0, proof; ; tries++) {
    const answer = await call('POST', `/queue/enter${query}`, { headers: proof ? { ...headers, 'X-Queue-Proof': proof } : headers });
    if (answer.body.code !== 'proof_required' || tries === 3) return answer;
    working();
    proof = await solved(answer.body);
    if (!proof) return { status: 0, body: {}, retryAfter: 2000 };
  }
}

// solved has a worker find the proof; nothing where none can run.
function solved({ challenge, bits }) {
  return new Promise((done) => {
    const worker = new Worker(new URL('./solve.js', import.meta.url));
    const end = (proof) => {
      worker.terminate();
      done(proof);
    };
    worker.onmessage = ({ data }) => end(data);
    worker.onerror = () => end();
    worker.postMessage({ challenge, bits });
  });
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// kept keeps a value under a name, in this browser or (inTab) in this tab only. Where a
// browser forbids storage, even looking at it throws; what is kept then goes along in
// the tab's history, which survives a reload as well.
function kept(area, name) {
  const key = `sluice.${name}`;
  const storage = (use) => {
    try {
      return use(window[area]);
    } catch {
      return undefined;
    }
  };
  const inHistory = (value) => {
    const { [key]: _, ...others } = history.state ?? {};
    history.replaceState(value === null ? others : { ...others, [key]: value }, '');
  };
  return {
    get: () => parsed(storage((s) => s.getItem(key)) ?? 'null') ?? history.state?.[key] ?? null,
    set: (value) => {
      if (storage((s) => s.setItem(key, JSON.stringify(value)) ?? true)) return;
      inHistory(value);
    },
    clear: () => {
      storage((s) => s.removeItem(key));
      if (history.state?.[key] !== undefined) inHistory(null);
    },
  };
}
export const inBrowser = (name) => kept('localStorage', name);
export const inTab = (name) => kept('sessionStorage', name);

export const lineQuery = (line) => (line && line !== 'default' ? `?line=${encodeURIComponent(line)}` : '');

// pictureAddress is the address of a picture as shops may give it, or that of
// our own where it is none.
export const pictureAddress = (address) => (/^(https?:\/\/|\/|data:image\/)/.test(address) ? address : new URL('./icon.svg', import.meta.url).href);
