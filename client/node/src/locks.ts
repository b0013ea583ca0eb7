/**
 * Requests for locks, for several locks together, and for permits of semaphores.
 *
 * @module
 */

import type { Actor } from "./actor";
import {
  bytes,
  checkActor,
  checkFlag,
  checkFunction,
  checkIfBusy,
  checkObject,
  checkSignal,
  checkTime,
  DAY,
  shown,
  YEAR,
} from "./checks";
import type { SessionCore } from "./core";
import { AcquireError, acquireFailed } from "./errors";
import { invalidField } from "./failure";
import { LockMode } from "./generated/leasehold/v1/types_pb";
import { Hold, Holds } from "./hold";
import {
  type AcquireSpec,
  checkLocks,
  type LockSpec,
  label,
  lockSpec,
  MOST_LOCKS,
} from "./machine/spec";
import { Body, partOf, runUnder } from "./running";

/** Options of a request. Times are in milliseconds. */
export interface AcquireOptions {
  /**
   * Longest time to wait: at most 24 h; 0 means not to wait. Default: the client's `wait`, and without one as long as it takes, over
   * reconnects too, until the signal is aborted.
   */
  wait?: number | undefined;
  /**
   * Signal that ends the wait when it is aborted: the request is cancelled, and rejects with the signal's reason. If the coordinator
   * granted it meanwhile, the session gives it back at once. In `with`, it also tells the work to stop.
   */
  signal?: AbortSignal | undefined;
  /** Value attached to the hold for others to see: at most 4 KiB. Default: empty. */
  value?: Uint8Array | string | undefined;
  /**
   * Time for which the name stays closed, or the permits stay taken, if the hold ends uncleanly, that is in any way other than a release: 0
   * to the maximum TTL. Default: 0. Use it for work that can neither be fenced nor be stopped at the moment its lock is lost.
   */
  lockDelay?: number | undefined;
  /**
   * Longest time for which the lock is held, however healthy this client is: 1 s to 365 days, counted from its grant. The lock is lost at
   * the end with `max_hold`; `Hold.endsIn` knows it from the start. Default: no bound but that of the coordinator's rules.
   */
  maxHold?: number | undefined;
  /**
   * Actor in whose name to ask. Default: that of the work of `with` in which the request is made, and a new one for `with` elsewhere; none
   * for `acquire` elsewhere.
   */
  actor?: Actor | undefined;
  /**
   * Whether the actor may hold what it holds already once more, under the same token. The lock comes free when the last of its holds is
   * released. Needs an actor: `with`, and whatever is asked for in its work, has one. Default: false.
   */
  reentrant?: boolean | undefined;
}

/** Options of {@link Lock.with} and its like, besides those of the request. */
export interface WithOptions {
  /**
   * With `"skip"`, a busy lock means that the work is not run: the call resolves with `undefined`. It then doesn't wait unless the request
   * has a `wait`. Default: a busy lock is an error.
   */
  ifBusy?: "skip" | undefined;
}

/** Options of a request for one lock. */
export interface LockOptions extends AcquireOptions {
  /**
   * Whether to ask for a shared hold: together with other shared holders, and never with an exclusive one. A request behind a waiting writer
   * waits for that writer. Default: false.
   */
  shared?: boolean | undefined;
}

/** Options of a request for permits. */
export interface PermitOptions extends AcquireOptions {
  /** Number of permits: 1 to the limit. Default: 1. */
  permits?: number | undefined;
  /**
   * Fewest permits to be content with: as many as are free when the turn of the request comes, but no fewer than this and no more than
   * `permits`. `Hold.permits` says how many were granted. Default: all of them.
   */
  atLeast?: number | undefined;
}

/** One lock of several that are asked for together: a name, for an exclusive hold, or a name and its mode. */
export type LockRequest =
  | string
  | {
      readonly name: string;
      readonly shared?: boolean | undefined;
    }
  | {
      readonly name: string;
      readonly permits: number;
      readonly limit: number;
      readonly atLeast?: number | undefined;
      readonly limitRevision?: number | undefined;
    };

/** Returns the session to ask on. Throws a ClosedError if there can be none. @internal */
export type Source = () => SessionCore;

type Work<H, T> = (hold: H, signal: AbortSignal) => T | PromiseLike<T>;

/** Requests of one kind. Nothing is sent before one of the methods is called, and each may be called many times. */
abstract class Requests<O extends AcquireOptions, H extends Hold | Holds> {
  readonly #source: Source;
  readonly #defaults: O;

  /** @internal */
  constructor(source: Source, defaults: O) {
    this.#source = source;
    this.#defaults = defaults;
  }

  /** Returns the locks to ask for. */
  protected abstract locks(options: O): readonly LockSpec[];
  protected abstract readonly isOfSeveral: boolean;
  protected abstract wrap(holds: readonly Hold[]): H;

  async #acquire(
    options: O | undefined,
    overrides: AcquireOptions = {},
    work?: unknown,
  ): Promise<{ core: SessionCore; actor: number; holds: Hold[]; end: () => void }> {
    const { spec, signal } = this.#spec(options, overrides, work);
    let { actor } = spec;
    let end = () => {};
    try {
      const core = this.#source();
      const names = spec.locks.map(({ name }) => name);
      if (!actor) {
        ({ actor, end } = partOf(core, names, work !== undefined));
      }
      const wait = spec.wait ?? core.settings.wait;
      const granted = await core.acquire({ ...spec, actor, wait }, signal);
      return { core, actor, holds: granted.map((grant) => new Hold(core, grant)), end };
    } catch (error) {
      end();
      throw acquireFailed(label(spec), error);
    }
  }

  /** Returns what to ask for. Throws an AcquireError if it can't be asked for, before anything is noted. */
  #spec(given: O | undefined, overrides: AcquireOptions, work: unknown) {
    let locks: readonly LockSpec[] = [];
    try {
      checkObject(this.#defaults, "options");
      checkObject(given, "options");
      checkIfBusy((given as WithOptions | undefined)?.ifBusy);
      const options = { ...this.#defaults, ...given, ...overrides };
      locks = this.locks(options);
      const spec = acquireSpec(locks, this.isOfSeveral, options);
      checkLocks(locks);
      if (work !== undefined) {
        checkFunction(work, "work");
      }
      return { spec, signal: options.signal };
    } catch (error) {
      const names = locks.map(({ name }) => shown(name)).join(", ");
      throw acquireFailed(names, error);
    }
  }

  /**
   * Waits for the lock. Rejects with an {@link AcquireError}: `timed_out` if the lock did not come free within the wait, `unavailable` if no
   * coordinator answered within it, `closed` if the session is closed, and otherwise the coordinator's refusal. Without a wait, a lost
   * connection is not an error: the session asks again on the next one.
   */
  async acquire(options?: O): Promise<H> {
    const { holds, end } = await this.#acquire(options);
    end();
    return this.wrap(holds);
  }

  /**
   * Acquires the lock if it is free. Resolves with null if it is not, or if others wait for it. Rejects with `unavailable` if no coordinator
   * can be asked.
   */
  async tryAcquire(options?: Omit<O, "wait">): Promise<H | null> {
    const asked = await this.#acquire(options as O | undefined, { wait: 0 }).catch(unlessBusy);
    asked?.end();
    return asked ? this.wrap(asked.holds) : null;
  }

  /**
   * Acquires the lock, runs the work while holding it, and releases it when the work has ended. The signal given to the work is aborted
   * when the lock is lost, and when that of the options is; `with` then waits for the work to end. While the lock is only suspended, the
   * work goes on, and `hold.check()` tells it not to act.
   *
   * Resolves with the result of the work, and rejects with its error. If the lock was lost before the work was done, it rejects with a
   * {@link LockLostError}, with the work's own error as its `cause` if that says more: the work counts only if it ran under the lock from
   * beginning to end.
   *
   * When the client is being closed, the signal is aborted with a {@link ClosedError}, and the close waits for the work. The result of the
   * work, or its own error, counts even then; work that says only that it was stopped rejects with the `ClosedError`.
   *
   * The work is a flow: what it asks for, it asks for as one {@link Actor}. So a request for a lock that it runs under is refused at once
   * (`self_deadlock`), or granted once more with `reentrant`.
   */
  with<T>(work: Work<H, T>): Promise<T>;
  with<T>(options: O & { ifBusy?: undefined }, work: Work<H, T>): Promise<T>;
  with<T>(options: O & WithOptions, work: Work<H, T>): Promise<T | undefined>;
  async with<T>(
    first: (O & WithOptions) | Work<H, T>,
    second?: Work<H, T>,
  ): Promise<T | undefined> {
    const isWork = typeof first === "function";
    const work = (isWork ? first : second) as Work<H, T>;
    const options = isWork ? undefined : first;
    const isSkipped = options?.ifBusy === "skip";
    const wait = options?.wait ?? this.#defaults?.wait ?? 0;
    const asking = this.#acquire(options, isSkipped ? { wait } : {}, work ?? null);
    const asked = await (isSkipped ? asking.catch(unlessBusy) : asking);
    if (!asked) {
      return undefined;
    }
    const { core, actor, holds, end } = asked;
    const signal = options?.signal ?? this.#defaults.signal;
    const names = holds.map(({ name }) => name);
    const wrapped = this.wrap(holds);
    const body = new Body(core, names, actor, false);
    try {
      return await runUnder(body, holds, signal, (stop) => work(wrapped, stop));
    } finally {
      end();
    }
  }
}

/** Throws the error unless it says that a lock was not free. */
function unlessBusy(error: unknown): undefined {
  if (!(error instanceof AcquireError && (error.kind === "busy" || error.kind === "timed_out"))) {
    throw error;
  }
}

/** Returns what these options ask for. Throws what a coordinator would answer to wrong ones. @internal */
export function acquireSpec(
  locks: readonly LockSpec[],
  isOfSeveral: boolean,
  options: AcquireOptions,
): AcquireSpec {
  const { wait, value, lockDelay, maxHold, actor, reentrant, signal } = options;
  checkTime(wait, "wait", 0, DAY);
  checkTime(lockDelay, "lockDelay", 0);
  checkTime(maxHold, "maxHold", 1000, YEAR);
  checkActor(actor);
  checkFlag(reentrant, "reentrant");
  checkSignal(signal);
  return {
    locks,
    isOfSeveral,
    wait,
    value: bytes(value),
    lockDelay: lockDelay ?? 0,
    maxHold: maxHold ?? 0,
    actor: actor?.number ?? 0,
    isReentrant: reentrant ?? false,
    trace: "",
  };
}

/** Requests for one lock. */
export class Lock extends Requests<LockOptions, Hold> {
  /** Name of the lock. */
  readonly name: string;
  protected readonly isOfSeveral = false;

  /** @internal */
  constructor(source: Source, name: string, defaults: LockOptions) {
    super(source, defaults);
    this.name = name;
  }

  protected override locks({ shared }: LockOptions): readonly LockSpec[] {
    checkFlag(shared, "shared");
    return [lockSpec(this.name, shared ? LockMode.SHARED : LockMode.EXCLUSIVE)];
  }

  protected override wrap(holds: readonly Hold[]): Hold {
    return only(holds);
  }
}

/**
 * Requests for several locks, which are granted all together or not at all. The order of the names does not matter for deadlocks: requests
 * for several names never block one another for good. Errors name all of the locks, with commas in between.
 */
export class Locks extends Requests<AcquireOptions, Holds> {
  readonly #locks: readonly LockRequest[];
  protected readonly isOfSeveral = true;

  /** @internal */
  constructor(source: Source, locks: readonly LockRequest[], defaults: AcquireOptions) {
    super(source, defaults);
    this.#locks = locks;
  }

  protected override locks(): readonly LockSpec[] {
    if (!Array.isArray(this.#locks) || this.#locks.length > MOST_LOCKS) {
      throw invalidField("locks", "must be a list of 1 to 1000 locks");
    }
    return this.#locks.map(specOf);
  }

  protected override wrap(holds: readonly Hold[]): Holds {
    return new Holds(holds);
  }
}

/**
 * Semaphore of one name: it is held by permits, up to a limit. Those who hold or wait for permits agree on one limit, and the coordinator
 * refuses a request with another (`limit_mismatch`), unless it has a revision. Waiters are served in order, so that a request for many
 * permits is not starved by others for few.
 */
export class Semaphore extends Requests<PermitOptions, Hold> {
  /** Name of the semaphore. */
  readonly name: string;
  /** Number of permits that there are. */
  readonly limit: number;
  readonly #limitRevision: number;
  protected readonly isOfSeveral = false;

  /** @internal */
  constructor(source: Source, name: string, limit: number, options: SemaphoreOptions) {
    super(source, options);
    this.name = name;
    this.limit = limit;
    this.#limitRevision = options?.limitRevision ?? 0;
  }

  protected override locks({ permits = 1, atLeast }: PermitOptions): readonly LockSpec[] {
    const { name, limit } = this;
    const limitRevision = this.#limitRevision;
    return [{ name, mode: LockMode.SEMAPHORE, permits, atLeast, limit, limitRevision }];
  }

  protected override wrap(holds: readonly Hold[]): Hold {
    return only(holds);
  }
}

/** Options of a semaphore, and defaults of its requests. */
export interface SemaphoreOptions extends PermitOptions {
  /**
   * Revision of the decision for the limit, for example the number of the deployment that changes it. A request with a greater revision than
   * the one in force replaces the limit at once; one with a smaller revision follows the limit in force. To go back, use a greater revision
   * again. Default: 0.
   */
  limitRevision?: number | undefined;
}

function specOf(request: LockRequest): LockSpec {
  if (typeof request === "string") {
    return lockSpec(request, LockMode.EXCLUSIVE);
  }
  checkObject(request ?? null, "lock");
  if (!("limit" in request)) {
    checkFlag(request.shared, "shared");
    return lockSpec(request.name, request.shared ? LockMode.SHARED : LockMode.EXCLUSIVE);
  }
  const { name, permits, limit, atLeast, limitRevision = 0 } = request;
  return { name, mode: LockMode.SEMAPHORE, permits, atLeast, limit, limitRevision };
}

function only(holds: readonly Hold[]): Hold {
  const [hold] = holds;
  if (!hold) {
    throw new TypeError("a grant has at least one lock");
  }
  return hold;
}
