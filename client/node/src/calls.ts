/**
 * Calls of a client that need no session: single calls, and streams of events. All go to one address of a coordinator, until that can't be
 * reached, goes away, or its connection breaks; then to another one.
 *
 * @module
 */

import { setMaxListeners } from "node:events";
import {
  type ClientReadableStream,
  status as Code,
  type Client as Connection,
  connectivityState as ConnectivityState,
  type StatusObject,
} from "@grpc/grpc-js";
import { after, type Moment, now as readClock, since } from "./clock";
import { type Candidate, findAll, keyOf } from "./endpoints";
import { ClosedError, Failure } from "./errors";
import { endedFailure, failureFrom, timedOut } from "./failure";
import type { Method } from "./methods";
import { propagated, type Settings } from "./options";
import { Pauses, sleep } from "./pauses";
import { Route } from "./route";
import { Works } from "./running";
import { follow } from "./signals";
import { connect, ready, unary } from "./transport";

/** Longest time for one call, besides the wait that it asks for. */
const CALL_TIMEOUT = 10_000;
/** The most messages of a stream of events that may lie here unread; the coordinator keeps the rest. */
const UNREAD = 64;

/**
 * Rule for repeating a call at another address: `freely`, because it does no more if it is carried out twice, or only if it is `unsent`,
 * because it was not carried out.
 */
export type Repeats = "freely" | "unsent";

/** Options of one call. Times are in milliseconds. */
export interface CallOptions {
  readonly repeats: Repeats;
  readonly signal?: AbortSignal | undefined;
  /** Time that the coordinator may take besides. */
  readonly wait?: number;
  /** Moment until which the call is repeated when every address has failed in a way that may pass. */
  readonly until?: Moment;
}

/** Answer to a call. */
export interface Answer<T> {
  readonly answer: T;
  /** Moment at which the request that it answers was sent. */
  readonly sentAt: Moment;
  /** Whether an earlier request may have been carried out. */
  readonly isRepeat: boolean;
}

/** Connection that several calls use. */
interface Shared {
  readonly connection: Connection;
  readonly candidate: Candidate;
  readonly certificates: number;
  users: number;
  /** Whether another one takes its place: it is closed after its last use. */
  isOld: boolean;
}

/** Purpose of a connection. */
type Purpose = "calls" | "watching";

/** State of a call that is made until an address answers. */
interface Call<Q, A> {
  readonly method: Method<Q, A>;
  readonly request: () => Q;
  readonly options: CallOptions;
  readonly waitEnds: Moment;
  readonly end: Moment;
  /** Whether a request had no answer, and may have been carried out. */
  isRepeat: boolean;
  /** Whether something failed that may pass. */
  mayPass: boolean;
}

export class Calls {
  readonly #settings: Settings;
  /** Works that a close of the client waits for, and that have no session. */
  readonly works = new Works();
  readonly #route: Route;
  /** Where calls go; none before the first, and after a failure. */
  #present: Candidate | undefined;
  /** Number of addresses that were found the last time. */
  #found = 1;
  readonly #made = new Map<string, Shared>();
  #isClosed = false;
  readonly #closing = new AbortController();
  readonly #retiring = new AbortController();

  constructor(settings: Settings) {
    this.#settings = settings;
    // As many listeners as there are calls.
    setMaxListeners(0, this.#closing.signal, this.#retiring.signal);
    this.#route = new Route(settings.endpoints.length, Math.random);
  }

  get settings(): Settings {
    return this.#settings;
  }

  #mustBeOpen(): void {
    if (this.#isClosed) {
      throw new ClosedError("the client was closed");
    }
  }

  /**
   * Chooses the address for this call and later ones, none of these. Returns nothing if there is no other, and the failure if no name has an
   * address.
   */
  async #choose(tried: ReadonlySet<string> = new Set()): Promise<Candidate | Failure | undefined> {
    const isTried = (candidate: Candidate) => tried.has(keyOf(candidate));
    this.#mustBeOpen();
    if (!this.#present || isTried(this.#present)) {
      const { found, errors } = await findAll(this.#settings.endpoints);
      this.#mustBeOpen();
      this.#found = found.length;
      const failure = errors[0]?.failure;
      if (found.length === 0 && tried.size === 0 && failure) {
        return failure;
      }
      if (!this.#present || isTried(this.#present)) {
        const round = this.#route.round(found, readClock());
        this.#present = round.find((candidate) => !isTried(candidate));
      }
    }
    return this.#present;
  }

  /** Returns the connection to an address. */
  #use(candidate: Candidate, purpose: Purpose): Shared {
    const { certificates } = this.#settings.credentials;
    for (const shared of this.#made.values()) {
      // One that failed pauses before its next attempt, for longer and longer. A call that comes now is to find out now.
      const state = shared.connection.getChannel().getConnectivityState(false);
      if (shared.certificates !== certificates || state === ConnectivityState.TRANSIENT_FAILURE) {
        this.#leave(shared);
      }
    }
    const key = `${purpose} ${keyOf(candidate)}`;
    let shared = this.#made.get(key);
    if (!shared) {
      const made = connect(this.#settings, candidate, true);
      shared = { connection: made, candidate, certificates, users: 0, isOld: false };
      this.#made.set(key, shared);
    }
    shared.users++;
    return shared;
  }

  /** Takes no more calls on a connection. */
  #leave(shared: Shared): void {
    for (const [key, one] of this.#made) {
      if (one === shared) {
        this.#made.delete(key);
      }
    }
    shared.isOld = true;
    closeIfUnused(shared);
  }

  #done(shared: Shared): void {
    shared.users--;
    closeIfUnused(shared);
  }

  /** Sends later calls to another address, because this one failed. */
  #moveOn(failed: Shared, failure: Failure): void {
    this.#route.failed(failed.candidate, readClock());
    this.#leave(failed);
    if (this.#present && keyOf(this.#present) === keyOf(failed.candidate)) {
      this.#present = undefined;
      this.#settings.log.debug(`calls go to another address: ${failure.message}`);
    }
  }

  /** Aborted when the client takes no more acquires. */
  get retired(): AbortSignal {
    return this.#retiring.signal;
  }

  /** Ends acquires, and takes no more of them. */
  retire(): void {
    this.#retiring.abort(new ClosedError("the client is being closed"));
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

  /**
   * Makes a call, at every address until one answers, and again after a pause if it is to be repeated for longer. The request is made each
   * time that it is sent.
   */
  async call<Q, A>(
    method: Method<Q, A>,
    request: () => Q,
    options: CallOptions,
  ): Promise<Answer<A>> {
    const { signal, wait = 0, until = Number.NEGATIVE_INFINITY } = options;
    const { least, most } = this.#settings.backoff;
    const pauses = new Pauses(least, most);
    const waitEnds = after(readClock(), wait);
    const end = after(waitEnds, CALL_TIMEOUT);
    const call = { method, request, options, waitEnds, end, isRepeat: false, mayPass: false };
    for (;;) {
      const answered = await this.#round(call);
      if (!(answered instanceof Failure)) {
        return answered;
      }
      const now = readClock();
      const last = Math.min(until, end);
      if (!call.mayPass || now >= last) {
        throw answered;
      }
      const pause = Math.min(pauses.pauseAsAsked(now, answered.retryAfter), last - now);
      const ended = new AbortController();
      const unfollow = follow(ended, signal, this.#closing.signal);
      await sleep(pause, ended.signal);
      unfollow();
    }
  }

  /** Makes a call at each address until one answers. Returns the last failure if none does. */
  async #round<Q, A>(call: Call<Q, A>): Promise<Answer<A> | Failure> {
    const { repeats, signal, until = Number.NEGATIVE_INFINITY } = call.options;
    const tried = new Set<string>();
    let last: Failure | undefined;
    for (;;) {
      signal?.throwIfAborted();
      const chosen = await this.#choose(tried);
      signal?.throwIfAborted();
      if (chosen instanceof Failure) {
        call.mayPass = true;
        return chosen;
      }
      if (last && (!chosen || readClock() >= call.end)) {
        return last;
      }
      if (!chosen) {
        throw new TypeError("there is no address, and no reason");
      }
      tried.add(keyOf(chosen));
      const answered = await this.#attempt(call, chosen, this.#found - tried.size);
      signal?.throwIfAborted();
      if (!(answered instanceof Failure)) {
        return answered;
      }
      const isElsewhere = answered.isTransport || answered.isDraining;
      const isForNow = answered.isRetryable && readClock() < until;
      call.isRepeat ||= !isElsewhere || (answered.isTransport && !answered.isUnsent);
      if ((!isElsewhere && !isForNow) || (call.isRepeat && repeats === "unsent")) {
        throw answered;
      }
      call.mayPass ||= answered.isRetryable;
      last = answered;
    }
  }

  /** Makes a call at one address, while so many others are left. */
  async #attempt<Q, A>(
    { method, request, options, waitEnds, end, isRepeat }: Call<Q, A>,
    candidate: Candidate,
    others: number,
  ): Promise<Answer<A> | Failure> {
    const { repeats, signal } = options;
    const shared = this.#use(candidate, "calls");
    const { connection } = shared;
    const { url } = candidate.endpoint;
    try {
      const rest = since(end, Math.max(readClock(), waitEnds));
      // An address that does not answer leaves time for the others.
      const share = repeats === "freely" ? rest / (1 + Math.max(0, others)) : rest;
      const limit = Math.min(share, this.#settings.connectTimeout);
      let failure = await ready(connection, url, limit, signal);
      if (!failure && signal?.aborted) {
        failure = timedOut(url);
      }
      if (!failure) {
        const asked = request();
        // Before it is sent: a hold never counts for longer than in the store.
        const sentAt = readClock();
        // By the clock with which the transport compares it, whatever a test framework made of that.
        const deadline = Date.now() + since(waitEnds, sentAt) + share;
        const metadata = this.#settings.credentials.metadata(propagated(this.#settings));
        const { status, answer } = await unary(
          connection,
          method,
          asked,
          metadata,
          deadline,
          signal,
        );
        if (status.code === Code.OK && answer !== undefined) {
          return { answer, sentAt, isRepeat };
        }
        failure = failureFrom(url, status);
      }
      if (!signal?.aborted && (failure.isTransport || failure.isDraining)) {
        this.#moveOn(shared, failure);
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
    const unfollow = follow(end, signal, this.#closing.signal);
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
      unfollow();
    }
  }

  /** Yields the messages of one stream. Returns why it ended. */
  async *#feedOnce<Q, A extends object>(
    { path, encode, decode }: Method<Q, A>,
    request: Q,
    pauses: Pauses,
    signal: AbortSignal,
  ): AsyncGenerator<A, { failure: Failure; wasHeard: boolean }> {
    const chosen = await this.#choose();
    if (!chosen || chosen instanceof Failure) {
      return { failure: chosen ?? timedOut(""), wasHeard: false };
    }
    const shared = this.#use(chosen, "watching");
    const { connection } = shared;
    const { endpoint } = chosen;
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
        this.#moveOn(shared, failure);
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
