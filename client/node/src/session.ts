import type { Calls } from "./calls";
import { checkTime, DAY } from "./checks";
import { NEVER, now as readClock, since } from "./clock";
import { SessionCore } from "./core";
import { Entry } from "./entry";
import type { SessionInfo } from "./machine/stream";
import { asSetting, type SessionOptions } from "./options";

/** Options of a close. */
export interface CloseOptions {
  /** Longest time to wait for work that runs, in milliseconds; 0 means not to wait. Default: the client's `closeTimeout`. */
  timeout?: number | undefined;
}

/** Returns the bound of a close. Throws a SettingsError if it can't be used. @internal */
export function checkClose({ timeout }: CloseOptions): number | undefined {
  asSetting(() => checkTime(timeout, "timeout", 0, DAY));
  return timeout;
}

/**
 * Lease stream, through which a client holds locks for as long as the stream lives.
 *
 * When its coordinator is about to go away, or falls silent, the session moves to another one, and takes along what it holds and waits for.
 * When its coordinator asks it to move and goes on serving, it stays where it is until another stream is open.
 * When its coordinator stops before that, holds stay held until their own deadlines, and the session resumes them on the first coordinator
 * that it reaches. When its stream breaks, every lock of it is lost at once, or suspended if it has a grace, and the session is made anew in
 * the background; acquires that were waiting go on waiting, in their old place where that still stands. Locks are never re-taken by
 * themselves.
 */
export class Session extends Entry implements AsyncDisposable {
  readonly #core: SessionCore;

  private constructor(core: SessionCore, calls: Calls) {
    super(() => core, calls);
    this.#core = core;
  }

  /** Makes a session and begins to connect. If it must open, it ends when no coordinator of the first round opens it. @internal */
  static begin(calls: Calls, options: SessionOptions, mustOpen: boolean): Session {
    return new Session(new SessionCore(calls.settings, options, mustOpen), calls);
  }

  /** @internal */
  get core(): SessionCore {
    return this.#core;
  }

  /** Description of the session; `undefined` while it is not open. */
  get info(): SessionInfo | undefined {
    return this.#core.loop.info;
  }

  /**
   * Milliseconds left until the coordinator goes away; `undefined` if it has not said that it will. Nothing needs to be done about it: the
   * session moves to another coordinator by itself, with all that it holds and waits for.
   */
  get drainsIn(): number | undefined {
    const { drainsAt } = this.#core.loop;
    return drainsAt === NEVER ? undefined : since(drainsAt, readClock());
  }

  /**
   * Closes the session. Its acquires fail with `closed`, and the work of `with` and `run` is told to stop, by its signal. The session renews
   * their locks until they have ended, for at most `timeout` milliseconds: by default the client's `closeTimeout`, 10 s; 0 means not to wait.
   * After that it logs a warning that names the locks of work that still runs.
   *
   * Then what it still holds is lost (with `session_closed`), at once if nothing runs under it, and the coordinator hands it to the next
   * waiters. Resolves when that is confirmed, or after a few seconds. A close waits for no work that calls it itself. All calls are one
   * close.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#core.close(checkClose(options));
  }

  /** Closes the session, at the end of the block of `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
