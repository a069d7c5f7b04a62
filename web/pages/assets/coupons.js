// The coupons of this tab. A code is good for one order: it goes with the next that it fits.
import { kept } from './turn.js';

const held = kept('coupons'); // by id: { code, name, line, discount, used }

export const coupon = (id) => held.get()?.[id];

// next is the best coupon for an order in a line.
export function next(line) {
  const good = Object.entries(held.get() ?? {}).filter(([, c]) => !c.used && (!c.line || c.line === line));
  const [id, best] = good.sort(([, a], [, b]) => b.discount - a.discount)[0] ?? [];
  return best && { id, ...best };
}

export function keep(id, claimed) {
  held.set({ ...held.get(), [id]: { ...coupon(id), ...claimed } });
}

// byCode finds the coupon that an order was made with.
export const byCode = (code) => Object.keys(held.get() ?? {}).find((id) => held.get()[id].code === code);
