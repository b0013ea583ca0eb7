/**
 * Driver of a session's machine: its timer, its connections, and the rounds of attempts to make one.
 *
 * @module
 */

import { randomBytes } from "node:crypto";
import { status as Code, type StatusObject } from "@grpc/grpc-js";
import { CLOCK_ERROR, type Moment, NEVER, now as readClock, since } from "./clock";
import { Conn, type Receiver } from "./conn";
import { type Candidate, findAll } from "./endpoints";
import { ClosedError, ConnectError } from "./errors";
import type { ClientEventMap } from "./events";
import { failureFrom } from "./failure";
import type { SessionResponse } from "./generated/leasehold/v1/session_pb";
import { fateOf } from "./machine/fate";
import { Machine } from "./machine/machine";
import type { Output } from "./machine/output";
import type { SessionInfo } from "./machine/stream";
import { openMessage, type SessionOptions, type Settings } from "./options";
import { Pauses, sleep } from "./pauses";
import { Renewing } from "./renewing";
import { Route } from "./route";
import { follow } from "./signals";
import { clearTimeout, setImmediate, setTimeout } from "./timers";
import { dial } from "./transport";

/**
 * Longest time between two looks at the clock. Timers do not count the time for which the machine was suspended, so that one set for long
 * would ring late.
 */
const LONGEST_SLEEP = 1000;
/** Number of connections kept that did not open in time: more than there can be before all is lost. */
const MOST_OVERDUE = 64;

/** Session with its connections. */
export class SessionLoop implements Receiver {
  readonly machine: Machine;
  readonly settings: Settings;
  /** The session as it is open at present. */
  info: SessionInfo | undefined;
  /** When the coordinator goes away; NEVER if it has not said so. */
  drainsAt: Moment = NEVER;
  /** Settled when the session has been open for the first time; rejected when it ends before. */
  readonly opened: Promise<void>;
  /** Settled when it has ended. */
  readonly ended: Promise<void>;
  isOver = false;

  #hasOpened!: () => void;
  #hasNotOpened!: (error: Error) => void;
  #hasEnded!: () => void;
  /** The connection of the stream that has the session open, and of the one that is to have it next. */
  #current: Conn | undefined;
  #next: Conn | undefined;
  /** Connections of streams that did not open in time, until another one has. */
  #overdue: Conn[] = [];
  readonly #route: Route;
  readonly #pauses: Pauses;
  readonly #renewing = new Renewing();
  /** The pause to be made before the next round of attempts. */
  #pause = 0;
  /** Ends the round of attempts that goes on. */
  #round: AbortController | undefined;
  /** Ends the pause of the round that goes on. */
  #hurry = new AbortController();
  /** Whether the session ends when the first round of attempts fails. */
  #mustOpen: boolean;
  #failed: ConnectError | undefined;
  #timer: NodeJS.Timeout | undefined;
  #armed: Moment = NEVER;
  /** The last of the callers that wait until the stream has room for their acquires. */
  #lastForRoom: Promise<void> | undefined;

  /** Makes a session and begins to connect. If it must open, it ends when no coordinator of the first round opens it. */
  constructor(settings: Settings, options: SessionOptions, mustOpen: boolean) {
    this.settings = settings;
    this.#mustOpen = mustOpen;
    this.#route = new Route(settings.endpoints.length, Math.random);
    this.#pauses = new Pauses(settings.backoff.least, settings.backoff.most);
    this.machine = new Machine({
      open: openMessage(options),
      grace: options.grace ?? 0,
      openTimeout: settings.connectTimeout,
      clockError: CLOCK_ERROR,
      draw: () => randomBytes(16).toString("latin1"),
      log: settings.log,
    });
    this.opened = new Promise((resolve, reject) => {
      this.#hasOpened = resolve;
      this.#hasNotOpened = reject;
    });
    // Nobody need wait for it.
    this.opened.catch(() => undefined);
    this.ended = new Promise((resolve) => {
      this.#hasEnded = resolve;
    });
    this.#carryOut(readClock());
  }

  /** Tells an event to the program. */
  tell<E extends keyof ClientEventMap>(event: E, ...told: ClientEventMap[E]): void {
    const { events, log } = this.settings;
    events.tell(log, event, ...told);
  }

  #tellOf(event: "connected" | "disconnected", conn: Conn | undefined): void {
    if (conn && this.info) {
      const { sessionId } = this.info;
      this.tell(event, { endpoint: conn.candidate.endpoint.url, sessionId });
    }
  }

  /** Gives the machine an input, and does what it asks for. */
  step<T>(input: (now: Moment, machine: Machine) => T): T {
    const now = readClock();
    const answer = input(now, this.machine);
    this.#carryOut(now);
    return answer;
  }

  /**
   * Returns a promise of room on the stream for one more acquire, behind those that wait for it already; nothing if there is room. While
   * the stream does not take requests, callers wait here rather than ahead of the releases that come later.
   */
  room(): Promise<void> | undefined {
    if (!this.#lastForRoom && !this.#current?.isCongested) {
      return undefined;
    }
    const turn = this.#waitForRoom(this.#lastForRoom);
    this.#lastForRoom = turn;
    void turn.then(() => {
      if (this.#lastForRoom === turn) {
        this.#lastForRoom = undefined;
      }
    });
    return turn;
  }

  async #waitForRoom(before: Promise<void> | undefined): Promise<void> {
    await before;
    while (this.#current?.isCongested) {
      await this.#current.room();
    }
  }

  received(conn: Conn, message: SessionResponse): void {
    if (conn.isLeaving) {
      if (message.response.case === "closed") {
        conn.cut();
      }
      return;
    }
    if (conn === this.#current || conn === this.#next) {
      this.step((now) => this.machine.message(now, conn.number, message));
    } else if (this.#overdue.includes(conn)) {
      this.step((now) => this.machine.moving.overdueMessage(now, message));
    }
  }

  streamEnded(conn: Conn, status: StatusObject): void {
    const { url } = conn.candidate.endpoint;
    if (conn === this.#current) {
      this.step((now) => this.#currentStreamEnded(now, conn, status));
      return;
    }
    const why =
      status.code === Code.OK
        ? new ConnectError(url, "ended")
        : ConnectError.of(url, failureFrom(url, status));
    if (conn === this.#next) {
      this.#next = undefined;
      this.step((now) => this.machine.moving.attemptFailed(now, fateOf(why)));
      conn.decide(why);
    } else if (this.#overdue.includes(conn)) {
      this.settings.log.debug(`a stream that had not opened in time ended: ${why.message}`);
      this.#overdue = this.#overdue.filter((one) => one !== conn);
      this.step((now) => this.machine.moving.overdueEnded(now, fateOf(why)));
    }
  }

  #currentStreamEnded(now: Moment, conn: Conn, status: StatusObject): void {
    const { log } = this.settings;
    const { url } = conn.candidate.endpoint;
    const failure = status.code === Code.OK ? undefined : failureFrom(url, status);
    const end = this.machine.streamEndedBy(now, conn.number, failure);
    if (end === "stopped") {
      log.info(`the coordinator at ${url} stopped; looking for one to resume the session on`);
      this.#hurry.abort();
      this.#pauses.startAnew();
    } else if (failure) {
      log.warn(`the stream to ${url} ended: ${failure.message}`);
    } else {
      log.info(`the coordinator at ${url} ended the stream`);
    }
    this.#currentEnded(now, conn);
  }

  /** Forgets the connection of the stream that had the session open. */
  #currentEnded(now: Moment, conn: Conn): void {
    this.#tellOf("disconnected", conn);
    this.info = undefined;
    this.drainsAt = NEVER;
    this.#route.failed(conn.candidate, now);
    this.#current = undefined;
    if (this.#round) {
      return;
    }
    // Another one may be there at once. What ended as soon as it was open is paused for all the same.
    const isElsewhere = this.#route.isSeveral && this.#pauses.lived(now);
    const pause = this.#pauses.pause(now);
    this.#pause = isElsewhere ? 0 : pause;
  }

  /** Does what is due. */
  #ring(): void {
    this.#armed = NEVER;
    if (this.isOver) {
      return;
    }
    this.step((now) => {
      this.machine.tick(now);
      const current = this.#current;
      const { credentials, log } = this.settings;
      if (current && this.#renewing.isDue(now, () => credentials.version !== current.credentials)) {
        log.debug("moving the session to a connection with newer credentials");
        this.machine.moving.askToMove();
      }
    });
  }

  #arm(now: Moment): void {
    const wanted = Math.min(this.machine.state.alarm(), now + LONGEST_SLEEP);
    if (wanted < this.#armed) {
      this.#armed = wanted;
      clearTimeout(this.#timer);
      // What came while the event loop was blocked is read first: answers to heartbeats may be among it.
      const ring = () => setImmediate(() => this.#ring());
      this.#timer = setTimeout(ring, Math.ceil(since(wanted, now)));
    }
  }

  /** Does what the machine asks for. Every input ends with this. */
  #carryOut(now: Moment): void {
    const { machine } = this;
    // What is done here may ask for more.
    while (machine.state.outputs.length > 0) {
      const { outputs } = machine.state;
      machine.state.outputs = [];
      for (const output of outputs) {
        this.#carryOutOne(now, output);
      }
    }
    if (!this.isOver) {
      this.#connectIfWanted(now);
      this.#arm(now);
    }
  }

  #carryOutOne(now: Moment, output: Output): void {
    switch (output.kind) {
      case "send":
        this.#connOf(output.stream)?.push(output.request);
        break;
      case "acquired":
        output.call(output.result);
        break;
      case "hold_done":
        output.call(output.result);
        break;
      case "opened":
        this.#openedOn(now, output.info);
        break;
      case "draining":
        this.settings.log.info(
          `the coordinator is going away in ${Math.round(since(output.until, now))} ms`,
        );
        this.drainsAt = output.until;
        break;
      case "hang_up":
        this.#hungUp(now, this.#connOf(output.stream), output.error);
        break;
      case "leave": {
        const conn = this.#connOf(output.stream);
        if (conn && conn === this.#next) {
          this.#next = undefined;
          conn.leave();
          conn.decide(new ConnectError(conn.candidate.endpoint.url, "ended"));
        }
        break;
      }
      case "ended":
        this.#end();
        break;
    }
  }

  /** Returns the connection of a stream, if it is current or next. */
  #connOf(stream: number): Conn | undefined {
    return [this.#current, this.#next].find((conn) => conn?.number === stream);
  }

  /** Makes the next connection the current one. */
  #openedOn(now: Moment, info: SessionInfo): void {
    this.settings.log.debug(`opened session ${info.sessionId} at ${info.coordinator}`);
    this.#current?.leave();
    this.#current = this.#next;
    this.#next = undefined;
    this.#current?.decide();
    this.#cutOverdue();
    this.#pause = 0;
    this.#pauses.opened(now);
    this.info = info;
    this.#tellOf("connected", this.#current);
    this.drainsAt = NEVER;
    this.#mustOpen = false;
    this.#hasOpened();
  }

  /** Gives a connection up. There is no error for one on which the session was open. */
  #hungUp(now: Moment, conn: Conn | undefined, error: ConnectError | undefined): void {
    if (!conn) {
      return;
    }
    if (conn === this.#current) {
      this.#currentEnded(now, conn);
      conn.cut();
      return;
    }
    this.#next = undefined;
    // One that was never asked keeps nothing.
    if (error && fateOf(error) === "kept" && conn.isStarted) {
      this.#overdue.push(conn);
      if (this.#overdue.length > MOST_OVERDUE) {
        this.#overdue.shift()?.cut();
        // As if its coordinator had ended it.
        this.machine.moving.overdueEnded(now, "dropped");
      }
    } else {
      conn.cut();
    }
    conn.decide(error ?? new ConnectError(conn.candidate.endpoint.url, "ended"));
  }

  #cutOverdue(): void {
    const overdue = this.#overdue;
    this.#overdue = [];
    for (const conn of overdue) {
      conn.cut();
    }
  }

  /** Ends the session. Connections that say goodbye go on for a while. */
  #end(): void {
    if (this.isOver) {
      return;
    }
    this.isOver = true;
    this.#tellOf("disconnected", this.#current);
    clearTimeout(this.#timer);
    for (const conn of [this.#current, this.#next]) {
      conn?.cut();
      conn?.decide(new ConnectError(conn.candidate.endpoint.url, "ended"));
    }
    this.#current = undefined;
    this.#next = undefined;
    this.info = undefined;
    this.#cutOverdue();
    this.#round?.abort();
    this.#hasNotOpened(this.#failed ?? new ClosedError());
    this.#hasEnded();
  }

  /** Begins a round of attempts if there is to be another connection, and ends it if there is not. */
  #connectIfWanted(now: Moment): void {
    if (!this.#round && this.machine.state.wantsConnection) {
      if (this.#current) {
        this.#route.failed(this.#current.candidate, now);
      }
      const round = new AbortController();
      this.#round = round;
      this.#hurry = new AbortController();
      const pause = this.#pause;
      this.#pause = 0;
      void this.#makeRound(round.signal, pause);
    } else if (this.#round && !this.machine.state.wantsConnection && !this.machine.state.next) {
      // The machine sees to the attempts that it knows.
      this.#round.abort();
    }
  }

  /** Tries each coordinator once, after a pause. */
  async #makeRound(signal: AbortSignal, pause: number): Promise<void> {
    const errors = await this.#attempts(signal, pause);
    this.#round = undefined;
    if (this.isOver) {
      return;
    }
    this.step((now) => {
      if (errors === "opened") {
        if (!this.#current) {
          // It has ended as soon as it was open.
          this.#pause = this.#pauses.pause(now);
        }
      } else if (this.machine.state.wantsConnection && errors.length > 0) {
        this.#roundFailed(now, errors);
      }
    });
  }

  /** Handles a round in which no coordinator opened the session. */
  #roundFailed(now: Moment, errors: readonly ConnectError[]): void {
    const { credentials, log } = this.settings;
    if (this.#mustOpen) {
      // Whoever opens a session wants to know at once: an answer says more than the lack of one.
      this.#failed = best(errors, (error) => [error.isAnswer, error.isRetryable]);
      this.machine.close(now);
      return;
    }
    // The session waits as long as one coordinator may serve later.
    const error = best(errors, (error) => [error.isRetryable, error.isAnswer]);
    if (this.machine.moving.staysAfterRound(now)) {
      if (this.#current?.credentials === credentials.version) {
        log.info(`no coordinator took the session over, and it stays: ${error.message}`);
      } else {
        log.warn(
          `newer credentials are not accepted, and those before stay in use: ${error.message}`,
        );
      }
      return;
    }
    log.debug(error.message);
    this.machine.connectFailed(now, error);
    const asked = error.failure?.retryAfter ?? 0;
    if (asked === 0 && this.machine.state.isOrphaned(now)) {
      // Half a second at most, partly at random, since all clients of a stopped coordinator come back at once.
      this.#pause = Math.min(this.#pauses.pause(now), 250 + Math.random() * 250);
    } else {
      this.#pause = this.#pauses.pauseAsAsked(now, asked);
    }
  }

  /** Tries each coordinator once. Returns why the session is not open on any. */
  async #attempts(signal: AbortSignal, pause: number): Promise<"opened" | ConnectError[]> {
    if (pause > 0) {
      await this.#sleep(pause, signal);
    }
    if (signal.aborted) {
      return [];
    }
    const { found, errors } = await findAll(this.settings.endpoints);
    if (signal.aborted) {
      return [];
    }
    for (const candidate of this.#route.round(found, readClock())) {
      const error = await this.#attempt(candidate);
      if (!error) {
        return "opened";
      }
      if (signal.aborted) {
        return [];
      }
      this.settings.log.debug(error.message);
      this.#route.failed(candidate, readClock());
      errors.push(error);
    }
    return errors;
  }

  /** Makes a pause, and ends it early if there is a reason to hurry. */
  async #sleep(pause: number, signal: AbortSignal): Promise<void> {
    const ended = new AbortController();
    const unfollow = follow(ended, signal, this.#hurry.signal);
    await sleep(pause, ended.signal);
    unfollow();
  }

  /** Tries to open the session at one coordinator. Returns nothing once it is open there. */
  async #attempt(to: Candidate): Promise<ConnectError | undefined> {
    const { machine, settings } = this;
    const { url } = to.endpoint;
    const { version } = settings.credentials;
    let conn: Conn;
    try {
      const dialled = await dial(settings, to, machine.moving.attemptLimit(readClock()));
      conn = new Conn(to, version, dialled, this);
    } catch (error) {
      return error instanceof ConnectError
        ? error
        : new ConnectError(url, "invalid", error as Error);
    }
    // What there is is not touched before somebody is there to take it over.
    const now = readClock();
    const limit =
      machine.state.isMoving || machine.state.isOrphaned(now)
        ? machine.moving.attemptLimit(now)
        : undefined;
    if (limit === undefined && !this.#adopt(conn)) {
      conn.cut();
      return new ConnectError(url, "ended");
    }
    const error = await conn.start(settings, limit);
    if (error) {
      conn.cut();
      return error;
    }
    if (limit !== undefined && !this.#adopt(conn)) {
      conn.cut();
      return new ConnectError(url, "ended");
    }
    conn.send();
    return await conn.decided;
  }

  /** Makes it the next connection, unless none is wanted any more. */
  #adopt(conn: Conn): boolean {
    if (this.isOver || !this.machine.state.wantsConnection) {
      return false;
    }
    // Known by its number before the machine asks for something to be sent on it.
    conn.number = this.machine.state.lastStream + 1;
    this.#next = conn;
    this.step((now) => this.machine.moving.connected(now, conn.candidate.endpoint.url));
    return true;
  }
}

/** Returns the error for which most is true, the first criterion before the second; the last of several. */
function best(
  errors: readonly ConnectError[],
  criteria: (error: ConnectError) => [boolean, boolean],
): ConnectError {
  const rank = (error: ConnectError) => {
    const [first, second] = criteria(error);
    return 2 * Number(first) + Number(second);
  };
  return errors.reduce((one, other) => (rank(other) >= rank(one) ? other : one));
}
