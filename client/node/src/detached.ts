/**
 * Locks without a session, by the unary calls: holds that must outlive the process.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import type { Calls } from "./calls";
import { after, CLOCK_ERROR, type Moment, now as readClock, since } from "./clock";
import {
  AcquireError,
  acquireRefused,
  Failure,
  HoldError,
  LockLostError,
  unconnected,
} from "./errors";
import { invalidField, protocolFailure } from "./failure";
import { AcquireOutcome, LockMode } from "./generated/leasehold/v1/types_pb";
import { bytes } from "./hold";
import { ACQUIRE, RELEASE, RENEW } from "./methods";
import { holderOf } from "./views";
import { fromDuration, toDuration } from "./wire";

/** Longest time for a call, besides its wait. */
const CALL_TIMEOUT = 10_000;
/** Number of times that an acquire is sent, if its answers are lost. */
const MOST_ATTEMPTS = 3;

/** Options of a detached lock. Times are in milliseconds. */
export interface DetachedOptions {
  /**
   * Time for which the lock is held unless it is renewed: 1 s to 1 h unless the coordinator is configured otherwise. Renewals last as long.
   * Default: the coordinator's, 10 s.
   */
  ttl?: number | undefined;
  /** Time to wait: at most 24 h. Default: not to wait. */
  wait?: number | undefined;
  /** Value for others to see: at most 4 KiB. Default: empty. */
  value?: Uint8Array | string | undefined;
  /** Name of the holder, for operators: at most 256 bytes. Default: empty. */
  clientName?: string | undefined;
  /** Time for which the name stays closed if the TTL passes before a release: 0 to the maximum TTL. Default: 0. */
  lockDelay?: number | undefined;
  /** Whether to ask for a shared hold. Default: false. */
  shared?: boolean | undefined;
  /** Permits of a semaphore with this limit, in place of an exclusive or a shared hold. */
  permits?:
    | {
        readonly permits: number;
        readonly limit: number;
        readonly atLeast?: number;
        readonly limitRevision?: number;
      }
    | undefined;
}

/** Requests for a lock that no session holds. Nothing is sent before one of the methods is called. */
export class DetachedRequest {
  readonly #calls: Calls;
  readonly #options: DetachedOptions;
  readonly #key: string | undefined;
  /** Name of the lock. */
  readonly name: string;

  /** @internal */
  constructor(calls: Calls, name: string, options: DetachedOptions, key?: string) {
    this.#calls = calls;
    this.name = name;
    this.#options = options;
    this.#key = key;
  }

  /**
   * Returns the same requests under a key of 16 to 128 bytes, random and secret: whoever asks with the same key takes over what an earlier
   * request came to, with its token, for as long as that lasts. Each request has a key of its own otherwise.
   */
  withKey(key: string): DetachedRequest {
    return new DetachedRequest(this.#calls, this.name, this.#options, key);
  }

  /**
   * Acquires the lock. If the answer is lost, it asks again under the same key, and takes over what the first request came to. Rejects with an
   * {@link AcquireError}: `busy` or `timed_out` if it is not free, `unavailable` if no coordinator answered, and otherwise the
   * coordinator's refusal. If the signal is aborted, the coordinator gives up the wait; a grant that crosses it is held until its TTL has
   * passed.
   */
  async acquire({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<DetachedLock> {
    const { name } = this;
    const { ttl, wait = 0, permits } = this.#options;
    const zero = [
      ["permits", permits?.permits],
      ["permits_at_least", permits?.atLeast],
    ].find(([, value]) => value === 0);
    if (zero) {
      // The coordinator would take 0 for the default.
      throw acquireRefused(name, invalidField(`${zero[0]}`, "must be at least 1"));
    }
    const end = after(readClock(), wait);
    let requestKey = this.#key ?? randomUUID();
    for (let left = MOST_ATTEMPTS; ; left--) {
      const rest = since(end, readClock());
      const request = this.#message(rest, requestKey);
      try {
        const { answer, sentAt } = await this.#calls.call(ACQUIRE, request, {
          repeats: "unsent",
          signal,
          timeout: CALL_TIMEOUT + rest,
        });
        switch (answer.outcome) {
          case AcquireOutcome.GRANTED: {
            const heldUntil = sentAt + fromDuration(answer.ttl) - CLOCK_ERROR;
            const granted = permits && (answer.permits || permits.permits);
            const lock = new DetachedLock(
              this.#calls,
              name,
              answer.fencingToken,
              answer.ownerId,
              ttl,
              heldUntil,
              granted,
            );
            // It waited: the TTL counts from the grant, which may have come just now, or a while ago.
            if (lock.validFor < fromDuration(answer.ttl) / 2) {
              await lock.renew().catch(() => undefined);
            }
            return lock;
          }
          case AcquireOutcome.BUSY:
          case AcquireOutcome.TIMED_OUT: {
            const kind = answer.outcome === AcquireOutcome.BUSY ? "busy" : "timed_out";
            throw new AcquireError(name, {
              kind,
              wait,
              holder: answer.holder && holderOf(answer.holder),
            });
          }
          default:
            throw acquireRefused(
              name,
              protocolFailure(`the coordinator answered outcome ${answer.outcome}`),
            );
        }
      } catch (error) {
        if (!(error instanceof Failure)) {
          throw error;
        }
        if (error.reason === "PERMISSION_DENIED" && !this.#key && requestKey) {
          // Where the permissions bound holds, a coordinator takes no key: a repeated request would extend the hold.
          requestKey = "";
          continue;
        }
        if (!error.isTransport) {
          throw acquireRefused(name, error);
        }
        // Without a key, another request could wait behind the first one.
        if (left <= 1 || error.isUnsent || !requestKey) {
          throw unconnected(name);
        }
      }
    }
  }

  /** Acquires the lock if it is free. Resolves with null if it is not. */
  async tryAcquire(
    options: { signal?: AbortSignal | undefined } = {},
  ): Promise<DetachedLock | null> {
    try {
      const tries = { ...this.#options, wait: 0 };
      return await new DetachedRequest(this.#calls, this.name, tries, this.#key).acquire(options);
    } catch (error) {
      if (error instanceof AcquireError && error.kind === "busy") {
        return null;
      }
      throw error;
    }
  }

  #message(wait: number, requestKey: string) {
    const { ttl, value, clientName = "", lockDelay, shared, permits } = this.#options;
    return {
      name: this.name,
      value: bytes(value),
      clientName,
      requestKey,
      wait: toDuration(wait),
      mode: permits ? LockMode.SEMAPHORE : shared ? LockMode.SHARED : LockMode.EXCLUSIVE,
      permits: permits?.permits ?? 0,
      permitsAtLeast: permits?.atLeast ?? 0,
      limit: permits?.limit ?? 0,
      limitRevision: permits?.limitRevision ?? 0,
      ...(ttl ? { ttl: toDuration(ttl) } : {}),
      ...(lockDelay ? { lockDelay: toDuration(lockDelay) } : {}),
    };
  }
}

/** Lock that no session holds: nobody renews it but {@link DetachedLock.renew}, and it outlives this process until its TTL has passed. */
export class DetachedLock {
  readonly #calls: Calls;
  readonly #ttl: number | undefined;
  #heldUntil: Moment;
  /** Name of the lock. */
  readonly name: string;
  /** Fencing token; see `Hold.token`. */
  readonly token: bigint;
  /** Number of permits of a semaphore that were granted; `undefined` for other locks, and for one that was taken up by its owner id. */
  readonly permits: number | undefined;
  /** Owner id: the right to renew and to release the lock, for another process. Secret: keep it out of logs. */
  readonly ownerId: Uint8Array;

  /** @internal */
  constructor(
    calls: Calls,
    name: string,
    token: bigint,
    ownerId: Uint8Array,
    ttl: number | undefined,
    heldUntil: Moment,
    permits?: number,
  ) {
    this.#calls = calls;
    this.name = name;
    this.token = token;
    this.ownerId = ownerId;
    this.#ttl = ttl;
    this.#heldUntil = heldUntil;
    this.permits = permits;
    // Not in what a logger shows of the object.
    Object.defineProperty(this, "ownerId", { enumerable: false });
  }

  /** Whether the lock is held, by this process's own clock: a force release shows at the next renewal. */
  get isHeld(): boolean {
    return this.validFor > 0;
  }

  /** Milliseconds left until the lock may be another client's; 0 once that has passed. */
  get validFor(): number {
    return since(this.#heldUntil, readClock());
  }

  /**
   * Extends the hold to a full TTL from now, by default that of the request. Rejects with a {@link LockLostError} if the lock was lost, and
   * with a {@link HoldError} if no coordinator could renew it; it then lasts for as long as before, and perhaps longer.
   */
  async renew({ ttl = this.#ttl }: { ttl?: number | undefined } = {}): Promise<void> {
    const { name, ownerId } = this;
    const request = { name, ownerId, ...(ttl ? { ttl: toDuration(ttl) } : {}) };
    // Renewing twice does no more than once.
    const answered = this.#calls.call(RENEW, request, { repeats: "freely" });
    const { answer, sentAt } = await answered.catch((error) => this.#refused(error));
    if (!answer.renewed) {
      this.#heldUntil = readClock();
      throw new LockLostError(name, this.token, "unknown");
    }
    this.#heldUntil = sentAt + fromDuration(answer.ttl) - CLOCK_ERROR;
  }

  /**
   * Releases the lock and hands it to the next waiter. Resolves with false if there was nothing to release. Rejects with a {@link HoldError}
   * if no coordinator could release it; call it again, or the lock ends with its TTL.
   */
  async release(): Promise<boolean> {
    const { name, ownerId } = this;
    // If it is repeated, it finds nothing to release: sent once, the answer is certain.
    const answered = this.#calls.call(RELEASE, { name, ownerId }, { repeats: "unsent" });
    const { answer } = await answered.catch((error) => this.#refused(error));
    this.#heldUntil = readClock();
    return answer.released;
  }

  #refused(error: unknown): never {
    throw error instanceof Failure ? new HoldError(this.name, error.kind, error) : error;
  }
}
