import type { Calls } from "./calls";
import { Election, type ElectionOptions } from "./election";
import {
  type AcquireOptions,
  Lock,
  type LockOptions,
  type LockRequest,
  Locks,
  Semaphore,
  type SemaphoreOptions,
  type Source,
} from "./locks";

/** Methods by which clients and sessions begin requests. */
export abstract class Entry {
  readonly #source: Source;
  readonly #calls: Calls;

  /** @internal */
  constructor(source: Source, calls: Calls) {
    this.#source = source;
    this.#calls = calls;
  }

  /** Requests the lock of this name: 1 to 512 bytes of UTF-8 without control characters, matched whole. */
  lock(name: string, options: LockOptions = {}): Lock {
    return new Lock(this.#source, name, options);
  }

  /**
   * Requests several locks, all together or none: 1 to 64 of different names, unless the coordinator takes more or fewer. A name alone
   * stands for an exclusive hold.
   */
  locks(locks: readonly LockRequest[], options: AcquireOptions = {}): Locks {
    return new Locks(this.#source, locks, options);
  }

  /** Returns the semaphore of this name with so many permits: 1 to 1000000. */
  semaphore(name: string, limit: number, options: SemaphoreOptions = {}): Semaphore {
    return new Semaphore(this.#source, name, limit, options);
  }

  /**
   * Returns the election of this name. It is the exclusive lock of that name: the leader is its holder, the candidates are its waiters in
   * order, and the value is that of the hold.
   */
  election(name: string, options: ElectionOptions = {}): Election {
    return new Election(this.#source, this.#calls, name, options);
  }
}
