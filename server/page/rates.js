// Rates and latencies of the last minutes, second by second, from events.

import { ENDS } from "./mirror.js";

/** Seconds that are kept. */
export const SECONDS = 180;
/** Most measurements of a second. */
const MOST = 2000;
/** Most waits and ends that are remembered until they lead to a grant. */
const MOST_PENDING = 50_000;

export class Rates {
  #seconds = new Map();
  /** Times since which clients wait, by what identifies a waiter. */
  #waiting = new Map();
  /** Times at which locks came free while clients waited for them, by name. */
  #ended = new Map();

  /** Notes an event; `waited` is how many clients waited before it. */
  add(event, waited) {
    const second = this.#second();
    switch (event.kind) {
      case "LOCK_EVENT_KIND_GRANTED":
        second.grants += 1;
        this.#granted(event, second);
        break;
      case "LOCK_EVENT_KIND_QUEUED":
        second.queued += 1;
        remember(this.#waiting, waiterKey(event.name, event.waiter), event.waiter.waitingSince);
        break;
      case "LOCK_EVENT_KIND_WITHDRAWN":
        this.#waiting.delete(waiterKey(event.name, event.waiter));
        break;
      default:
        if (ENDS.has(event.kind) && event.holder) {
          second.ended += 1;
          if (waited > 0) {
            remember(this.#ended, event.name, event.time);
          }
        } else if (event.waiter) {
          this.#waiting.delete(waiterKey(event.name, event.waiter));
        }
    }
  }

  #granted(event, second) {
    const key = waiterKey(event.name, event.holder);
    const since = this.#waiting.get(key);
    if (since) {
      this.#waiting.delete(key);
      measure(second.waits, event.time - since);
    }
    const ended = this.#ended.get(event.name);
    if (ended !== undefined) {
      this.#ended.delete(event.name);
      measure(second.handoffs, event.time - ended);
    }
  }

  /** Forgets what has not led to a grant yet: events were missed. */
  forget() {
    this.#waiting.clear();
    this.#ended.clear();
  }

  /** Returns what `read` makes of each second, the newest complete one last; seconds before the first event are empty. */
  series(read) {
    const now = Math.floor(Date.now() / 1000);
    const list = [];
    for (let second = now - SECONDS; second < now; second += 1) {
      list.push(read(this.#seconds.get(second) ?? EMPTY));
    }
    return list;
  }

  #second() {
    const now = Math.floor(Date.now() / 1000);
    let second = this.#seconds.get(now);
    if (!second) {
      second = { grants: 0, queued: 0, ended: 0, waits: [], handoffs: [] };
      this.#seconds.set(now, second);
      for (const old of this.#seconds.keys()) {
        if (old >= now - SECONDS) {
          break;
        }
        this.#seconds.delete(old);
      }
    }
    return second;
  }
}

const EMPTY = { grants: 0, queued: 0, ended: 0, waits: [], handoffs: [] };

/** Returns a quantile of some measurements, or `null` if there are none. */
export function quantile(measured, share) {
  if (measured.length === 0) {
    return null;
  }
  const sorted = [...measured].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

function measure(list, milliseconds) {
  if (list.length < MOST) {
    list.push(Math.max(0, milliseconds));
  }
}

function remember(map, key, value) {
  map.set(key, value);
  if (map.size > MOST_PENDING) {
    map.delete(map.keys().next().value);
  }
}

/** Returns what a waiter and the holder that it becomes have in common. */
function waiterKey(name, { sessionId, clientName, coordinator, actor }) {
  return [name, sessionId, clientName, coordinator, actor].join("\0");
}
