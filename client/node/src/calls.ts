/**
 * Calls of a client that need no session: single calls, and streams of events. All go to one coordinator, until that can't be reached or
 * its connection breaks; then to the next.
 *
 * @module
 */

import {
  type ClientReadableStream,
  status as Code,
  type Client as Connection,
  connectivityState as ConnectivityState,
  type StatusObject,
} from "@grpc/grpc-js";
import { type Moment, now as readClock } from "./clock";
import type { Endpoint } from "./endpoints";
import { ClosedError, Failure } from "./errors";
import { endedFailure, failureFrom, timedOut } from "./failure";
import type { Method } from "./methods";
import { propagated, type Settings } from "./options";
import { Pauses, sleep } from "./pauses";
import { connection, ready } from "./transport";

/** Longest time for one call. */
const CALL_TIMEOUT = 10_000;
/** The most messages of a stream of events that may lie here unread; the coordinator keeps the rest. */
const UNREAD = 64;

/**
 * Rule for repeating a call at the next coordinator: `freely`, because the call changes nothing, or only if it is `unsent`, because it was
 * not carried out.
 */
export type Repeats = "freely" | "unsent";

/** Options of one call. */
export interface CallOptions {
  readonly repeats: Repeats;
  readonly signal?: AbortSignal | undefined;
  /** Longest time for the call, in milliseconds. */
  readonly timeout?: number;
}

/** Answer to a call, and when the call was sent. */
export interface Answer<T> {
  readonly answer: T;
  readonly sentAt: Moment;
}

/** Connection that several calls use. */
interface Shared {
  readonly connection: Connection;
  readonly endpoint: Endpoint;
  readonly certificates: number;
  users: number;
  /** Whether another one takes its place: it is closed after its last use. */
  isOld: boolean;
}

export class Calls {
  readonly #settings: Settings;
  /** Number of times that the calls have moved on; modulo the number of endpoints, the one in use. */
  #moved: number;
  readonly #made = new Map<string, Shared>();
  #isClosed = false;
  readonly #closing = new AbortController();

  constructor(settings: Settings) {
    this.#settings = settings;
    // Each client begins at a random one, so that many clients spread over all coordinators.
    this.#moved = Math.floor(Math.random() * settings.endpoints.length);
  }

  get settings(): Settings {
    return this.#settings;
  }

  /** Returns the connection to the coordinator in use. */
  #use(purpose: "calls" | "watching"): Shared {
    if (this.#isClosed) {
      throw new ClosedError("the client was closed");
    }
    const { endpoints, credentials } = this.#settings;
    const { certificates } = credentials;
    for (const [key, shared] of this.#made) {
      // One that failed pauses before its next attempt, for longer and longer. A call that comes now is to find out now.
      const state = shared.connection.getChannel().getConnectivityState(false);
      if (shared.certificates !== certificates || state === ConnectivityState.TRANSIENT_FAILURE) {
        this.#made.delete(key);
        shared.isOld = true;
        closeIfUnused(shared);
      }
    }
    const endpoint = endpoints[this.#moved % endpoints.length] as Endpoint;
    const key = `${purpose} ${endpoint.url}`;
    let shared = this.#made.get(key);
    if (!shared) {
      const made = connection(this.#settings, endpoint, purpose);
      shared = { connection: made, endpoint, certificates, users: 0, isOld: false };
      this.#made.set(key, shared);
    }
    shared.users++;
    return shared;
  }

  #done(shared: Shared): void {
    shared.users--;
    closeIfUnused(shared);
  }

  /** Sends later calls to the next coordinator, because the connection of one failed that began when they had moved on so often. */
  #moveOn(moved: number, failure: Failure): void {
    // Another call may have moved them on already.
    if (this.#moved === moved && this.#settings.endpoints.length > 1) {
      this.#moved++;
      this.#settings.log.debug(`calls go to the next coordinator: ${failure.message}`);
    }
  }

  /** Ends all calls. */
  close(): void {
    this.#isClosed = true;
    this.#closing.abort();
    for (const { connection } of this.#made.values()) {
      connection.close();
    }
    this.#made.clear();
  }

  /** Makes a call, at the next coordinator if the connection to one fails. */
  async call<Q, A>(method: Method<Q, A>, request: Q, options: CallOptions): Promise<Answer<A>> {
    for (let left = this.#settings.endpoints.length; ; left--) {
      options.signal?.throwIfAborted();
      const answered = await this.#callOnce(method, request, options);
      options.signal?.throwIfAborted();
      if (!(answered instanceof Failure)) {
        return answered;
      }
      const mayRepeat = options.repeats === "freely" || answered.isUnsent || answered.isDraining;
      if (left <= 1 || !mayRepeat || !(answered.isTransport || answered.isDraining)) {
        throw answered;
      }
    }
  }

  async #callOnce<Q, A>(
    { path, encode, decode }: Method<Q, A>,
    request: Q,
    { signal, timeout = CALL_TIMEOUT }: CallOptions,
  ): Promise<Answer<A> | Failure> {
    const moved = this.#moved;
    const shared = this.#use("calls");
    const { connection, endpoint } = shared;
    try {
      const deadline = Date.now() + timeout;
      let failure = await ready(connection, endpoint.url, Math.min(timeout, CALL_TIMEOUT), signal);
      if (!failure && signal?.aborted) {
        failure = timedOut(endpoint.url);
      }
      if (!failure) {
        // Before it is sent: a hold never counts for longer than in the store.
        const sentAt = readClock();
        const metadata = this.#settings.credentials.metadata(propagated(this.#settings));
        const answered = await new Promise<Answer<A> | Failure>((resolve) => {
          let answer: A | undefined;
          const call = connection.makeUnaryRequest(
            path,
            encode,
            decode,
            request,
            metadata,
            { deadline },
            (_error, value) => {
              answer = value;
            },
          );
          const cancel = () => call.cancel();
          signal?.addEventListener("abort", cancel, { once: true });
          call.on("status", (status: StatusObject) => {
            signal?.removeEventListener("abort", cancel);
            resolve(
              status.code === Code.OK && answer !== undefined
                ? { answer, sentAt }
                : failureFrom(endpoint.url, status),
            );
          });
        });
        if (!(answered instanceof Failure)) {
          return answered;
        }
        failure = answered;
      }
      if (!signal?.aborted && (failure.isTransport || failure.isDraining)) {
        this.#moveOn(moved, failure);
      }
      return failure;
    } finally {
      this.#done(shared);
    }
  }

  /**
   * Yields the messages of a stream of events that outlives its connections and the coordinators that serve it: it is opened again whenever
   * it ends. Yields a failure after each break. Throws the failure when a coordinator refuses the stream for good, and the signal's reason
   * when that is aborted.
   */
  async *feed<Q, A extends object>(
    method: Method<Q, A>,
    request: Q,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<A | Failure, never> {
    const { backoff, log } = this.#settings;
    const pauses = new Pauses(backoff.least, backoff.most);
    const end = new AbortController();
    const abort = () => end.abort();
    const signals = signal ? [signal, this.#closing.signal] : [this.#closing.signal];
    for (const one of signals) {
      one.addEventListener("abort", abort);
    }
    try {
      for (;;) {
        signal?.throwIfAborted();
        const broken = yield* this.#feedOnce(method, request, pauses, end.signal);
        signal?.throwIfAborted();
        if (this.#isClosed) {
          throw new ClosedError("the client was closed");
        }
        // A client that received messages was known, and may be again with a token that was replaced meanwhile.
        const mayBeKnown = broken.failure.isUnauthenticated && broken.wasHeard;
        if (isPermanent(broken.failure) && !mayBeKnown) {
          throw broken.failure;
        }
        log.debug(`a stream of events broke: ${broken.failure.message}`);
        yield broken.failure;
        await sleep(pauses.pauseAsAsked(readClock(), broken.failure.retryAfter), end.signal);
      }
    } finally {
      for (const one of signals) {
        one.removeEventListener("abort", abort);
      }
    }
  }

  /** Yields the messages of one stream. Returns why it ended. */
  async *#feedOnce<Q, A extends object>(
    { path, encode, decode }: Method<Q, A>,
    request: Q,
    pauses: Pauses,
    signal: AbortSignal,
  ): AsyncGenerator<A, { failure: Failure; wasHeard: boolean }> {
    const moved = this.#moved;
    const shared = this.#use("watching");
    const { connection, endpoint } = shared;
    let call: ClientReadableStream<A> | undefined;
    const cancel = () => call?.cancel();
    signal.addEventListener("abort", cancel);
    let wasHeard = false;
    try {
      let failure = await ready(connection, endpoint.url, CALL_TIMEOUT, signal);
      if (!failure) {
        const metadata = this.#settings.credentials.metadata(propagated(this.#settings));
        call = connection.makeServerStreamRequest(path, encode, decode, request, metadata);
        const messages = new Messages(call);
        for (;;) {
          const message = signal.aborted ? undefined : await messages.next();
          if (message === undefined) {
            break;
          }
          if (!wasHeard) {
            pauses.opened(readClock());
          }
          wasHeard = true;
          yield message;
        }
        const { status } = messages;
        failure =
          status && status.code !== Code.OK
            ? failureFrom(endpoint.url, status)
            : endedFailure(endpoint.url);
      }
      if (!signal.aborted) {
        // Another coordinator may serve this stream too.
        this.#moveOn(moved, failure);
      }
      return { failure, wasHeard };
    } finally {
      signal.removeEventListener("abort", cancel);
      call?.cancel();
      this.#done(shared);
    }
  }
}

/** Messages of a stream of events, in order, and its end. */
class Messages<A> {
  status: StatusObject | undefined;
  readonly #call: ClientReadableStream<A>;
  readonly #queue: A[] = [];
  #wake: (() => void) | undefined;

  constructor(call: ClientReadableStream<A>) {
    this.#call = call;
    call.on("data", (message: A) => {
      this.#queue.push(message);
      if (this.#queue.length >= UNREAD) {
        call.pause();
      }
      this.#wake?.();
    });
    // The status says the same.
    call.on("error", () => undefined);
    call.on("status", (status: StatusObject) => {
      this.status = status;
      this.#wake?.();
    });
  }

  /** Waits for the next message; nothing after the end. */
  async next(): Promise<A | undefined> {
    while (this.#queue.length === 0) {
      if (this.status) {
        return undefined;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const message = this.#queue.shift();
    if (this.#queue.length === 0) {
      this.#call.resume();
    }
    return message;
  }
}

function closeIfUnused(shared: Shared): void {
  if (shared.isOld && shared.users === 0) {
    shared.connection.close();
  }
}

/**
 * Returns whether asking again would be answered in the same way. What a broken transport says is none of these, and neither is anything
 * that a coordinator says while it, or its store, is in trouble.
 */
function isPermanent(failure: Failure): boolean {
  if (failure.isTransport) {
    return failure.isDistrust;
  }
  return [
    Code.INVALID_ARGUMENT,
    Code.NOT_FOUND,
    Code.ALREADY_EXISTS,
    Code.PERMISSION_DENIED,
    Code.UNAUTHENTICATED,
    Code.FAILED_PRECONDITION,
    Code.OUT_OF_RANGE,
    Code.UNIMPLEMENTED,
  ].includes(failure.code);
}
