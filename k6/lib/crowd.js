import { sleep } from 'k6';
import exec from 'k6/execution';
import { Visitor } from './visitor.js';

// crowd is a scenario of so many users, one visit each, who arrive one after
// the other over the ramp (s) and stay for the hold (s).
//
// The executor with a fixed number of iterations was preferred to the one that
// ramps users up: there, a user whose visit ends a moment early starts a second
// one, and those still polling at the end are cut off in mid-request.
export function crowd(users, ramp, hold, more = {}) {
  return {
    executor: 'per-vu-iterations',
    vus: users,
    iterations: 1,
    maxDuration: `${Math.ceil(ramp + hold) + 30}s`,
    gracefulStop: '0s',
    ...more,
  };
}

// arrive waits for this user's turn to come in.
export function arrive(users, ramp) {
  sleep((ramp * exec.scenario.iterationInTest) / users);
}

// sleepUntil sleeps until the time has come (ms since 1970).
export function sleepUntil(time) {
  sleep(Math.max(0, time - Date.now()) / 1000);
}

// visit is one user's stay: arrive, enter, poll as told for the hold (s), and
// look at the product if let in by then.
export function visit(users, ramp, hold, product) {
  arrive(users, ramp);
  const visitor = new Visitor();
  const end = Date.now() + hold * 1000;
  if (!visitor.enter()) {
    return;
  }
  visitor.pollUntil(end);
  if (visitor.answer.state === 'admitted') {
    visitor.look(product);
  }
}
