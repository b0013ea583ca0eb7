/**
 * Coordinator for node-cron 4: of several processes that have the same schedule, one runs each of its slots.
 *
 * @packageDocumentation
 */

import type { Client } from "./client";
import { Work } from "./running";

/** Shortest TTL that coordinators take unless they are configured otherwise. */
const SHORTEST_TTL = 1000;
/** Longest TTL of a coordinator, unless it is configured otherwise. */
const LONGEST_TTL = 3_600_000;

/** Options of {@link runCoordinator}. Times are in milliseconds. */
export interface RunCoordinatorOptions {
  /** Prefix of the locks' names. Default: `cron/`. */
  prefix?: string | undefined;
  /**
   * Time by which the clocks of the processes may differ: a process that comes to a slot so much later finds it taken. Each slot is a lock
   * for at least this long: at most the coordinator's longest TTL, 1 h. Default: 60 s.
   */
  clockDifference?: number | undefined;
  /** Name of this process, for operators. Default: the client's. */
  clientName?: string | undefined;
}

/** Coordinator of runs, as node-cron expects it. */
export interface RunCoordinator {
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  onComplete(key: string): void;
}

/**
 * Makes a coordinator of runs, for node-cron's `setRunCoordinator` or the option `runCoordinator` of a task that is `distributed`.
 *
 * Each slot of a task is a detached lock, which is taken without waiting and never released: a process whose clock is late, or that starts
 * within that time, must not run the slot once more. If no coordinator can be reached, `shouldRun` rejects, and node-cron skips the slot.
 *
 * `client.close()` waits for runs that have begun, for at most `closeTimeout`, and aborts the signal `client.closing`.
 */
export function runCoordinator(
  client: Client,
  options: RunCoordinatorOptions = {},
): RunCoordinator {
  const { prefix = "cron/", clockDifference = 60_000, clientName } = options;
  const { works } = client.calls;
  const runs = new Map<string, Work>();
  return {
    async shouldRun(key, ttlMs) {
      // The lease is a hint of node-cron's: a coordinator refuses more than its longest TTL.
      const ttl = Math.max(SHORTEST_TTL, clockDifference, Math.min(ttlMs, LONGEST_TTL));
      const lock = await client.detachedLock(`${prefix}${key}`, { ttl, clientName }).tryAcquire();
      const run = new Work([`${prefix}${key}`]);
      if (!lock || !works.begin(run)) {
        return false;
      }
      runs.set(key, run);
      return true;
    },
    onComplete(key) {
      const run = runs.get(key);
      if (run) {
        runs.delete(key);
        works.finish(run);
      }
    },
  };
}
