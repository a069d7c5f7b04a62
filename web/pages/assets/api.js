// Talking to the server, and what a visitor carries from page to page.

// call asks the server. It answers { status, body, retryAfter (ms) }; status 0
// means that there was no answer at all.
export async function call(method, path, { body, headers = {} } = {}) {
  const init = { method, headers: { ...headers }, cache: 'no-store' };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  try {
    const res = await fetch(path, { ...init, signal: AbortSignal.timeout(20_000) });
    const text = await res.text();
    const answer = text ? JSON.parse(text) : {};
    return { status: res.status, body: answer, retryAfter: answer.retry_after_ms ?? 2000 };
  } catch {
    return { status: 0, body: {}, retryAfter: 1500 + Math.random() * 1500 };
  }
}

// enter asks for a place. Where newcomers have to do some work first, a worker does it,
// so that the page stays quick; working is called before.
export async function enter(query, working) {
  let headers = {};
  for (let tries = 0; ; tries++) {
    const answer = await call('POST', `/queue/enter${query}`, { headers });
    if (answer.body.code !== 'proof_required' || tries === 3) return answer;
    working();
    const proof = await solved(answer.body);
    if (!proof) return { status: 0, body: {}, retryAfter: 2000 };
    headers = { 'X-Queue-Proof': proof };
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

// What a visitor wants, the turn they hold, their coupon and their last receipt live
// in this tab only: a turn in another tab would be another person's purchase.
function kept(name) {
  const key = `sluice.${name}`;
  return {
    get: () => JSON.parse(sessionStorage.getItem(key) ?? 'null'),
    set: (value) => sessionStorage.setItem(key, JSON.stringify(value)),
    clear: () => sessionStorage.removeItem(key),
  };
}
export const wanted = kept('wanted'); // { product, line } or { coupon, line }: set by a click, asked for when the turn comes
export const turn = kept('turn'); // { line, token, usableAt, expiresAt } in ms of this clock
export const coupon = kept('coupon'); // { id, code, line }: claimed, for the next order
export const receipt = kept('receipt'); // { order, token }: the token still pays it
export const journey = kept('journey'); // { entered, first, best } of the progress bar

// turnOf is the turn that an admitted answer brings.
export function turnOf(answer) {
  const now = Date.now();
  return {
    line: answer.line,
    token: answer.token,
    usableAt: now + answer.usable_in_ms,
    expiresAt: now + answer.expires_in_ms,
  };
}

export const lineQuery = (line) => (line && line !== 'default' ? `?line=${encodeURIComponent(line)}` : '');

// pictureAddress is the address of a picture as shops may give it, or that of
// our own where it is none.
export const pictureAddress = (address) => (/^(https?:\/\/|\/|data:image\/)/.test(address) ? address : new URL('./icon.svg', import.meta.url).href);
