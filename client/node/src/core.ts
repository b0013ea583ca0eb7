/**
 * Session, for those who hold locks through it: requests, and what their callers get.
 *
 * @module
 */

import { setMaxListeners } from "node:events";
import { now as readClock } from "./clock";
import { AcquireError, HoldError, LockLostError, LockReleasedError } from "./errors";
import type { Lease } from "./lease";
import type { Effect, Granted, HoldResult } from "./machine/pending";
import type { AcquireSpec } from "./machine/spec";
import { traceparent } from "./options";
import { SessionLoop } from "./session-loop";

/** Session, from the side of its users. */
export class SessionCore extends SessionLoop {
  /** The elections for which the session campaigns, or which it leads, with the leadership once it is elected. */
  readonly candidacies = new Map<string, { term: Lease | undefined }>();
  #lastAcquire = 0;

  /** Acquires locks, and returns one grant for each in the order of the request. */
  async acquire(spec: AcquireSpec, signal?: AbortSignal): Promise<Granted[]> {
    if (signal) {
      // One signal may stop any number of flows: that many listeners are no leak.
      setMaxListeners(0, signal);
    }
    const room = this.room();
    if (room && !signal?.aborted) {
      await eitherOf(room, signal);
    }
    signal?.throwIfAborted();
    return this.#acquire(spec, signal);
  }

  #acquire(spec: AcquireSpec, signal: AbortSignal | undefined): Promise<Granted[]> {
    return new Promise((resolve, reject) => {
      this.#lastAcquire++;
      const id = this.#lastAcquire;
      const abort = () => {
        // From the cancel on nobody answers the call.
        this.step((now) => this.machine.cancel(now, id));
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      const traced = { ...spec, trace: traceparent(this.settings) };
      this.step((now) =>
        this.machine.acquire(now, id, traced, (result) => {
          signal?.removeEventListener("abort", abort);
          if (result instanceof AcquireError) {
            reject(result);
          } else {
            resolve(result);
          }
        }),
      );
    });
  }

  /** Gives one grant back, and waits for the answer. Returns false if it was lost before. */
  async release({ key, lease }: Granted): Promise<boolean> {
    const trace = traceparent(this.settings);
    const now = readClock();
    // It ends here first: this process must not believe in the hold once the coordinator could hand it on.
    if (!lease.end(now, "released")) {
      // The session forgets a lost one.
      this.step(() => this.machine.release(now, key));
      return false;
    }
    const result = await new Promise<HoldResult>((resolve) => {
      this.step(() => this.machine.release(now, key, trace, resolve));
    });
    if (result.outcome === "lost") {
      return false;
    }
    settle(lease, result);
    return true;
  }

  /** Changes a hold, and waits for the answer. */
  async change({ key, lease }: Granted, effect: Effect): Promise<void> {
    const trace = traceparent(this.settings);
    const result = await new Promise<HoldResult>((resolve) => {
      this.step((now) => this.machine.change(now, key, effect, trace, resolve));
    });
    settle(lease, result);
  }

  /** Closes the session, and waits until its coordinator has confirmed it, or for a few seconds. */
  async close(): Promise<void> {
    this.step((now) => this.machine.close(now));
    await this.ended;
  }
}

/** Waits for a promise, or until the signal is aborted. */
function eitherOf(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      signal?.removeEventListener("abort", end);
      resolve();
    };
    signal?.addEventListener("abort", end, { once: true });
    void promise.then(end);
  });
}

/** Throws the error of a request about a hold, if it failed. */
function settle(lease: Lease, result: HoldResult): void {
  switch (result.outcome) {
    case "done":
      return;
    case "lost":
      if (result.reason === "released") {
        throw new LockReleasedError(lease.name);
      }
      throw new LockLostError(lease.name, lease.token, result.reason);
    case "refused":
      throw new HoldError(lease.name, result.failure.kind, result.failure);
    case "unconfirmed":
      throw new HoldError(lease.name, "unconfirmed");
  }
}
