// Every size of a script is an environment variable with a default.

export function text(name, fallback) {
  return __ENV[name] || fallback;
}

export function number(name, fallback) {
  const n = Number(text(name, fallback));
  if (!Number.isFinite(n) || n < 0) {
    throw new Error(`${name} must be a number of at least 0, not "${__ENV[name]}"`);
  }
  return n;
}

// seconds reads a duration such as "500ms", "30s" or "2m".
export function seconds(name, fallback) {
  const value = text(name, fallback);
  const parts = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(value);
  if (!parts) {
    throw new Error(`${name} must be a duration such as 500ms, 30s or 2m, not "${value}"`);
  }
  return Number(parts[1]) * { ms: 0.001, s: 1, m: 60 }[parts[2]];
}

const trimmed = (url) => url.replace(/\/+$/, '');

// The two halves may be processes of their own: the order half's addresses
// default to the queue half's.
const queue = trimmed(text('SLUICE_URL', 'http://127.0.0.1:8080'));
const queueAdmin = trimmed(text('SLUICE_ADMIN_URL', 'http://127.0.0.1:9090'));

export const urls = {
  queue,
  queueAdmin,
  orders: trimmed(text('SLUICE_ORDERS_URL', queue)),
  ordersAdmin: trimmed(text('SLUICE_ORDERS_ADMIN_URL', queueAdmin)),
};

export const adminToken = text('SLUICE_ADMIN_TOKEN', '');
export const line = text('SLUICE_LINE', 'default');
