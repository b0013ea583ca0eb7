import { bytes, checkNumber } from "./checks";
import { LockSuspendedError } from "./errors";
import { Held } from "./held";

/**
 * Lock that this process holds, until it releases it or loses it.
 *
 * A hold that is not released stays with the session: always release it, declare it with `await using`, or use `with`. At the end of its
 * block, `await using` releases the hold and reports nothing; `with` also rejects if the lock was lost.
 */
export class Hold extends Held implements AsyncDisposable {
  /** Number of times that its actor held the lock when this hold was granted, this one included: 1 except for reentrant grants. */
  get count(): number {
    return this.granted.holdCount;
  }

  /** Number of permits of a semaphore that were granted; 0 for other locks. */
  get permits(): number {
    return this.granted.lease.permits;
  }

  /**
   * Gives the lock back and hands it to the next waiter. From the call on, the lock counts as not held. It takes ten seconds at most, also
   * when the coordinator can't be reached. It may be called any number of times, and all calls end in the same way.
   *
   * Resolves with false if the lock was lost before. Rejects with a {@link HoldError} if the release was not confirmed or could not be
   * carried out. What was not carried out is repeated in the background; otherwise the lock ends with its lease. Of a lock that its actor
   * holds more than once, it ends this hold alone.
   */
  release(): Promise<boolean> {
    return this.giveUp();
  }

  /** Changes the value attached to the hold for others to see: at most 4 KiB. */
  async setValue(value: Uint8Array | string): Promise<void> {
    const encoded = this.checked(() => bytes(value));
    await this.core.change(this.granted, { kind: "value", value: encoded });
  }

  /**
   * Turns an exclusive hold into a shared one, in one step: nobody else holds the lock exclusively in between, and shared waiters at the
   * head of the queue are let in. The token stays. Does nothing to a shared hold. After an error the hold may be shared already.
   */
  downgrade(): Promise<void> {
    return this.core.change(this.granted, { kind: "downgrade" });
  }

  /**
   * Gives permits of a semaphore back, and keeps this many: 1 or more. A hold that has no more than that is left as it is. After an error
   * the others may be given back already.
   */
  async keep(permits: number): Promise<void> {
    this.checked(() => checkNumber(permits, "permits", 1));
    await this.core.change(this.granted, { kind: "reduce", permits });
  }

  /** @internal */
  override end(): Promise<boolean> {
    return this.release();
  }

  /** Releases the lock, at the end of the block of `await using`. Reports neither a loss nor a failure. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }
}

/** Locks that were granted together, in the order of the request. Each is lost and released for itself. */
export class Holds implements AsyncDisposable, Iterable<Hold> {
  /** Holds, in the order of the request. */
  readonly all: readonly Hold[];

  /** @internal */
  constructor(all: readonly Hold[]) {
    this.all = all;
  }

  [Symbol.iterator](): Iterator<Hold> {
    return this.all.values();
  }

  /** Returns the hold of this name. */
  get(name: string): Hold | undefined {
    return this.all.find((hold) => hold.name === name);
  }

  /** Throws unless all are held, as {@link Hold.check} does for the first one that is not. */
  check(): void {
    let suspended: LockSuspendedError | undefined;
    for (const hold of this.all) {
      try {
        hold.check();
      } catch (error) {
        if (!(error instanceof LockSuspendedError)) {
          throw error;
        }
        suspended ??= error;
      }
    }
    if (suspended) {
      throw suspended;
    }
  }

  /** Releases all of them at once, as {@link Hold.release} does with one. Resolves with false if one was lost before. */
  async release(): Promise<boolean> {
    const ends = await Promise.allSettled(this.all.map((hold) => hold.release()));
    const released: boolean[] = [];
    for (const end of ends) {
      if (end.status === "rejected") {
        throw end.reason;
      }
      released.push(end.value);
    }
    return released.every(Boolean);
  }

  /** Releases the locks, at the end of the block of `await using`. Reports neither a loss nor a failure. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }
}
