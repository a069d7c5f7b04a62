// Every word that the pages say, in one object. Values in braces are filled in.

const en = {
  locale: 'en',
  currency: 'EUR', // prices are in its smallest unit

  'shop.name': 'Demo shop',
  'shop.title': 'On sale now',
  'shop.intro': 'When many come at once, you get a place in line and your turn comes in order. Nobody gets an error because others came too.',
  'shop.buy': 'Buy',
  'shop.stock': '{n} left',
  'shop.soldOut': 'Sold out',
  'shop.empty': 'There is nothing on sale yet.',
  'shop.crowd': '{n} in line',
  'shop.turn': 'It is your turn for another {time}. Choose what you want.',
  'shop.entering': 'Finding you a place …',
  'shop.ordering': 'Placing your order …',
  'shop.busy': 'The shop is busy. Trying again with the same turn …',
  'shop.offline': 'No connection. Trying again; your turn is kept …',
  'shop.failed': 'That did not work.',
  'shop.soldOutDetail': 'Sold out while you waited. Your turn is still good: choose something else.',
  'shop.turnOver': 'Your turn is over.',
  'shop.again': 'Get back in line',
  'shop.lineFull': 'The line is full right now. Please try again in a moment.',
  'shop.thanks': 'Thank you, it is yours',
  'shop.order': 'Order',
  'shop.total': 'Total',
  'shop.placedAt': 'Placed',
  'shop.toPay': 'reserved, not paid yet',
  'shop.close': 'Back to the shop',

  'wait.name': 'Waiting room',
  'wait.joining': 'One moment …',
  'wait.title': 'You are in line',
  'wait.lead': 'Keep this page open. When your turn comes it takes you on by itself.',
  'wait.next': 'You are next',
  'wait.position': 'Your place',
  'wait.waiting': 'People in line',
  'wait.estimate': 'Expected wait',
  'wait.progress': 'How far you have come',
  'wait.measuring': 'still measuring',
  'wait.paused': 'The line is paused. Your place is kept.',
  'wait.sold_out': 'Sold out. You may stay in line in case something comes back.',
  'wait.degraded': 'We are putting the line back together. Your place is kept.',
  'wait.trouble': 'No answer just now. Your place is kept; asking again …',
  'wait.admitted': 'It is your turn',
  'wait.admittedLead': 'Taking you to the shop in {n} s …',
  'wait.goNow': 'Taking you to the shop …',
  'wait.spent': 'You have used your turn',
  'wait.spentLead': 'The order of this turn has been placed.',
  'wait.expired': 'Your turn has run out',
  'wait.expiredLead': 'It was not used in time and has gone to the next in line.',
  'wait.left': 'You have left the line',
  'wait.leftLead': 'Your place has gone to the next in line.',
  'wait.removed': 'You were taken out of the line',
  'wait.removedLead': 'The operator of this sale removed your place.',
  'wait.none': 'Join the line',
  'wait.noneLead': 'This browser does not hold a place yet, or its place has been used.',
  'wait.full': 'The line is full right now',
  'wait.fullLead': 'Please try again in a moment.',
  'wait.enter': 'Get in line',
  'wait.again': 'Get back in line',
  'wait.leave': 'Leave the line',
  'wait.leaveSure': 'Leave the line? Your place will be lost.',
  'wait.back': 'Back to the shop',
  'wait.fair': 'Turns come in the order of arrival. Refreshing this page neither helps nor harms.',

  'time.now': 'a few seconds',
  'time.seconds': 'about {a} s',
  'time.minutes': 'about {a} min',
  'time.hours': 'about {a} h',
  'time.range.seconds': '{a} to {b} s',
  'time.range.minutes': '{a} to {b} min',
  'time.range.hours': '{a} to {b} h',

  'admin.name': 'Operator',
  'admin.line': 'Line',
  'admin.login': 'This listener asks for a token',
  'admin.token': 'Operator token',
  'admin.loginDo': 'Continue',
  'admin.wrongToken': 'The token was not accepted.',
  'admin.figures': 'The line',
  'admin.orders': 'Orders, in this process',
  'admin.controls': 'Controls',
  'admin.gate': 'Gate',
  'admin.limits': 'Limits',
  'admin.danger': 'Careful',
  'admin.waiting': 'waiting',
  'admin.inside': 'inside',
  'admin.away': 'away',
  'admin.admitted': 'admitted',
  'admin.spent': 'ordered',
  'admin.expired': 'ran out',
  'admin.rate': 'rate, per s',
  'admin.moving': 'moving, per s',
  'admin.limitedBy': 'limited by',
  'admin.modeNow': 'mode',
  'admin.workers': 'workers busy',
  'admin.backlog': 'backlog',
  'admin.completed': 'completed',
  'admin.refused': 'refused',
  'admin.work': 'work p50 / p95 ms',
  'admin.wait': 'wait p50 / p95 ms',
  'admin.delay': 'test delay ms',
  'admin.open': 'open',
  'admin.paused': 'paused',
  'admin.pause': 'Pause',
  'admin.resume': 'Resume',
  'admin.sayStock': 'Say there is stock',
  'admin.saySoldOut': 'Say sold out',
  'admin.mode': 'Mode',
  'admin.modeNormal': 'normal: wait, then be let in',
  'admin.modePassthrough': 'passthrough: nobody waits',
  'admin.message': 'Message to those who wait',
  'admin.rateOverride': 'Fixed rate, admissions per second',
  'admin.automatic': 'Automatic rate',
  'admin.maxActive': 'Inside at once, at most (0: no limit)',
  'admin.maxLength': 'In line, at most (0: no limit)',
  'admin.noLimit': 'No limit',
  'admin.set': 'Set',
  'admin.clear': 'Clear',
  'admin.product': 'Add a product',
  'admin.productName': 'Name',
  'admin.productBrand': 'Brand',
  'admin.productPrice': 'Price, in the smallest unit',
  'admin.productStock': 'Stock',
  'admin.productImage': 'Image address',
  'admin.add': 'Add',
  'admin.added': 'Product {n} was added.',
  'admin.visitor': 'Visitor id',
  'admin.remove': 'Remove from the line',
  'admin.removed': 'The visitor was removed.',
  'admin.restart': 'Restart the line',
  'admin.restartNote': 'A restart empties the line. Tickets and tokens given out before it are dead.',
  'admin.restartSure': 'Restart the line "{line}"? Everybody who waits loses their place.',
  'admin.changed': 'Done.',
  'admin.noAnswer': 'No answer from the server. The figures below are old.',
};

const texts = en;

// t is the text of a key with its values filled in.
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}

// number and money are written as the reader's language does.
export const number = (n) => new Intl.NumberFormat(texts.locale).format(n);

const cash = new Intl.NumberFormat(texts.locale, { style: 'currency', currency: texts.currency });
const smallest = 10 ** cash.resolvedOptions().maximumFractionDigits;
export const money = (n) => cash.format(n / smallest);

// span says a wait from low to high, in ms, as roughly as it is known.
export function span(low, high) {
  if (high < 10_000) return t('time.now');
  const [unit, ms] = high < 90_000 ? ['seconds', 1000] : high < 5_400_000 ? ['minutes', 60_000] : ['hours', 3_600_000];
  const step = unit === 'seconds' ? 5 : 1;
  const round = (v) => Math.max(step, Math.ceil(v / ms / step) * step);
  const a = round(low), b = round(high);
  return a === b ? t(`time.${unit}`, { a }) : t(`time.range.${unit}`, { a, b });
}

// clock is a remaining time as m:ss.
export function clock(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`;
}

// say fills the page's fixed texts in.
export function say(root = document) {
  for (const el of root.querySelectorAll('[data-text]')) el.textContent = t(el.dataset.text);
  for (const el of root.querySelectorAll('[data-label]')) el.setAttribute('aria-label', t(el.dataset.label));
}
