// Every word that the pages say, in one object for each language. Values in braces
// are filled in.

import { ko } from './texts-ko.js';

const currency = 'EUR'; // prices are in its smallest unit

const en = {
  locale: 'en',

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
  'shop.working': 'Your browser solves a small task first, which keeps robots out. It takes a few seconds.',
  'shop.ordering': 'Placing your order …',
  'shop.busy': 'The shop is busy. Trying again with the same turn …',
  'shop.offline': 'No connection. Trying again; your turn is kept …',
  'shop.failed': 'That did not work.',
  'shop.soldOutDetail': 'Sold out while you waited. Your turn is still good: choose something else.',
  'shop.turnOver': 'Your turn is over.',
  'shop.again': 'Get back in line',
  'shop.lineFull': 'The line is full right now. Please try again in a moment.',
  'shop.lineClosed': 'The line has closed.',
  'shop.thanks': 'Reserved for you',
  'shop.order': 'Order',
  'shop.total': 'Total',
  'shop.placedAt': 'Placed',
  'shop.toPay': 'It is not paid yet. Unpaid, it goes back on sale after a while.',
  'shop.first': 'Pay this order first, or leave it unpaid.',
  'shop.giveUp': 'Leave it unpaid',
  'shop.pay': 'Pay {amount}',
  'shop.paying': 'Paying …',
  'shop.paid': 'Paid. Thank you',
  'shop.paidLead': 'Your order is complete.',
  'shop.paidAt': 'Paid',
  'shop.declined': 'The payment was declined',
  'shop.declinedLead': 'Your order is kept. You may try again.',
  'shop.checking': 'The payment is being checked',
  'shop.checkingLead': 'The answer is still on its way. You are charged once at most.',
  'shop.cancelled': 'The order was cancelled',
  'shop.cancelledLead': 'It was not paid in time. Nothing was charged.',
  'shop.discount': 'Coupon',
  'shop.couponOff': '{amount} off your order',
  'shop.couponGone': 'All given out',
  'shop.couponHeld': 'Yours, with your next order',
  'shop.couponUsed': 'Used',
  'shop.couponSpent': 'Your coupon has been used already. Your turn is still good: choose again.',
  'shop.claim': 'Claim',
  'shop.claiming': 'Claiming your coupon …',
  'shop.claimed': 'The coupon is yours',
  'shop.claimedLead': 'It is taken off your next order. Choose what you want.',
  'shop.close': 'Back to the shop',

  'wait.name': 'Waiting room',
  'wait.joining': 'One moment …',
  'wait.working': 'Your browser solves a small task first, which keeps robots out. It takes a few seconds.',
  'wait.title': 'You are in line',
  'wait.lead': 'Keep this page open. When your turn comes it takes you on by itself.',
  'wait.next': 'You are next',
  'wait.scheduled': 'The line has not opened yet',
  'wait.scheduledLead': 'Keep this page open. Places of those who are here at the opening are drawn by lot: it does not matter when you came.',
  'wait.opensIn': 'Opens in',
  'wait.opensAt': 'Opening',
  'wait.opening': 'now',
  'wait.inDraw': 'People in the draw',
  'wait.closed': 'The line has closed',
  'wait.closedLead': 'Nobody else is let in.',
  'wait.position': 'Your place',
  'wait.waiting': 'People in line',
  'wait.estimate': 'Expected wait',
  'wait.progress': 'How far you have come',
  'wait.measuring': 'still measuring',
  'wait.paused': 'The line is paused. Your place is kept.',
  'wait.sold_out': 'Sold out. You may stay in line in case something comes back.',
  'wait.degraded': 'We are putting the line back together. Your place is kept.',
  'wait.kept': 'kept',
  'wait.bypass': 'We cannot see the line just now. Your place is kept, and people are let in meanwhile: you may be next.',
  'wait.notIn': 'Not in the line yet: it takes nobody just now. Trying again …',
  'wait.trouble': 'No answer just now. Your place is kept; asking again …',
  'wait.admitted': 'It is your turn',
  'wait.admittedLead': 'Taking you to the shop in {n} s …',
  'wait.goNow': 'Taking you to the shop …',
  'wait.spent': 'You have used your turn',
  'wait.spentLead': 'The order of this turn has been placed.',
  'wait.expired': 'Your turn has passed',
  'wait.expiredLead': 'It was not used in time, or nobody was here when it came. You may get in line again.',
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
  'wait.fair': 'Turns come in the order of arrival; whoever came before the opening is drawn by lot. Refreshing this page neither helps nor harms.',

  'time.now': 'a few seconds',
  'time.seconds': 'about {a} s',
  'time.minutes': 'about {a} min',
  'time.hours': 'about {a} h',
  'time.days': '{d} d {h} h',
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
  'admin.capacity': 'The order side, for all lines',
  'admin.orders': 'Orders, in this process',
  'admin.controls': 'Controls',
  'admin.gate': 'Gate',
  'admin.limits': 'Limits',
  'admin.schedule': 'Schedule and share',
  'admin.lines': 'Lines',
  'admin.danger': 'Careful',
  'admin.waiting': 'waiting',
  'admin.inside': 'inside',
  'admin.away': 'away',
  'admin.admitted': 'admitted',
  'admin.arrived': 'came to order',
  'admin.spent': 'ordered',
  'admin.expired': 'ran out',
  'admin.left': 'left',
  'admin.givenUp': 'given up',
  'admin.rate': 'rate, per s',
  'admin.admittedRate': 'admitted, per s',
  'admin.moving': 'head moves, per s',
  'admin.rateLimit': 'rate limit, per s',
  'admin.share': 'share of capacity',
  'admin.conversion': 'conversion',
  'admin.pending': 'pending',
  'admin.lag': 'lag, s',
  'admin.pollsNow': 'poll budget, per s',
  'admin.hold': 'on hold until',
  'admin.limitedBy': 'limited by',
  'admin.modeNow': 'mode',
  'admin.orderCapacity': 'capacity, orders/s',
  'admin.budget': 'budget, orders/s',
  'admin.inPipe': 'in the pipe / target',
  'admin.queues': 'queue instances',
  'admin.registerAge': 'register age, s',
  'admin.process': 'process',
  'admin.reason': 'rests on',
  'admin.throughput': 'orders/s',
  'admin.utilisation': 'in use',
  'admin.age': 'age, s',
  'admin.workers': 'workers busy',
  'admin.backlog': 'backlog',
  'admin.completed': 'completed',
  'admin.returning': 'returning',
  'admin.refused': 'refused',
  'admin.work': 'work p50 / p95 ms',
  'admin.wait': 'wait p50 / p95 ms',
  'admin.delay': 'test delay ms',
  'admin.open': 'open',
  'admin.paused': 'paused',
  'admin.scheduled': 'scheduled',
  'admin.closed': 'closed',
  'admin.degraded': 'degraded',
  'admin.pause': 'Pause',
  'admin.resume': 'Resume',
  'admin.sayStock': 'Say there is stock',
  'admin.saySoldOut': 'Say sold out',
  'admin.mode': 'Mode',
  'admin.modeNormal': 'normal: wait, then be let in',
  'admin.modePassthrough': 'passthrough: nobody waits',
  'admin.modeBlock': 'block: nobody is let in or told their place',
  'admin.modeBypass': 'bypass: let in at the rate, in no order',
  'admin.modeInForce': 'mode in force',
  'admin.store': 'store',
  'admin.viewAge': 'figures are old, s',
  'admin.bypassed': 'let in without the line',
  'admin.unrecorded': 'of them not recorded',
  'admin.message': 'Message to those who wait',
  'admin.rateOverride': 'Fixed rate, admissions per second',
  'admin.automatic': 'Automatic rate',
  'admin.maxActive': 'Inside at once, at most (0: no limit)',
  'admin.maxLength': 'In line, at most (0: no limit)',
  'admin.weight': 'Weight beside other lines',
  'admin.pollBudget': 'Polls per second and instance',
  'admin.opensAt': 'Opens at (your time)',
  'admin.closesAt': 'Closes at (your time)',
  'admin.seed': 'Hash of the draw’s seed: {hash}',
  'admin.one': 'Back to 1',
  'admin.newLine': 'New line (a-z, 0-9, -)',
  'admin.create': 'Create',
  'admin.created': 'The line is there.',
  'admin.export': 'Export this line',
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

const texts = navigator.language.startsWith('ko') ? { ...en, ...ko } : en;

// t is the text of a key with its values filled in.
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}

// number and money are written as the reader's language does.
export const number = (n) => new Intl.NumberFormat(texts.locale).format(n);

const cash = new Intl.NumberFormat(texts.locale, { style: 'currency', currency });
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

// clock is a remaining time as m:ss, with hours where there are any; as days and
// hours when it is long.
export function clock(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  if (h >= 48) return t('time.days', { d: Math.floor(h / 24), h: h % 24 });
  const two = (n) => String(n).padStart(2, '0');
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

// moment is a point in time as the reader writes it.
export const moment = (at) => new Date(at).toLocaleString(texts.locale, { dateStyle: 'medium', timeStyle: 'short' });

// say fills the page's fixed texts in.
export function say(root = document) {
  document.documentElement.lang = texts.locale;
  for (const el of root.querySelectorAll('[data-text]')) el.textContent = t(el.dataset.text);
  for (const el of root.querySelectorAll('[data-label]')) el.setAttribute('aria-label', t(el.dataset.label));
}
