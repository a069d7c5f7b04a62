// A worker that does the work a newcomer is asked for: it finds a nonce such that the
// SHA-256 of CHALLENGE:NONCE begins with so many zero bits. With its own SHA-256: that
// of the browser answers later, by a promise for each, and is not there without TLS.

onmessage = ({ data }) => postMessage(solve(data.challenge, data.bits));

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes,
// and of the square roots of the first 8.
const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
const fraction = (x) => ((x - Math.floor(x)) * 2 ** 32) | 0;
const K = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)));
const H = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));

// solve tries one nonce after the other; challenge, colon and nonce fit into one block.
function solve(challenge, bits) {
  const digits = 8;
  const block = new Uint8Array(64);
  const start = challenge.length + 1;
  const end = start + digits;
  for (let i = 0; i < challenge.length; i++) block[i] = challenge.charCodeAt(i);
  block[start - 1] = 58; // :
  block[end] = 0x80;
  block[62] = (end * 8) >> 8;
  block[63] = (end * 8) & 255;
  for (let n = 0; ; n++) {
    for (let i = 0; i < digits; i++) block[end - 1 - i] = 97 + ((n >>> (4 * i)) & 15); // a to p
    if (Math.clz32(firstWord(block)) >= bits) return String.fromCharCode(...block.subarray(0, end));
  }
}

const w = new Int32Array(64);

// firstWord is the first 32 bits of the SHA-256 of what fits into one block, padded.
function firstWord(block) {
  for (let i = 0; i < 16; i++) w[i] = (block[4 * i] << 24) | (block[4 * i + 1] << 16) | (block[4 * i + 2] << 8) | block[4 * i + 3];
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
  }
  let [a, b, c, d, e, f, g, h] = H;
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  return (a + H[0]) | 0;
}
