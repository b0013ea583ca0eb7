/**
 * State of one hold, which its user and its session share: held, suspended, or ended. Both agree about it at any moment.
 *
 * @module
 */

import { after, type Moment, NEVER, now as readClock, since } from "./clock";
import { LockLostError, LockReleasedError, LockSuspendedError } from "./errors";
import type { SessionReleaseRequested } from "./generated/leasehold/v1/session_pb";
import type { EndReason, LostReason, State } from "./reason";
import { queueMicrotask } from "./timers";
import { fromDuration } from "./wire";

/**
 * Request of an operator to release a lock, as its holder receives it. The lock is held on: finish what must be finished and release it,
 * or go on.
 */
export class ReleaseRequest {
  /** Words for people that say why; empty if the operator gave no reason. */
  readonly reason: string;
  readonly #until: Moment;

  /** @internal */
  constructor(asked: Pick<SessionReleaseRequested, "reason" | "within">, now: Moment) {
    this.reason = asked.reason;
    this.#until = asked.within ? after(now, fromDuration(asked.within)) : NEVER;
  }

  /**
   * Milliseconds left of the time that the operator gave; `undefined` if the operator gave none. Nothing happens when it is over.
   */
  get timeLeft(): number | undefined {
    return this.#until === NEVER ? undefined : since(this.#until, readClock());
  }
}

/** Hold, from its grant on. */
export class Lease {
  readonly name: string;
  readonly token: bigint;
  /** Permits of a semaphore; 0 in other modes. */
  readonly permits: number;
  /** The last request to release it. */
  request: ReleaseRequest | undefined;

  #state: State = "held";
  #reason: EndReason = "unknown";
  /** The deadline, while it is held or suspended. */
  #until: Moment;
  /** Whether it is suspended because the coordinator no longer knows who the client is. */
  #isDisowned = false;
  /** The latest end, whatever is answered. */
  #endsAt: Moment;
  readonly #listeners = new Set<() => void>();
  #isTelling = false;

  /** Makes a hold that lasts until the deadline unless it is extended, and never longer than `endsAt`. */
  constructor(name: string, token: bigint, permits: number, deadline: Moment, endsAt: Moment) {
    this.name = name;
    this.token = token;
    this.permits = permits;
    this.#until = Math.min(deadline, endsAt);
    this.#endsAt = endsAt;
  }

  get #hasEnded(): boolean {
    return this.#state === "lost" || this.#state === "released";
  }

  /** Ends the hold if its deadline has passed. The answer "lost" is never taken back. */
  #settle(now: Moment): void {
    if (this.#hasEnded || now < this.#until) {
      return;
    }
    if (this.#endsAt <= this.#until) {
      this.#reason = "max_hold";
    } else if (this.#state === "held") {
      this.#reason = "expired";
    } else {
      this.#reason = this.#isDisowned ? "unauthenticated" : "session_ended";
    }
    this.#become("lost");
  }

  #become(state: State): void {
    if (this.#state !== state) {
      this.#state = state;
      this.#tell();
    }
  }

  /**
   * Calls the listeners soon, and not here: what they call may come back to the session, which is in the middle of something. What they
   * find is the state at that time.
   */
  #tell(): void {
    if (this.#isTelling || this.#listeners.size === 0) {
      return;
    }
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listener of [...this.#listeners]) {
        listener();
      }
    });
  }

  /** Calls the function after every change of the state or the request, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  stateAt(now: Moment): State {
    this.#settle(now);
    return this.#state;
  }

  /** Returns the moment at which it is lost, if it is held or suspended. */
  alive(now: Moment): Moment | undefined {
    this.#settle(now);
    return this.#hasEnded ? undefined : this.#until;
  }

  /** Returns why it has ended, if it has. */
  endReason(now: Moment): EndReason | undefined {
    this.#settle(now);
    return this.#hasEnded ? this.#reason : undefined;
  }

  /** Returns the bound, whatever is answered. */
  get endsAt(): Moment {
    return this.#endsAt;
  }

  /** Moves the deadline to a later moment. Does nothing for a hold that is not held. */
  extend(to: Moment): void {
    if (this.#state === "held") {
      this.#until = Math.max(this.#until, Math.min(to, this.#endsAt));
    }
  }

  /**
   * Suspends the hold because its stream has ended: until the limit, or its deadline if that is earlier. The limit is NEVER if the
   * coordinator ended the stream because it no longer knows the client.
   */
  suspend(now: Moment, limit: Moment): void {
    this.#settle(now);
    if (this.#hasEnded) {
      return;
    }
    this.#isDisowned = limit === NEVER || (this.#state === "suspended" && this.#isDisowned);
    this.#until = Math.min(this.#until, limit);
    this.#become("suspended");
  }

  /**
   * Holds it until a moment, which may be before its deadline so far, because another stream has taken it over. Its bound is the earlier
   * of the one so far and `endsAt`. Does nothing for a hold that has ended.
   */
  resume(now: Moment, to: Moment, endsAt: Moment): void {
    this.#settle(now);
    if (this.#hasEnded) {
      return;
    }
    this.#endsAt = Math.min(this.#endsAt, endsAt);
    this.#until = Math.min(to, this.#endsAt);
    this.#become("held");
  }

  /** Ends the hold; the first reason stays. Returns whether this call ended it. */
  end(now: Moment, reason: EndReason): boolean {
    this.#settle(now);
    if (this.#hasEnded) {
      return false;
    }
    this.#reason = reason;
    this.#become(reason === "released" ? "released" : "lost");
    return true;
  }

  /** Notes that an operator asks for its release. */
  ask(now: Moment, request: ReleaseRequest): void {
    this.#settle(now);
    if (!this.#hasEnded) {
      this.request = request;
      this.#tell();
    }
  }

  /** Returns nothing while it is held, and otherwise why it must not be acted on. */
  fault(now: Moment): LockLostError | LockSuspendedError | LockReleasedError | undefined {
    switch (this.stateAt(now)) {
      case "held":
        return undefined;
      case "suspended":
        return new LockSuspendedError(this.name);
      case "released":
        return new LockReleasedError(this.name);
      case "lost":
        return new LockLostError(this.name, this.token, this.#reason as LostReason);
    }
  }
}
