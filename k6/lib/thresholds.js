import { number } from './env.js';

// thresholds are what every script must keep: each check holds, nothing fails,
// and an answer comes within a bound. The bounds are generous, because on
// machines shared with others an absolute time says little; give tighter ones
// with P95_ENTER, P95_POSITION and P95_ORDER (ms) where it does.
export function thresholds(more = {}) {
  return {
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    'http_req_duration{name:enter}': [`p(95)<${number('P95_ENTER', 1000)}`],
    'http_req_duration{name:position}': [`p(95)<${number('P95_POSITION', 1000)}`],
    ...more,
  };
}

export const orderThreshold = (fallback) => ({
  'http_req_duration{name:order}': [`p(95)<${number('P95_ORDER', fallback)}`],
});

// trendStats are the statistics that a summary shows of each time.
export const trendStats = ['avg', 'min', 'med', 'p(95)', 'p(99)', 'max', 'count'];
