import http from 'k6/http';
import { check, sleep } from 'k6';
import { line, urls } from './env.js';

const query = `?line=${encodeURIComponent(line)}`;
const states = ['waiting', 'admitted'];

// Visitor is one person with one browser: a cookie jar that holds the ticket,
// and the last answer of the line.
//
// Every request is tagged with a name, so that URLs with ids in them do not
// become a metric each, and lists the statuses it is meant to get: any other
// counts as a failed request.
export class Visitor {
  constructor() {
    this.jar = new http.CookieJar();
    this.answer = {};
  }

  // enter takes a place. It returns false when none was given.
  enter() {
    const res = this.askForPlace();
    const ok = check(res, { 'enter: a place, or let in': (r) => r.status === 200 || r.status === 201 });
    return ok && this.read(res, 'enter');
  }

  askForPlace() {
    return http.post(`${urls.queue}/queue/enter${query}`, null, this.params('enter', [200, 201]));
  }

  // poll asks for the position. On any failure the last answer stands.
  poll() {
    const before = this.answer;
    const res = http.get(`${urls.queue}/queue/position${query}`, this.params('position', [200]));
    if (!check(res, { 'position: 200': (r) => r.status === 200 }) || !this.read(res, 'position')) {
      return false;
    }
    const now = this.answer;
    check(now, {
      'position: it never grows': (a) => a.state !== 'waiting' || before.state !== 'waiting' || a.position <= before.position,
      'position: the token stays the same': (a) => before.state !== 'admitted' || a.token === before.token,
    });
    return true;
  }

  leave() {
    const res = http.post(`${urls.queue}/queue/leave${query}`, null, this.params('leave', [204]));
    check(res, { 'leave: 204': (r) => r.status === 204 });
  }

  // order buys one piece with the token and returns the response.
  order(product) {
    return this.postOrder(product, 'order', 201);
  }

  // repeatOrder sends the same order once more, as after a lost answer.
  repeatOrder(product) {
    return this.postOrder(product, 'repeat_order', 200);
  }

  postOrder(product, name, expected) {
    return http.post(
      `${urls.orders}/orders`,
      JSON.stringify({ items: [{ product_id: product, quantity: 1 }] }),
      this.params(name, [expected], { 'Content-Type': 'application/json', Authorization: `Bearer ${this.answer.token}` }),
    );
  }

  // readOrder reads an order back with the token that made it.
  readOrder(id) {
    return http.get(`${urls.orders}/orders/${id}`, this.params('read_order', [200], { Authorization: `Bearer ${this.answer.token}` }));
  }

  // pay has an order paid, as a page does when it goes on from the basket.
  pay(id) {
    return http.post(
      `${urls.orders}/orders/${id}/payment`,
      JSON.stringify({ method: 'card' }),
      this.params('payment', [200], { 'Content-Type': 'application/json', Authorization: `Bearer ${this.answer.token}` }),
    );
  }

  // claim asks for a coupon, of which there may be none left.
  claim(coupon) {
    return http.post(`${urls.orders}/coupons/${coupon}/claim`, null, this.params('claim', [201, 409], { Authorization: `Bearer ${this.answer.token}` }));
  }

  readCoupon(coupon) {
    return http.get(`${urls.orders}/coupons/${coupon}`, this.params('coupon', [200]));
  }

  // look reads the product's page, as somebody does who was let in.
  look(product) {
    const res = http.get(`${urls.orders}/products/${product}`, this.params('product', [200]));
    check(res, { 'product: in the shop': (r) => r.status === 200 && r.json('product_id') === product });
  }

  // interval is how long to wait before the next poll, in seconds: as the last
  // answer told, or two seconds, a person's pace, when it told nothing.
  interval() {
    return (this.answer.poll_after_ms || 2000) / 1000;
  }

  // pollUntil polls as told until the time has come (ms since 1970). Whoever is
  // let in meanwhile goes on asking, as an open page does.
  pollUntil(end) {
    for (;;) {
      const left = (end - Date.now()) / 1000;
      if (left <= 0) {
        return;
      }
      const wait = this.interval();
      sleep(Math.min(wait, left));
      if (wait < left) {
        this.poll();
      }
    }
  }

  // pollUntilAdmitted polls as told, at most so many times, and reports whether
  // the visitor was let in.
  pollUntilAdmitted(polls) {
    for (let i = 0; i < polls && this.answer.state !== 'admitted'; i++) {
      sleep(this.interval());
      this.poll();
    }
    return this.answer.state === 'admitted';
  }

  // waitUntilUsable waits out the time before which the token is too early. It
  // must be called with a fresh answer.
  waitUntilUsable() {
    sleep((this.answer.usable_in_ms || 0) / 1000);
  }

  // read takes over the answer and checks what every answer about a visitor
  // must keep.
  read(res, name) {
    const answer = res.json();
    this.answer = answer;
    return check(answer, {
      [`${name}: waiting or admitted`]: (a) => states.includes(a.state),
      [`${name}: the header says the state too`]: (a) => res.headers['Sluice-State'] === a.state,
      [`${name}: no cache may keep it`]: () => (res.headers['Cache-Control'] || '').includes('no-store'),
      [`${name}: a position and an interval, or a token`]: (a) =>
        a.state === 'waiting' ? a.position >= 1 && a.poll_after_ms > 0 : Boolean(a.token),
    });
  }

  params(name, expected, headers = {}) {
    return {
      jar: this.jar,
      headers,
      tags: { name },
      responseCallback: http.expectedStatuses(...expected),
    };
  }
}
