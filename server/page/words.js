// Texts for locks and their events.

import { count, number, or, span, who, word } from "./format.js";

/** Returns how a lock is held. */
export function state(lock) {
  if (lock.holderCount > 0) {
    const mode = word("LOCK_MODE_", lock.mode);
    return lock.limit ? `${mode}, limit ${number(lock.limit)}` : mode;
  }
  return lock.closedUntil === null ? "free" : "closed";
}

/** Returns who holds a lock. */
export function holders(lock) {
  const [first] = lock.holders;
  if (!first) {
    return lock.closedUntil === null ? or("") : `closed for ${span(lock.closedUntil - performance.now())}`;
  }
  const others = lock.holderCount - 1;
  return others > 0 ? `${who(first)} and ${count(others, "other")}` : who(first);
}

/** Returns the oldest time at which a present holder was granted a lock. */
export function oldest(lock) {
  const times = lock.holders.map(({ acquiredAt }) => acquiredAt).filter((time) => time !== null);
  return times.length === 0 ? null : Math.min(...times);
}

/** Returns the time that is left to the holder that expires first; `null` if there is none. */
export function left(lock) {
  const ends = lock.holders.map(({ expires }) => expires).filter((end) => end !== null);
  return ends.length === 0 ? null : Math.min(...ends) - performance.now();
}

/** Returns the kind of an event. */
export function kind(event) {
  return word("LOCK_EVENT_KIND_", event.kind);
}

/** Returns what happened, in a sentence without the lock's name. */
export function sentence(event) {
  const whose = who(event.holder ?? event.waiter ?? {});
  const reason = word("LOST_REASON_", event.reason);
  switch (kind(event)) {
    case "granted": return `${whose} holds it, with token ${event.token}`;
    case "queued": return `${whose} waits for it`;
    case "withdrawn": return `${whose} waits no more`;
    case "released": return `${whose} has released it`;
    case "expired": return `the hold of ${whose} expired`;
    case "lost": return `${whose} lost it${reason && `: ${reason}`}`;
    case "forced": return event.holder ? `an operator took it from ${whose}` : `an operator ended the wait of ${whose}`;
    case "value changed": return `${whose} changed its value`;
    case "downgraded": return `${whose} shares it now`;
    case "limit changed": return `its limit is ${number(event.limit)} now`;
    case "permits reduced": return `${whose} gave permits back, and keeps ${number(event.holder?.permits ?? 0)}`;
    case "release requested": return `an operator asked ${whose} to release it`;
    default: return kind(event);
  }
}
