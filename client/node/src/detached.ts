/**
 * Locks without a session, by the unary calls: holds that must outlive the process.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import type { Answer, Calls } from "./calls";
import {
  bytes,
  checkFlag,
  checkKey,
  checkName,
  checkObject,
  checkOwnerId,
  checkPositive,
  checkSignal,
  checkText,
  checkTime,
  checkToken,
  DAY,
  shown,
} from "./checks";
import { defaultClientName } from "./client-name";
import { after, CLOCK_ERROR, type Moment, now as readClock, since } from "./clock";
import {
  AcquireError,
  acquireFailed,
  acquireRefused,
  Failure,
  HoldError,
  LockLostError,
} from "./errors";
import { protocolFailure } from "./failure";
import type { AcquireResponse } from "./generated/leasehold/v1/lock_pb";
import { AcquireOutcome, LockMode } from "./generated/leasehold/v1/types_pb";
import { checkLocks, type LockSpec, lockSpec, modeOf } from "./machine/spec";
import { ACQUIRE, type Method, RELEASE, RENEW } from "./methods";
import { follow } from "./signals";
import { holderOf } from "./views";
import { fromDuration, toDuration } from "./wire";

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
  /** Name of the holder, for operators: at most 256 bytes. Default: the client's. */
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
   * Acquires the lock. If a coordinator can't be reached, goes away, or its connection breaks before the answer, it asks at every other
   * address under the same key, and takes over what an earlier request came to. Rejects with an {@link AcquireError}: `busy` or `timed_out`
   * if it is not free, `unavailable` if no coordinator answered, and otherwise the coordinator's refusal. If the signal is aborted, the
   * coordinator gives up the wait; a grant that crosses it is held until its TTL has passed.
   */
  async acquire({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<DetachedLock> {
    const { name } = this;
    try {
      this.#check(signal);
    } catch (error) {
      throw acquireFailed(shown(name), error);
    }
    const { ttl, wait = 0, permits } = this.#options;
    let answered: Answer<AcquireResponse>;
    try {
      answered = await this.#ask(this.#key ?? randomUUID(), signal);
    } catch (error) {
      if (!(error instanceof AcquireError && error.kind === "permission_denied" && !this.#key)) {
        throw error;
      }
      // Where the permissions bound holds, a coordinator takes no key: a repeated request would extend the hold.
      answered = await this.#ask("", signal);
    }
    const { answer, sentAt } = answered;
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
        // A request that is repeated at the end of its wait does not wait.
        const kind = wait === 0 ? "busy" : "timed_out";
        const holder = answer.holder && holderOf(answer.holder);
        throw new AcquireError(name, { kind, wait, holder });
      }
      default:
        throw acquireRefused(
          name,
          protocolFailure(`the coordinator answered outcome ${answer.outcome}`),
        );
    }
  }

  #check(signal: unknown): void {
    const options = this.#options;
    checkObject(options.permits, "permits");
    checkFlag(options.shared, "shared");
    checkLocks([this.#lock()]);
    checkPositive(options.ttl, "ttl");
    checkTime(options.wait, "wait", 0, DAY);
    bytes(options.value);
    checkText(options.clientName, "clientName");
    checkTime(options.lockDelay, "lockDelay", 0);
    if (this.#key !== undefined) {
      checkKey(this.#key);
    }
    checkSignal(signal);
  }

  /** Asks under a key; without one, another request could wait behind the first one. */
  async #ask(key: string, signal: AbortSignal | undefined): Promise<Answer<AcquireResponse>> {
    const { wait = 0 } = this.#options;
    const end = after(readClock(), wait);
    const request = () => this.#message(since(end, readClock()), key);
    const repeats = key ? "freely" : "unsent";
    const stop = new AbortController();
    const unfollow = follow(stop, signal, this.#calls.retired);
    try {
      return await this.#calls.call(ACQUIRE, request, { repeats, signal: stop.signal, wait });
    } catch (error) {
      throw acquireFailed(this.name, error);
    } finally {
      unfollow();
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

  #lock(): LockSpec {
    const { shared, permits } = this.#options;
    const mode = permits ? LockMode.SEMAPHORE : shared ? LockMode.SHARED : LockMode.EXCLUSIVE;
    const limitRevision = permits?.limitRevision ?? 0;
    return { ...lockSpec(this.name, mode), ...permits, limitRevision };
  }

  #message(wait: number, requestKey: string) {
    const { ttl, value, clientName, lockDelay } = this.#options;
    return {
      name: this.name,
      value: bytes(value),
      clientName: clientName ?? defaultClientName(),
      requestKey,
      wait: toDuration(wait),
      ...modeOf(this.#lock()),
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
    token: bigint | string,
    ownerId: Uint8Array | string,
    ttl: number | undefined,
    heldUntil: Moment,
    permits?: number,
  ) {
    this.#calls = calls;
    this.name = name;
    const isText = typeof token === "string" && /^\d{1,19}$/.test(token);
    this.token = isText ? BigInt(token) : (token as bigint);
    this.ownerId = typeof ownerId === "string" ? Buffer.from(ownerId, "base64url") : ownerId;
    this.#ttl = ttl;
    this.#heldUntil = heldUntil;
    this.permits = permits;
    this.#checked(() => {
      checkName(name);
      checkToken(this.token);
      checkOwnerId(this.ownerId);
      checkPositive(ttl, "ttl");
    });
    // Not in what a logger shows of the object.
    Object.defineProperty(this, "ownerId", { enumerable: false });
  }

  /**
   * Returns what another process needs for `Client.attachDetachedLock`, as texts, for a message or a database: the token in decimal, and the
   * owner id in base64url. Secret: keep it out of logs.
   */
  serialize(): { name: string; token: string; ownerId: string } {
    const ownerId = Buffer.from(this.ownerId).toString("base64url");
    return { name: this.name, token: `${this.token}`, ownerId };
  }

  /** Returns what identifies the hold, with the token as text, and without the owner id. */
  toJSON(): { lock: string; token: string; isHeld: boolean } {
    return { lock: this.name, token: `${this.token}`, isHeld: this.isHeld };
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
   * Extends the hold to a full TTL from now, by default that of the request. If no coordinator answers, it is repeated at all of them for as
   * long as the lock is held, at most ten seconds. Rejects with a {@link LockLostError} if the lock was lost, and with a {@link HoldError} if
   * no coordinator could renew it; it then lasts for as long as before, and perhaps longer.
   */
  async renew({ ttl = this.#ttl }: { ttl?: number | undefined } = {}): Promise<void> {
    const { name, ownerId } = this;
    this.#checked(() => checkPositive(ttl, "ttl"));
    const request = { name, ownerId, ...(ttl ? { ttl: toDuration(ttl) } : {}) };
    const { answer, sentAt } = await this.#call(RENEW, request, this.#heldUntil);
    if (!answer.renewed) {
      this.#heldUntil = readClock();
      throw new LockLostError(name, this.token, "unknown");
    }
    this.#heldUntil = sentAt + fromDuration(answer.ttl) - CLOCK_ERROR;
  }

  /**
   * Releases the lock and hands it to the next waiter. If no coordinator answers, it is repeated at all of them for as long as the lock would
   * be held, at most ten seconds. Resolves with false if there was nothing to release. Rejects with a {@link HoldError} if no coordinator
   * could release it; call it again, or the lock ends with its TTL.
   */
  async release(): Promise<boolean> {
    const { name, ownerId } = this;
    const { answer, isRepeat } = await this.#call(RELEASE, { name, ownerId }, this.#heldUntil);
    this.#heldUntil = readClock();
    // A repeated one finds nothing if the first was carried out.
    return answer.released || isRepeat;
  }

  #checked(check: () => void): void {
    try {
      check();
    } catch (error) {
      throw error instanceof Failure ? new HoldError(shown(this.name), "invalid", error) : error;
    }
  }

  /** Makes a call that does no more if it is carried out twice. */
  async #call<Q, A>(method: Method<Q, A>, request: Q, until: Moment): Promise<Answer<A>> {
    try {
      return await this.#calls.call(method, () => request, { repeats: "freely", until });
    } catch (error) {
      throw error instanceof Failure ? new HoldError(this.name, error.kind, error) : error;
    }
  }
}
