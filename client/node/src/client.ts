import { Admin } from "./admin";
import { Calls } from "./calls";
import { checkObject, checkSignal, shown } from "./checks";
import { now as readClock } from "./clock";
import type { SessionCore } from "./core";
import { DetachedLock, type DetachedOptions, DetachedRequest } from "./detached";
import { Entry } from "./entry";
import { acquireFailed, atCaller, ClosedError } from "./errors";
import type { ClientEvents } from "./events";
import {
  asSetting,
  type ClientOptions,
  checkSession,
  newSettings,
  type SessionOptions,
} from "./options";
import { type CloseOptions, checkClose, Session } from "./session";

/**
 * Client of the coordinators of one service. It has one session, made on first use and shared by everything that is asked of the client
 * itself, and as many more as `newSession` makes. Make one for a program, and close it at the end: an open session keeps the process alive.
 */
export class Client extends Entry implements AsyncDisposable {
  readonly #options: ClientOptions;
  readonly #calls: Calls;
  readonly #sessions = new Set<Session>();
  /** The client's own session. */
  #shared: Session | undefined;
  #isClosed = false;

  /**
   * Makes a client of the coordinators at these URLs: a list, or one string with commas in between. A name may stand for several
   * coordinators: each address that it resolves to is one. A URL without a scheme is an http URL, and the port is 7420 unless it names one.
   *
   * It connects to nothing: the client's session is made in the background when it is first used, and again whenever it ends. Throws a
   * {@link SettingsError} if the URLs or the options can't be used.
   */
  constructor(endpoints: string | readonly string[], options: ClientOptions = {}) {
    const calls = new Calls(newSettings(endpoints, options));
    super(() => this.#own(), calls);
    this.#options = options;
    this.#calls = calls;
  }

  #own(): SessionCore {
    return this.session.core;
  }

  /** Session of the client itself, which it makes if it was not used before. Throws a {@link ClosedError} once the client is closed. */
  get session(): Session {
    this.#mustBeOpen();
    if (!this.#shared || this.#shared.core.loop.isOver) {
      this.#shared = this.#keep(Session.begin(this.#calls, this.#options, false));
    }
    return this.#shared;
  }

  #mustBeOpen(): void {
    if (this.#isClosed) {
      throw new ClosedError("the client was closed");
    }
  }

  #keep(session: Session): Session {
    this.#sessions.add(session);
    void session.core.loop.ended.then(() => this.#sessions.delete(session));
    return session;
  }

  /**
   * Opens a further session, on a connection of its own, with the client's options and these. Rejects with a {@link ConnectError} if no
   * coordinator opens it: each is attempted once. A session that has been open is made anew by itself. Close it when it is not needed any
   * more.
   */
  async newSession(
    options: SessionOptions & { signal?: AbortSignal | undefined } = {},
  ): Promise<Session> {
    this.#mustBeOpen();
    checkSession(options);
    const { signal, ...set } = options;
    asSetting(() => checkSignal(signal));
    signal?.throwIfAborted();
    const session = this.#keep(Session.begin(this.#calls, { ...this.#options, ...set }, true));
    const abort = () => void session.close();
    signal?.addEventListener("abort", abort, { once: true });
    try {
      await session.core.loop.opened;
    } catch (error) {
      signal?.throwIfAborted();
      throw atCaller(error);
    } finally {
      signal?.removeEventListener("abort", abort);
    }
    return session;
  }

  /** Opens the client's own session, for `connect`. @internal */
  async open(signal: AbortSignal | undefined): Promise<void> {
    this.#shared = await this.newSession({ signal });
  }

  /**
   * Requests a lock of this name that no session holds: nobody renews it but `DetachedLock.renew`, and it outlives this process until its
   * TTL has passed. Use it for a hold that must survive a restart, or that another process ends. For anything else `lock` is safer: its
   * locks end with the process and last for as long as the work.
   */
  detachedLock(name: string, options: DetachedOptions = {}): DetachedRequest {
    try {
      checkObject(options ?? null, "options");
    } catch (error) {
      throw acquireFailed(shown(name), error);
    }
    const { clientName = this.#options.clientName } = options;
    return new DetachedRequest(this.#calls, name, { ...options, clientName });
  }

  /**
   * Takes up a detached lock by the owner id that its grant gave, perhaps to another process: as it is, or in the text form of
   * `DetachedLock.serialize`. Asks nobody: the lock counts as not held before `DetachedLock.renew` has found that it is, and the token is
   * taken as it is given.
   */
  attachDetachedLock(
    name: string,
    token: bigint | string,
    ownerId: Uint8Array | string,
    { ttl }: { ttl?: number | undefined } = {},
  ): DetachedLock {
    return new DetachedLock(this.#calls, name, token, ownerId, ttl, readClock());
  }

  /** Part that looks at locks and sessions, and intervenes. */
  get admin(): Admin {
    return new Admin(this.#calls);
  }

  /** Events of the client: its connections, and what becomes of its locks. */
  get events(): ClientEvents {
    return this.#calls.settings.events;
  }

  /**
   * Signal that is aborted when `close` is called, with a {@link ClosedError}: for work that gets no signal, such as that of schedulers, and
   * what runs under locks that `acquire` returned.
   */
  get closing(): AbortSignal {
    return this.#calls.retired;
  }

  /** @internal */
  get calls(): Calls {
    return this.#calls;
  }

  /**
   * Closes all sessions, as {@link Session.close} does, and then all connections: from the call on nothing can be acquired, running work is
   * told to stop, and the close waits for it. Detached locks stay. All calls are one close.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { closeTimeout, log } = this.#calls.settings;
    const timeout = checkClose(options) ?? closeTimeout;
    this.#isClosed = true;
    this.#calls.retire();
    const sessions = [...this.#sessions].map((session) => session.close({ timeout }));
    await Promise.all([this.#calls.works.close(timeout, log), ...sessions]);
    this.#calls.close();
  }

  /** Closes the client, at the end of the block of `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Makes a client and opens its session. Rejects with a {@link ConnectError} if no coordinator opens it: each is attempted once.
 */
export async function connect(
  endpoints: string | readonly string[],
  options: ClientOptions & { signal?: AbortSignal | undefined } = {},
): Promise<Client> {
  checkSession(options);
  const { signal, ...set } = options;
  asSetting(() => checkSignal(signal));
  const client = new Client(endpoints, set);
  try {
    await client.open(signal);
  } catch (error) {
    await client.close();
    throw error;
  }
  return client;
}
