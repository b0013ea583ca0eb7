// Mirror of all watched locks, from the snapshots and events of WatchLocks.

import { Names } from "./names.js";

/** Kinds of events after which a holder holds no more. */
export const ENDS = new Set(["RELEASED", "EXPIRED", "LOST", "FORCED"].map((kind) => `LOCK_EVENT_KIND_${kind}`));

export class Mirror {
  #locks = new Map();
  #names = new Names();
  /** Number of the present snapshot. A lock of an earlier one may be gone. */
  #snapshot = 0;

  get(name) {
    return this.#locks.get(name);
  }

  get size() {
    return this.#locks.size;
  }

  values() {
    return this.#locks.values();
  }

  withPrefix(prefix) {
    return prefix ? this.#names.withPrefix(prefix) : this.#names.all;
  }

  /** Begins a snapshot. What is known is shown until the snapshot is complete, but no event is applied to it. */
  begin() {
    this.#snapshot += 1;
  }

  /** Takes a lock of a snapshot. */
  show(lock) {
    this.#put({ ...lock, snapshot: this.#snapshot });
  }

  /** Ends a snapshot: locks that were not in it are free. */
  ready() {
    for (const lock of [...this.#locks.values()]) {
      if (lock.snapshot !== this.#snapshot) {
        this.#remove(lock.name);
      }
    }
  }

  /** Applies an event, and returns how many waited before it. */
  apply(event) {
    let lock = this.#locks.get(event.name);
    if (lock?.snapshot !== this.#snapshot) {
      lock = free(event.name, this.#snapshot);
    }
    const waited = lock.waiterCount;
    if (event.holder) {
      lock.holders = lock.holders.filter((holder) => holder.token !== event.token);
      if (!ENDS.has(event.kind)) {
        lock.holders.push(event.holder);
      }
    }
    lock.mode = event.mode;
    lock.holderCount = event.holderCount;
    lock.waiterCount = event.waiterCount;
    lock.closedUntil = event.closedUntil;
    lock.limit = event.limit || lock.limit;
    if (event.token !== "0") {
      lock.token = event.token;
    }
    if (isFree(lock)) {
      this.#remove(lock.name);
    } else {
      this.#put(lock);
    }
    return waited;
  }

  /** Takes what a fresh look says of the time that holders have left; renewals are no events. */
  renewed({ name, holders }) {
    const lock = this.#locks.get(name);
    for (const holder of holders) {
      const known = lock?.holders.find(({ token }) => token === holder.token);
      if (known) {
        known.expires = holder.expires;
      }
    }
  }

  /** Removes locks that were closed, and are not any more. Returns whether there were any. */
  sweep(now) {
    const before = this.size;
    for (const lock of [...this.#locks.values()]) {
      if (lock.closedUntil !== null && lock.closedUntil <= now) {
        lock.closedUntil = null;
        if (isFree(lock)) {
          this.#remove(lock.name);
        }
      }
    }
    return this.size !== before;
  }

  #put(lock) {
    this.#locks.set(lock.name, lock);
    this.#names.add(lock.name);
  }

  #remove(name) {
    this.#locks.delete(name);
    this.#names.remove(name);
  }
}

function isFree({ holderCount, waiterCount, closedUntil }) {
  return holderCount === 0 && waiterCount === 0 && closedUntil === null;
}

function free(name, snapshot) {
  return {
    name, snapshot, mode: undefined, holders: [], holderCount: 0, waiterCount: 0, token: "0", closedUntil: null, limit: 0,
  };
}
