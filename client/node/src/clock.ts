/**
 * Clock by which a client judges its own leases, in milliseconds: monotonic, and counting the time for which the machine was suspended.
 *
 * The clock of Node's timers does not count suspension on Linux: a laptop that slept through the TTL would wake up believing that it
 * still holds its locks.
 *
 * @module
 */

import { uptime } from "node:os";

/** Point on the clock, in milliseconds. */
export type Moment = number;

/** Later than every other moment. It stands for a time that is not set. */
export const NEVER: Moment = Number.POSITIVE_INFINITY;

/** The most milliseconds by which the clock may be behind. It is never ahead. */
export const CLOCK_ERROR = process.platform === "linux" ? 10 : 0;

// Taken now, so that a test framework that replaces clocks and timers later does not stop leases.
const fine = performance.now.bind(performance);
const steps = process.platform === "linux" ? uptime : undefined;

/** Time that the stepwise clock is ahead of the fine one, at least. It rises with every suspension, and never falls. */
let ahead = Number.NEGATIVE_INFINITY;
let skewed = 0;

/** Reads the clock. */
export function now(): Moment {
  if (!steps) {
    return fine() + skewed;
  }
  // Linux's clock of uptime counts suspension and has steps of 10 ms, rounded down; the fine clock says what has passed since the step.
  // Read in this order, their sum is never ahead.
  const step = steps() * 1000;
  const since = fine();
  ahead = Math.max(ahead, step - since);
  return since + ahead + skewed;
}

/** Makes the clock read more by this much from now on, as after a suspension of the machine. For tests. */
export function skew(by: number): void {
  skewed += by;
}

/** Returns the moment that is later by this much. A negative duration counts as none. */
export function after(moment: Moment, by: number): Moment {
  return by > 0 ? moment + by : moment;
}

/** Returns the time from the earlier moment to the later one; zero if it is not earlier. */
export function since(later: Moment, earlier: Moment): number {
  return later > earlier ? later - earlier : 0;
}
