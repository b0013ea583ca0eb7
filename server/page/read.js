// Messages of the API as the page keeps them: times as numbers, defaults in place, token numbers as texts.

import { duration, instant } from "./clock.js";

/** Returns a holder. `expires` is a moment of `performance.now()`, or `null` if it never ends. */
export function holder(message) {
  const ttl = duration(message.ttl);
  return {
    sessionId: message.sessionId ?? "",
    clientName: message.clientName ?? "",
    coordinator: message.coordinator ?? "",
    token: message.fencingToken ?? "0",
    acquiredAt: message.acquiredAt ? instant(message.acquiredAt) : null,
    expires: ttl === null ? null : performance.now() + ttl,
    value: message.value ?? "",
    holdCount: message.holdCount ?? 0,
    foreign: message.foreign ?? false,
    permits: message.permits ?? 0,
    actor: message.actor ?? "0",
    maxHold: duration(message.maxHold),
  };
}

/** Returns a waiter. */
export function waiter(message) {
  return {
    sessionId: message.sessionId ?? "",
    clientName: message.clientName ?? "",
    coordinator: message.coordinator ?? "",
    waitingSince: message.waitingSince ? instant(message.waitingSince) : null,
    position: message.position ?? "",
    mode: message.mode,
    permits: message.permits ?? 0,
    actor: message.actor ?? "0",
    number: message.number ?? "0",
  };
}

/** Returns a lock. `closedUntil` is a moment, or `null` if it is not closed. */
export function lock(message) {
  return {
    name: message.name,
    mode: message.mode,
    holders: (message.holders ?? []).map(holder),
    waiters: (message.waiters ?? []).map(waiter),
    holderCount: Number(message.holderCount ?? 0),
    waiterCount: Number(message.waiterCount ?? 0),
    token: message.fencingToken ?? "0",
    closedUntil: until(message.closedFor),
    lockDelay: duration(message.lockDelay),
    limit: message.limit ?? 0,
    permitsTaken: message.permitsTaken ?? 0,
  };
}

/** Returns an event. */
export function event(message) {
  return {
    kind: message.kind,
    name: message.name,
    time: instant(message.time),
    token: message.fencingToken ?? "0",
    holder: message.holder ? holder(message.holder) : null,
    waiter: message.waiter ? waiter(message.waiter) : null,
    reason: message.reason,
    mode: message.mode,
    holderCount: Number(message.holderCount ?? 0),
    waiterCount: Number(message.waiterCount ?? 0),
    closedUntil: until(message.closedFor),
    limit: message.limit ?? 0,
  };
}

function until(text) {
  const closed = duration(text);
  return closed === null ? null : performance.now() + closed;
}
