/**
 * Elections: campaigns, leaderships and observers.
 *
 * @module
 */

import { Actor } from "./actor";
import type { Calls } from "./calls";
import { bytes, checkFunction, checkName, checkObject, checkSignal, shown } from "./checks";
import { now as readClock } from "./clock";
import type { SessionCore } from "./core";
import { AcquireError, acquireFailed, Failure, LockLostError } from "./errors";
import type { Leader as WireLeader } from "./generated/leasehold/v1/election_pb";
import { LockMode } from "./generated/leasehold/v1/types_pb";
import { Held } from "./held";
import { acquireSpec, type Source } from "./locks";
import type { Granted } from "./machine/pending";
import { type AcquireSpec, lockSpec } from "./machine/spec";
import { LEADER, OBSERVE } from "./methods";
import { Pauses, sleep } from "./pauses";
import { Body, ownError, runUnder } from "./running";
import { type Leader, leaderOf } from "./views";

/** Options of an election. Times are in milliseconds. */
export interface ElectionOptions {
  /** Value that observers see of this candidate when it leads, for example its address: at most 4 KiB. Default: empty. */
  value?: Uint8Array | string | undefined;
  /** Longest time to wait to be elected: at most 24 h; 0 means not to wait. Default: as long as it takes, over reconnects too. */
  wait?: number | undefined;
  /**
   * Time for which no candidate is elected after a leadership that ended uncleanly, that is in any way other than by resigning: 0 to the
   * maximum TTL. Default: 0.
   */
  lockDelay?: number | undefined;
  /** Longest time for which this candidate leads without being elected anew; see `AcquireOptions.maxHold`. Default: no bound. */
  maxHold?: number | undefined;
}

/** Signal that ends a wait or a sequence when it is aborted. */
export interface SignalOptions {
  signal?: AbortSignal | undefined;
}

/**
 * Leadership of this process, until it resigns or loses it. It promises what a hold promises: it is lost at its deadline, by this process's
 * own clock, before anybody else can be elected. It moves to another coordinator with its session, and nobody else is elected for that.
 */
export class Term extends Held implements AsyncDisposable {
  readonly #candidacy: Candidacy;

  /** @internal */
  constructor(core: SessionCore, granted: Granted, candidacy: Candidacy) {
    super(core, granted);
    this.#candidacy = candidacy;
  }

  /** @internal */
  get actor(): number {
    return this.#candidacy.actor;
  }

  /** Changes the value that observers see: at most 4 KiB. */
  async proclaim(value: Uint8Array | string): Promise<void> {
    const encoded = this.checked(() => bytes(value));
    await this.core.change(this.granted, { kind: "value", value: encoded });
  }

  /**
   * Gives the leadership up, and the next candidate is elected. Ends as `Hold.release` does.
   */
  async resign(): Promise<boolean> {
    try {
      return await this.giveUp();
    } finally {
      this.#candidacy.end();
    }
  }

  /** @internal */
  override end(): Promise<boolean> {
    return this.resign();
  }

  /** Resigns, at the end of the block of `await using`. Reports neither a loss nor a failure. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.resign().catch(() => undefined);
  }
}

/** Candidacy for one election: a session has at most one of each, since a second one would wait behind the first. */
class Candidacy {
  private constructor(
    readonly core: SessionCore,
    readonly election: string,
    readonly actor: number,
    readonly state: { term: Granted["lease"] | undefined },
  ) {}

  /** Begins a candidacy; none if the session has one that waits, leads or is suspended. */
  static begin(core: SessionCore, election: string, actor: number): Candidacy | undefined {
    const former = core.candidacies.get(election);
    if (former && (!former.term || former.term.alive(readClock()) !== undefined)) {
      return undefined;
    }
    const state = { term: undefined };
    core.candidacies.set(election, state);
    return new Candidacy(core, election, actor, state);
  }

  /** Ends it. After a loss the session may have begun another one, which stays. */
  end(): void {
    if (this.core.candidacies.get(this.election) === this.state) {
      this.core.candidacies.delete(this.election);
    }
  }
}

/** Change of an election's leader, as an observer sees it. */
export interface LeaderChange {
  /** Leader; `undefined` while there is none. */
  readonly leader: Leader | undefined;
  /**
   * Whether there may have been other leaders, or values, since the change before: the program did not read in time, there was no
   * connection, or the coordinator could not follow for a while.
   */
  readonly isAfterSkipped: boolean;
}

/** Election: one of several candidates leads, all can observe it, and the next one leads as soon as it ends. */
export class Election {
  /** Name of the election. */
  readonly name: string;
  readonly #source: Source;
  readonly #calls: Calls;
  readonly #options: ElectionOptions;

  /** @internal */
  constructor(source: Source, calls: Calls, name: string, options: ElectionOptions) {
    this.name = name;
    this.#source = source;
    this.#calls = calls;
    this.#options = options;
  }

  /**
   * Waits to be elected. Rejects as `acquire` of a lock does, and with `already_candidate` if this session campaigns for the election
   * already, or leads it: it would wait behind itself. Use `Term.proclaim` to change the value, and another session for another candidate.
   */
  async campaign({ signal }: SignalOptions = {}): Promise<Term> {
    const spec = this.#spec(signal);
    let candidacy: Candidacy | undefined;
    try {
      const core = this.#source();
      candidacy = Candidacy.begin(core, this.name, spec.actor);
      if (!candidacy) {
        throw new AcquireError(this.name, { kind: "already_candidate" });
      }
      const [granted] = await core.acquire(spec, signal);
      if (!granted) {
        throw new TypeError("a grant has at least one lock");
      }
      candidacy.state.term = granted.lease;
      return new Term(core, granted, candidacy);
    } catch (error) {
      candidacy?.end();
      throw acquireFailed(this.name, error);
    }
  }

  /** Returns what to ask for. Throws an AcquireError if it can't be asked for. */
  #spec(signal: AbortSignal | undefined): AcquireSpec {
    try {
      checkObject(this.#options, "options");
      checkName(this.name, "election");
      const { value, wait, lockDelay, maxHold } = this.#options;
      // Of its own, since a candidate that lost its term may campaign while its former hold is still there, closed for a lock-delay.
      const options = { value, wait, lockDelay, maxHold, signal, actor: new Actor() };
      return acquireSpec([lockSpec(this.name, LockMode.EXCLUSIVE)], false, options);
    } catch (error) {
      throw acquireFailed(shown(this.name), error);
    }
  }

  /**
   * Campaigns, and calls `lead` while this process leads; again and again, until the signal is aborted. The signal given to `lead` is aborted
   * if the leadership is lost, and when that of the options is. `run` waits for `lead` to end before it resigns or campaigns again, so that
   * nobody else leads because of this process while its `lead` still runs.
   *
   * While the leadership is only suspended, `lead` goes on, and `term.check()` tells it not to act. If the leadership moves to another
   * coordinator, `lead` goes on too.
   *
   * A loss of the leadership never ends `run`, however `lead` ends then, and neither does a failure that may pass: no connection, a coordinator or a store
   * that does not serve at present, a limit that is reached. Both are logged. If `lead` resolves while it leads, this process resigns, and
   * campaigns again behind the others. `run` ends when
   *
   * - `lead` rejects while it leads: then it rejects with that error, after resigning;
   * - a campaign fails in a way that another attempt can't mend, such as `permission_denied`, or `timed_out` if there is a wait: then it
   *   rejects with that error;
   * - the signal is aborted: then it resolves, or rejects with an error of `lead` that says more than that it was stopped;
   * - the client is closed: the signal of `lead` is aborted with a `ClosedError`, the close waits for `lead`, and `run` then rejects with that
   *   error, or as a campaign that is refused (`closed`).
   */
  async run(
    options: { signal: AbortSignal },
    lead: (term: Term, signal: AbortSignal) => unknown,
  ): Promise<void> {
    checkName(this.name, "election");
    checkObject(options ?? null, "options");
    const { signal } = options;
    checkSignal(signal ?? null);
    checkFunction(lead, "lead");
    const { log, backoff } = this.#calls.settings;
    const name = JSON.stringify(this.name);
    const pauses = new Pauses(backoff.least, backoff.most);
    let failures = 0;
    while (!signal.aborted) {
      let term: Term;
      try {
        term = await this.campaign({ signal });
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        if (!(error instanceof AcquireError) || !mayPass(error)) {
          throw error;
        }
        // The first of a row as a warning, since no caller sees the error and it may go on for ever.
        failures++;
        const line = `the campaign for election ${name} failed, and is repeated: ${error.message}`;
        failures === 1 ? log.warn(line) : log.debug(line);
        await sleep(pauses.pauseAsAsked(readClock(), error.failure?.retryAfter ?? 0), signal);
        continue;
      }
      failures = 0;
      pauses.opened(readClock());
      try {
        const body = new Body(term.core, [term.name], term.actor, true);
        await runUnder(body, [term], signal, (stop) => lead(term, stop));
      } catch (error) {
        // The work may lose another lock as well: that is its own failure.
        const isLost =
          error instanceof LockLostError && error.lock === term.name && error.token === term.token;
        if (signal.aborted) {
          const own = ownError(isLost ? error.cause : error, signal);
          if (own !== undefined) {
            throw own;
          }
          return;
        }
        if (!isLost) {
          throw error;
        }
        log.warn(`lost the leadership of election ${name}, and campaigns again: ${error.message}`);
      }
      // Terms that end as soon as they begin must not become a loop.
      if (!pauses.lived(readClock())) {
        await sleep(pauses.pause(readClock()), signal);
      }
    }
  }

  /** Returns the present leader; `undefined` while there is none, also before the first campaign. */
  async leader({ signal }: SignalOptions = {}): Promise<Leader | undefined> {
    checkName(this.name, "election");
    checkSignal(signal);
    const request = { election: this.name };
    const { answer } = await this.#calls.call(LEADER, () => request, { repeats: "freely", signal });
    return answer.leader && leaderOf(answer.leader);
  }

  /**
   * Yields the present leader, then every change, including to no leader, until the loop ends. If the signal is aborted, it throws the
   * signal's reason. It never yields the
   * same term with the same value twice in a row, and never a leader with a smaller token than an earlier one. An observer that does not
   * read in time gets the newest state, and that others were skipped. A leader that is resumed on another session stays in its term, which
   * is no change.
   *
   * If the connection breaks or the coordinator goes away, the observer asks again, for as long as it takes; the next change then says that
   * it may have skipped some. It throws if the name is invalid, or the coordinator refuses to be observed.
   */
  async *observe({ signal }: SignalOptions = {}): AsyncGenerator<LeaderChange, void, undefined> {
    checkName(this.name, "election");
    checkSignal(signal);
    const view = new LeaderView();
    for await (const told of this.#calls.feed(OBSERVE, { election: this.name }, signal)) {
      if (told instanceof Failure) {
        view.interrupted();
        continue;
      }
      const change = view.told(told.leader, told.skipped);
      if (change) {
        yield change;
      }
    }
  }
}

/** State of an observer: its last change, and what the next one must say. */
export class LeaderView {
  #hasLast = false;
  #last: WireLeader | undefined;
  /** The largest token so far. */
  #newest = 0n;
  /** Whether a change may have been missed since the last one. */
  #hasSkipped = false;

  /** Notes that changes may be missed from now on. */
  interrupted(): void {
    // A change before the first is not missed.
    this.#hasSkipped = this.#hasLast;
  }

  told(leader: WireLeader | undefined, skipped: boolean): LeaderChange | undefined {
    this.#hasSkipped ||= skipped;
    const token = leader?.fencingToken ?? 0n;
    // A coordinator that is behind the one before it will catch up. A holder that does not use Leasehold has no token.
    const isPast = token !== 0n && token < this.#newest;
    if (isPast || (this.#hasLast && isSame(this.#last, leader))) {
      return undefined;
    }
    this.#newest = token > this.#newest ? token : this.#newest;
    this.#hasLast = true;
    this.#last = leader;
    const isAfterSkipped = this.#hasSkipped;
    this.#hasSkipped = false;
    return { leader: leader && leaderOf(leader), isAfterSkipped };
  }
}

/** Returns whether two leaders are the same, in the same term and with the same value. */
function isSame(one: WireLeader | undefined, other: WireLeader | undefined): boolean {
  return (
    (one === undefined) === (other === undefined) &&
    one?.fencingToken === other?.fencingToken &&
    Buffer.compare(one?.value ?? Buffer.of(), other?.value ?? Buffer.of()) === 0
  );
}

/** Returns whether a campaign that failed with this error is worth repeating. Another leader is an answer, not a failure. */
function mayPass(error: AcquireError): boolean {
  if (error.kind === "busy" || error.kind === "timed_out") {
    return false;
  }
  // An operator who ends the wait of a candidate sends it to the end of the queue, and does not end its program.
  return error.kind === "force_released" || error.isRetryable;
}
