/**
 * Session, for those who hold locks through it: requests, and what their callers get.
 *
 * @module
 */

import { now as readClock } from "./clock";
import {
  AcquireError,
  type AcquireErrorKind,
  HoldError,
  LockLostError,
  LockReleasedError,
} from "./errors";
import type { Lease } from "./lease";
import type { Effect, Granted, HoldResult } from "./machine/pending";
import { type AcquireSpec, label } from "./machine/spec";
import { type SessionOptions, type Settings, traceparent } from "./options";
import type { LostReason, State } from "./reason";
import { currentBody, Works } from "./running";
import { SessionLoop } from "./session-loop";

/** Session, from the side of its users. */
export class SessionCore {
  readonly loop: SessionLoop;
  /** The works under its locks. */
  readonly works = new Works();
  /** The elections for which the session campaigns, or which it leads, with the leadership once it is elected. */
  readonly candidacies = new Map<string, { term: Lease | undefined }>();
  #lastAcquire = 0;
  #closed: Promise<void> | undefined;

  /** Makes a session and begins to connect. If it must open, it ends when no coordinator of the first round opens it. */
  constructor(
    readonly settings: Settings,
    options: SessionOptions,
    mustOpen: boolean,
  ) {
    this.loop = new SessionLoop(settings, options, mustOpen);
  }

  /** Acquires locks, and returns one grant for each in the order of the request. */
  async acquire(spec: AcquireSpec, signal?: AbortSignal): Promise<Granted[]> {
    const room = this.loop.room();
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
      const began = readClock();
      const failed = (kind: AcquireErrorKind | "cancelled") =>
        this.loop.tell("failed", { lock: label(spec), kind, waited: readClock() - began });
      const abort = () => {
        // From the cancel on nobody answers the call.
        this.loop.step((now, { requests }) => requests.cancel(now, id));
        failed("cancelled");
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      const traced = { ...spec, trace: traceparent(this.settings) };
      this.loop.step((now, { requests }) =>
        requests.acquire(now, id, traced, (result) => {
          signal?.removeEventListener("abort", abort);
          if (result instanceof AcquireError) {
            failed(result.kind);
            reject(result);
          } else {
            for (const { lease } of result) {
              this.#watch(lease, readClock() - began);
            }
            resolve(result);
          }
        }),
      );
    });
  }

  /** Tells the events of a hold. */
  #watch(lease: Lease, waited: number): void {
    const { name: lock, token } = lease;
    const began = readClock();
    let last: State = "held";
    this.loop.tell("acquired", { lock, token, waited });
    lease.onChange(() => {
      const now = readClock();
      const state = lease.stateAt(now);
      if (state === last) {
        return;
      }
      last = state;
      const held = now - began;
      if (state === "lost") {
        this.loop.tell("lost", { lock, token, reason: lease.endReason(now) as LostReason, held });
      } else if (state === "released") {
        this.loop.tell("released", { lock, token, held });
      } else {
        this.loop.tell(state === "held" ? "resumed" : state, { lock, token });
      }
    });
  }

  /** Gives one grant back, and waits for the answer. Returns false if it was lost before. */
  async release({ key, lease }: Granted): Promise<boolean> {
    const trace = traceparent(this.settings);
    const now = readClock();
    // It ends here first: this process must not believe in the hold once the coordinator could hand it on.
    if (!lease.end(now, "released")) {
      // The session forgets a lost one.
      this.loop.step((_now, { requests }) => requests.release(now, key));
      return false;
    }
    const result = await new Promise<HoldResult>((resolve) => {
      this.loop.step((_now, { requests }) => requests.release(now, key, trace, resolve));
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
      this.loop.step((now, { requests }) => requests.change(now, key, effect, trace, resolve));
    });
    settle(lease, result);
  }

  /**
   * Closes the session: tells its bodies to stop, waits for them within the bound, and then until its coordinator has confirmed the end, or
   * for a few seconds. All calls are one close.
   */
  close(timeout = this.settings.closeTimeout): Promise<void> {
    // Nothing waits for a body that waits for this.
    for (let body = currentBody(); body; body = body.outer) {
      if (body.core === this) {
        this.works.finish(body);
      }
    }
    this.#closed ??= this.#close(timeout);
    return this.#closed;
  }

  async #close(timeout: number): Promise<void> {
    const { loop, settings, works } = this;
    loop.step((now, machine) => machine.retire(now));
    await works.close(timeout, settings.log, loop.ended);
    loop.step((now, machine) => machine.close(now));
    await loop.ended;
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
