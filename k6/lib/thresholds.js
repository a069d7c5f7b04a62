import { number } from './env.js';

// nothingFails is what every script must keep: each check holds, and every request
// gets a status that it is meant to get.
export const nothingFails = {
  checks: ['rate==1'],
  http_req_failed: ['rate==0'],
};

// bound is the most that the 95th percentile of the requests of a name may take, in
// ms. The fallbacks are generous, because on machines shared with others an absolute
// time says little; give tighter ones with P95_ENTER, P95_POSITION and so on where it
// does.
export const bound = (name, fallback) => ({
  [`http_req_duration{name:${name}}`]: [`p(95)<${number(`P95_${name.toUpperCase()}`, fallback)}`],
});

// thresholds are those of a script whose users stand in line.
export function thresholds(more = {}) {
  return { ...nothingFails, ...bound('enter', 1000), ...bound('position', 1000), ...more };
}

// trendStats are the statistics that a summary shows of each time.
export const trendStats = ['avg', 'min', 'med', 'p(95)', 'p(99)', 'max', 'count'];
