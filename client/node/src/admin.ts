import type { Calls, Repeats } from "./calls";
import {
  checkName,
  checkObject,
  checkPrefix,
  checkSignal,
  checkText,
  checkTime,
  checkToken,
  DAY,
} from "./checks";
import type { SignalOptions } from "./election";
import { Failure } from "./errors";
import {
  CHECK_TOKEN,
  END_SESSION,
  FORCE_RELEASE,
  GET_LOCK,
  GET_STATUS,
  LIST_LOCKS,
  LIST_SESSIONS,
  type Method,
  REQUEST_RELEASE,
  WATCH_LOCKS,
} from "./methods";
import {
  eventOf,
  type LockEvent,
  type LockView,
  lockOf,
  type SessionView,
  type Status,
  sessionOf,
  statusOf,
} from "./views";
import { toDuration } from "./wire";

/**
 * Item of {@link Admin.watch}:
 *
 * - `lock`: part of a snapshot, a lock that is held, closed or waited for. It replaces any earlier state of its name.
 * - `ready`: the snapshot is complete: locks that were not in it are free.
 * - `event`: something that happened.
 * - `gap`: events were missed, with a message for people: forget the state of all locks. A snapshot follows.
 */
export type WatchItem =
  | { readonly kind: "lock"; readonly lock: LockView }
  | { readonly kind: "ready" }
  | { readonly kind: "event"; readonly event: LockEvent }
  | { readonly kind: "gap"; readonly message: string };

/** Choice of one holder or waiter of a lock. */
export type Only = { readonly token: bigint } | { readonly waiterNumber: bigint };

/** Looks at locks and sessions, and intervenes. Its calls need no session. Each ends after ten seconds if no coordinator answers. */
export class Admin {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /**
   * Yields all locks whose names begin with the prefix, without their waiters. A scan: unordered, and it may miss locks that come or go
   * meanwhile.
   */
  async *listLocks(
    prefix = "",
    options: SignalOptions = {},
  ): AsyncGenerator<LockView, void, undefined> {
    checkPrefix(prefix);
    let pageToken = "";
    do {
      const page = await this.#ask(LIST_LOCKS, { prefix, pageToken }, options);
      yield* page.locks.map(lockOf);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** Yields the sessions of the coordinator that answers, in the order of their ids. */
  async *listSessions(options: SignalOptions = {}): AsyncGenerator<SessionView, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.#ask(LIST_SESSIONS, { pageToken }, options);
      yield* page.sessions.map(sessionOf);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /** Returns the view of one lock: holders, token, TTL left, waiters in order. A free name is shown as free, not as an error. */
  async getLock(name: string, options: SignalOptions = {}): Promise<LockView> {
    checkName(name);
    const { lock } = await this.#ask(GET_LOCK, { name }, options);
    if (!lock) {
      throw new TypeError("the coordinator answered without a lock");
    }
    return lockOf(lock);
  }

  /**
   * Takes a lock from all its holders, or from one, or ends one wait: notifies them, raises the token, and grants the next waiter. A waiter's
   * acquire fails with `force_released`. Resolves with false if there was nobody.
   */
  async forceRelease(name: string, only?: Only, options: SignalOptions = {}): Promise<boolean> {
    checkName(name);
    checkObject(only, "only");
    if (only) {
      checkToken("token" in only ? only.token : only.waiterNumber, "only");
    }
    const one =
      only && "token" in only
        ? ({ case: "fencingToken", value: only.token } as const)
        : ({ case: "waiterNumber", value: only?.waiterNumber ?? 0n } as const);
    const request = { name, ...(only && { only: one }) };
    return (await this.#ask(FORCE_RELEASE, request, options, "unsent")).released;
  }

  /**
   * Asks the holders of a lock to release it, or the one with this token, with a reason for people and the time that they have in
   * milliseconds: 1 s to 24 h. It changes nothing about the lock. Returns how many holds were asked.
   */
  async requestRelease(
    name: string,
    options: { token?: bigint; reason?: string; within?: number } & SignalOptions = {},
  ): Promise<number> {
    const { token = 0n, reason = "", within } = options;
    checkName(name);
    checkToken(token);
    checkText(reason, "reason");
    checkTime(within, "within", 1000, DAY);
    const request = {
      name,
      fencingToken: token,
      reason,
      ...(within ? { within: toDuration(within) } : {}),
    };
    return (await this.#ask(REQUEST_RELEASE, request, options, "unsent")).askedCount;
  }

  /**
   * Ends a session, at whichever coordinator it is: takes all its locks from it, ends its waits and its stream, and tells its client. The id
   * is as listings show it. If the call fails, the session may yet end: ask again.
   */
  async endSession(
    sessionId: string,
    options: SignalOptions = {},
  ): Promise<{ ended: boolean; sessionCount: number; holdCount: number; waiterCount: number }> {
    checkName(sessionId, "sessionId");
    const answer = await this.#ask(END_SESSION, { sessionId }, options, "unsent");
    const { ended, sessionCount, holdCount, waiterCount } = answer;
    return { ended, sessionCount, holdCount, waiterCount };
  }

  /** Returns whether a fencing token is still the newest of its name, and the newest on record; 0 if none is. */
  async checkToken(
    name: string,
    token: bigint,
    options: SignalOptions = {},
  ): Promise<{ isCurrent: boolean; newest: bigint }> {
    checkName(name);
    checkToken(token);
    const answer = await this.#ask(CHECK_TOKEN, { name, fencingToken: token }, options);
    return { isCurrent: answer.current, newest: answer.newestToken };
  }

  /** Returns the status of the coordinator that answers. It answers from memory, even if it cannot reach the store. */
  async status(options: SignalOptions = {}): Promise<Status> {
    return statusOf(await this.#ask(GET_STATUS, {}, options));
  }

  /**
   * Yields what happens to all locks whose names begin with the prefix, over all coordinators: first a snapshot, then every event, until the
   * loop ends or the signal is aborted. Read it all the time: the coordinator keeps back what is not read, and drops it after a while, which
   * is a gap.
   *
   * If the connection breaks or the coordinator goes away, it yields a gap and asks again, for as long as it takes. It throws if the
   * coordinator refuses to be watched.
   */
  async *watch(
    prefix = "",
    { signal }: SignalOptions = {},
  ): AsyncGenerator<WatchItem, void, undefined> {
    checkPrefix(prefix);
    checkSignal(signal);
    // One gap for each outage: there is nothing to forget twice.
    let hasTold = false;
    for await (const told of this.#calls.feed(WATCH_LOCKS, { prefix }, signal)) {
      if (told instanceof Failure) {
        if (hasTold) {
          hasTold = false;
          yield { kind: "gap", message: `the stream broke: ${told.message}` };
        }
        continue;
      }
      const { response } = told;
      hasTold = response.case !== undefined && response.case !== "gap";
      switch (response.case) {
        case "lock":
          yield { kind: "lock", lock: lockOf(response.value) };
          break;
        case "ready":
          yield { kind: "ready" };
          break;
        case "event":
          yield { kind: "event", event: eventOf(response.value) };
          break;
        case "gap":
          yield {
            kind: "gap",
            message: response.value.message || "the coordinator could not keep up",
          };
          break;
        default:
        // What a newer coordinator says besides is not for this client.
      }
    }
  }

  async #ask<Q, A>(
    method: Method<Q, A>,
    request: Q,
    { signal }: SignalOptions,
    repeats: Repeats = "freely",
  ): Promise<A> {
    checkSignal(signal);
    return (await this.#calls.call(method, () => request, { repeats, signal })).answer;
  }
}
