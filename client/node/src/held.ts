import { inspect } from "node:util";
import { checkSignal } from "./checks";
import { NEVER, now as readClock, since } from "./clock";
import type { SessionCore } from "./core";
import {
  type ClosedError,
  Failure,
  HoldError,
  LockLostError,
  type LockReleasedError,
  LockSuspendedError,
} from "./errors";
import type { ReleaseRequest } from "./lease";
import type { Granted } from "./machine/pending";
import type { State } from "./reason";
import { follow } from "./signals";
import { clearTimeout, setTimeout } from "./timers";

/**
 * Longest time between two looks at the clock. The session looks at the deadline in time; timers of this process may be late, so that the
 * clock is looked at besides.
 */
const LONGEST_SLEEP = 1000;

/** Part that a hold and a leadership have in common. */
export abstract class Held {
  readonly #core: SessionCore;
  readonly #granted: Granted;
  #controller: AbortController | undefined;
  #linked: AbortSignal | undefined;
  #releasing: Promise<boolean> | undefined;

  /** @internal */
  constructor(core: SessionCore, granted: Granted) {
    this.#core = core;
    this.#granted = granted;
  }

  // On the prototype, where neither consoles nor loggers look.
  /** @internal */
  get core(): SessionCore {
    return this.#core;
  }

  /** @internal */
  get granted(): Granted {
    return this.#granted;
  }

  /** Name of the lock. */
  get name(): string {
    return this.granted.lease.name;
  }

  /**
   * Fencing token: greater than that of every earlier grant of this name. Pass it to whatever the lock protects, and let that refuse a
   * smaller token than the largest it has seen: then a holder that was paused and does not know yet that it lost the lock can do no harm.
   */
  get token(): bigint {
    return this.granted.lease.token;
  }

  /** State of the lock, by the clock at this moment. */
  get state(): State {
    return this.granted.lease.stateAt(readClock());
  }

  /** Whether the lock is held, by the clock at this moment. */
  get isHeld(): boolean {
    return this.state === "held";
  }

  /**
   * Throws unless the lock is held: a {@link LockSuspendedError}, {@link LockLostError} or {@link LockReleasedError}. It reads the clock,
   * so that it is right also after the event loop was blocked. Cheap enough to call before every step.
   */
  check(): void {
    const fault = this.granted.lease.fault(readClock());
    if (fault) {
      throw fault;
    }
  }

  /** Error that says why the lock was lost or released; `undefined` while it is held or suspended. Final once it is set. */
  get error(): LockLostError | LockReleasedError | undefined {
    const fault = this.granted.lease.fault(readClock());
    return fault instanceof LockSuspendedError ? undefined : fault;
  }

  /**
   * Signal that is aborted when the lock is lost, with a {@link LockLostError} as its reason, or released, with a
   * {@link LockReleasedError}. Within `with` and `run` it is also aborted when the work is told to stop for another reason: with that of the
   * signal that was given there, with a {@link ClosedError} when the client is being closed, or with the loss of another lock that the work
   * runs under. While the lock is only suspended it is not aborted.
   */
  get signal(): AbortSignal {
    if (!this.#controller) {
      const controller = new AbortController();
      this.#controller = controller;
      this.onEnd((error) => controller.abort(error));
      follow(controller, this.#linked);
    }
    return this.#controller.signal;
  }

  /** Calls the function when the lock is lost or released, unless the returned one is called before. @internal */
  onEnd(call: (error: LockLostError | LockReleasedError) => void): () => void {
    const look = () => {
      const { error } = this;
      if (error) {
        stop();
        call(error);
      }
    };
    const stop = this.granted.lease.onChange(look);
    look();
    return stop;
  }

  /** Aborts the signal of the lock with this one too. @internal */
  link(signal: AbortSignal): void {
    this.#linked = signal;
    if (this.#controller) {
      follow(this.#controller, signal);
    }
  }

  /**
   * Waits until the state differs from the given one, by default the present one, and returns the new state. Rejects with the reason of the
   * signal if that is aborted first.
   */
  async changed(from: State = this.state, options: { signal?: AbortSignal } = {}): Promise<State> {
    this.checked(() => checkSignal(options.signal));
    for (;;) {
      const { state } = this;
      if (state !== from) {
        return state;
      }
      await this.#news(options.signal);
    }
  }

  /** Waits for a change of the lease, or for a while. */
  #news(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const end = () => {
        stop();
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      const wake = () => {
        end();
        resolve();
      };
      const abort = () => {
        end();
        reject(signal?.reason);
      };
      const stop = this.granted.lease.onChange(wake);
      const timer = setTimeout(wake, LONGEST_SLEEP);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }

  /** Milliseconds left until the lock is lost unless a heartbeat is answered before; 0 while it is not held. */
  get validFor(): number {
    const now = readClock();
    const { lease } = this.granted;
    return lease.stateAt(now) === "held" ? since(lease.alive(now) ?? now, now) : 0;
  }

  /**
   * Milliseconds left until the lock is lost, held or suspended, unless a coordinator answers before; 0 once it is lost. Use it for work
   * that continues during a suspension and must end with the loss.
   */
  get lostIn(): number {
    const now = readClock();
    return since(this.granted.lease.alive(now) ?? now, now);
  }

  /**
   * Milliseconds left until the lock ends because it may be held no longer (`maxHold`), whatever is answered; `undefined` if it has no such
   * bound.
   */
  get endsIn(): number | undefined {
    const { endsAt } = this.granted.lease;
    if (endsAt === NEVER) {
      return undefined;
    }
    return this.error ? 0 : since(endsAt, readClock());
  }

  /** Last request of an operator to release the lock. Nothing happens if it is not heeded. */
  get releaseRequest(): ReleaseRequest | undefined {
    return this.granted.lease.request;
  }

  /**
   * Waits until an operator asks for the release of the lock, at once if one did before. Resolves with `undefined` when the lock is lost or
   * released. Rejects with the reason of the signal if that is aborted first.
   */
  async releaseRequested(
    options: { signal?: AbortSignal } = {},
  ): Promise<ReleaseRequest | undefined> {
    this.checked(() => checkSignal(options.signal));
    while (!this.error) {
      if (this.releaseRequest) {
        return this.releaseRequest;
      }
      await this.#news(options.signal);
    }
    return undefined;
  }

  /** Waits while the lock is suspended. Returns the loss if it is lost then. @internal */
  async settled(): Promise<LockLostError | undefined> {
    await this.changed("suspended");
    const { error } = this;
    return error instanceof LockLostError ? error : undefined;
  }

  /** Returns what checked arguments come to. Throws a HoldError if they are wrong. */
  protected checked<T>(check: () => T): T {
    try {
      return check();
    } catch (error) {
      throw error instanceof Failure ? new HoldError(this.name, "invalid", error) : error;
    }
  }

  /** Returns the name, the token and the state, as a console and `JSON.stringify` show them too. */
  toString(): string {
    return `lock ${JSON.stringify(this.name)} (token ${this.token}, ${this.state})`;
  }

  /** @internal */
  [inspect.custom](): string {
    return this.toString();
  }

  /** Returns what identifies the hold, with the token as text. */
  toJSON(): { lock: string; token: string; state: State } {
    return { lock: this.name, token: `${this.token}`, state: this.state };
  }

  /** Gives the lock back, once. */
  protected giveUp(): Promise<boolean> {
    this.#releasing ??= this.core.release(this.granted);
    return this.#releasing;
  }

  /** Gives the lock back, for what runs under it. @internal */
  abstract end(): Promise<boolean>;
}
