/**
 * Timers, taken when the package is loaded: a test framework that replaces them later neither stops a lease nor lets one run out.
 *
 * @module
 */

import * as timers from "node:timers";

export const { clearTimeout, setImmediate, setTimeout } = timers;
export const { queueMicrotask } = globalThis;
export const wallClock = Date.now;
