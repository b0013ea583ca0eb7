// Times of the API, in milliseconds, and an estimate of the store's clock.

let offset = -Infinity;

/** Returns a timestamp, with its fractions of a millisecond. */
export function instant(text) {
  const fraction = /\.\d+/.exec(text)?.[0] ?? "";
  return Date.parse(text.replace(fraction, "")) + Number(`0${fraction}`) * 1000;
}

/** Returns a duration; `null` if it is unset. */
export function duration(text) {
  return text === undefined ? null : Number.parseFloat(text) * 1000;
}

/** Notes a time that the store's clock has passed. The newest such time is the best estimate: what was under way is only older. */
export function passed(time) {
  offset = Math.max(offset, time - Date.now());
}

/** Forgets the estimate, so that a clock that was set counts anew. */
export function reset() {
  offset = -Infinity;
}

/** Returns the store's time, or this machine's as long as nothing is known of the store's. */
export function storeNow() {
  return Date.now() + (offset === -Infinity ? 0 : offset);
}
