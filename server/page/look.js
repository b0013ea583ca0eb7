// One lock, looked at again and again: its waiters are in no snapshot and no event has all of them.

import { poll } from "./poll.js";
import * as read from "./read.js";

/** Interval between looks without an event, in milliseconds, and the shortest one. */
const INTERVAL = 1000;
const SHORTEST = 150;

/** Looks at a lock, more often while something happens to it, and calls `seen(lock, error)`. */
export function look({ live, api }, name, seen) {
  let last = live.history.of(name)[0]?.id;
  let lookedAt = 0;
  const due = () => {
    const newest = live.history.of(name)[0]?.id;
    const isNews = newest !== last;
    last = newest;
    return isNews || performance.now() - lookedAt >= INTERVAL;
  };
  return poll(SHORTEST, async () => {
    if (!due()) {
      return;
    }
    lookedAt = performance.now();
    try {
      const { lock } = await api().call("AdminService/GetLock", { name });
      seen(read.lock(lock), null);
    } catch (error) {
      seen(null, error);
    }
  });
}
