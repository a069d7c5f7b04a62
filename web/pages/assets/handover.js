// How a visitor comes from a shop and goes on to it: in the address's fragment, which
// reaches no server and no log. Pure functions.

// arrival is what a fragment brings from the shop, { enter, to, login }; null where it
// brings nothing: #enter&to=PATH&login=JWT.
export function arrival(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  if (!['enter', 'to', 'login'].some((name) => given.has(name))) return null;
  return { enter: given.has('enter'), to: given.get('to') || null, login: given.get('login') || null };
}

// destination is where the visitor goes on to: to, resolved against the shop's address,
// if that stays at the shop, or else the shop. The turn goes with them, so it must never
// lead anywhere else; nor back to this page, which would send them on again.
export function destination(to, shop, here) {
  const home = new URL(shop, here);
  let url;
  try {
    url = new URL(to ?? '', home);
  } catch {
    return home;
  }
  const safe = /^https?:$/.test(url.protocol) && url.origin === home.origin && !url.username && !url.password;
  const page = new URL(here);
  return safe && (url.origin !== page.origin || url.pathname !== page.pathname) ? url : home;
}

// onward is the address that hands the turn to the shop.
export function onward(url, { token, line, expiresIn }) {
  const address = new URL(url);
  address.hash = new URLSearchParams({ sluice_token: token, sluice_line: line, sluice_expires_in_ms: String(Math.max(0, Math.floor(expiresIn))) }).toString();
  return address.href;
}
