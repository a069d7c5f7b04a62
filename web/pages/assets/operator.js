// Talking to the operator API.

const kept = 'sluice.operator'; // the token, in this tab only
let memory = null; // the same, where storage is off

export function token() {
  try {
    return sessionStorage.getItem(kept) ?? memory;
  } catch {
    return memory;
  }
}

export function keep(value) {
  memory = value;
  try {
    if (value === null) sessionStorage.removeItem(kept);
    else sessionStorage.setItem(kept, value);
  } catch {
    // It is in memory.
  }
}

const credentials = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

// ask answers { status, body }; the status is 0 where there was no answer at all.
export async function ask(method, path, body) {
  const headers = credentials();
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  try {
    const answer = await fetch(path, {
      method, headers, body: body && JSON.stringify(body), cache: 'no-store', signal: AbortSignal.timeout(15_000),
    });
    const text = await answer.text();
    return { status: answer.status, body: text ? JSON.parse(text) : {} };
  } catch {
    return { status: 0, body: {} };
  }
}

// download saves what is at a path as a file: the token is in no cookie, so a plain
// link could not bring it along. It throws what the server said.
export async function download(path) {
  const answer = await fetch(path, { headers: credentials(), cache: 'no-store' });
  if (!answer.ok) throw new Error((await answer.json()).detail);
  const address = URL.createObjectURL(await answer.blob());
  const name = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition'))[1];
  Object.assign(document.createElement('a'), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export const good = ({ status }) => status >= 200 && status < 300;
export const linePath = (line) => `/admin/api/lines/${encodeURIComponent(line)}`;
