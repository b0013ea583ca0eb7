import { after, type Moment, NEVER, since } from "../clock";
import { ConnectError } from "../errors";
import { failureOf } from "../failure";
import type { LostLock, SessionResponse } from "../generated/leasehold/v1/session_pb";
import { type LostReason, lostReason } from "../reason";
import { type OwnerId, toId } from "../wire";
import { type Fate, fateOf, fateOfAnswer } from "./fate";
import type { Ids } from "./ids";
import { message } from "./pending";
import type { Requests } from "./requests";
import type { Resume } from "./resume";
import type { State } from "./state";
import { Stream } from "./stream";

/** Time that a coordinator which goes away has to answer requests in flight. */
const SETTLING = 1000;
/** Time below which attempts to resume are not given up, however little is left. */
const SHORTEST_ATTEMPT = 50;
/** Pause before the session tries again to leave a stream that can go on, after no coordinator has opened another one. */
const MOVE_AGAIN = 10_000;

/**
 * Moves of the session to another stream.
 *
 * `next` is asked when what `stream` has been asked has been answered, or after a while. From then on what `stream` says is withheld,
 * since it may know less of what is held than it did. If `next` opens, it becomes `stream`: what it resumed is under its next owner id,
 * what it refused is lost, what the former had not answered is asked anew, and the former is closed. If `next` declines, nothing was
 * resumed, and what `stream` said meanwhile counts after all. If `next` ends without an answer, what it was asked for may be under its
 * next owner ids, which are tried from now on; what `stream` says counts no more, unless it ends something; and if the coordinator may have
 * heard of that end, it may have released everything, so holds are suspended or lost.
 */
export class Moving {
  constructor(
    readonly state: State,
    readonly requests: Requests,
    readonly resume: Resume,
    /** Handles a message of the coordinator on this stream. */
    readonly message: (now: Moment, number: number, message: SessionResponse) => void,
  ) {}

  /**
   * Opens the session on a new connection, at once or as soon as the present stream has answered its requests. Returns the number of the
   * new stream.
   */
  connected(now: Moment, endpoint: string): number {
    this.requests.expire(now);
    this.state.lastStream++;
    this.state.next = new Stream(this.state.lastStream, endpoint, now + SETTLING);
    this.askNextIfDue(now);
    return this.state.lastStream;
  }

  /**
   * Lets the session move although its stream can go on. Does nothing in the pause after attempts that failed, because the session tries
   * again by itself.
   */
  askToMove(): void {
    if (this.state.stream?.moveAgainAt === NEVER) {
      this.state.stream.isToMove = true;
    }
  }

  /**
   * Handles a round in which no coordinator opened the session. The session stays on its stream if that can go on, and tries again after
   * a pause. Returns whether it stays.
   */
  staysAfterRound(now: Moment): boolean {
    if (!this.state.stream || this.state.stream.mustBeLeft) {
      return false;
    }
    this.state.stream.isToMove = false;
    this.state.stream.moveAgainAt = after(now, MOVE_AGAIN);
    this.requests.sendUnsent(now);
    return true;
  }

  tickMoveAgain(now: Moment, stream: Stream): void {
    if (stream.moveAgainAt <= now) {
      stream.moveAgainAt = NEVER;
      stream.isToMove = true;
    }
  }

  /** Returns the time limit of an attempt, to connect and again to open: not all of the time that is left to the holds. */
  attemptLimit(now: Moment): number {
    const { openTimeout } = this.state.options;
    const deadline = this.state.holds.firstDeadline(now);
    return deadline === NEVER
      ? openTimeout
      : Math.min(Math.max(since(deadline, now) / 3, SHORTEST_ATTEMPT), openTimeout);
  }

  askNextIfDue(now: Moment): void {
    const { next, stream } = this.state;
    if (!next || next.isAsked) {
      return;
    }
    const mayAnswer = stream && !stream.isSilent && stream.isHeard;
    if (!mayAnswer || next.openBy <= now || !this.state.isUnsettled) {
      this.#askNext(now, next);
    }
  }

  #askNext(now: Moment, next: Stream): void {
    // Noted before the messages are handed on.
    next.begin(now, now + this.attemptLimit(now));
    const id = next.numberRequest({ kind: "open" });
    for (const open of this.resume.opens(now, next)) {
      this.state.send(next, message(id, { case: "open", value: open }));
    }
    if (this.state.stream?.isHeard) {
      this.state.stream.hearing = "withheld";
    }
  }

  tickNext(now: Moment): void {
    this.askNextIfDue(now);
    const { next } = this.state;
    if (next && next.openBy <= now) {
      const took = since(now, next.heartbeats.began);
      this.#giveUpNext(now, next, new ConnectError(next.endpoint, "timed_out", undefined, took));
    }
  }

  /** Gives up the attempt to open a session on the next stream. */
  #giveUpNext(now: Moment, next: Stream, error: ConnectError): void {
    this.attemptFailed(now, fateOf(error));
    this.state.put({ kind: "hang_up", stream: next.number, error });
  }

  /** Handles a message on the stream that the session is being opened on. */
  messageOfNext(now: Moment, next: Stream, { requestId, response }: SessionResponse): void {
    if (response.case === "opened") {
      this.resume.openedInPart(now, Number(requestId), response.value);
    } else if (response.case === "error") {
      this.#giveUpNext(now, next, ConnectError.of(next.endpoint, failureOf(response.value)));
    }
  }

  /** Handles the end of the next stream, on which the session did not open. */
  attemptFailed(now: Moment, fate: Fate): void {
    const { next } = this.state;
    if (!next) {
      return;
    }
    this.state.next = undefined;
    if (next.isAsked) {
      this.#attemptEnded(now, fate, (ids) => ids.next !== undefined);
      this.resume.settleAttempt(fate);
      this.#listenAgain(now, fate);
    }
    this.requests.sendUnsent(now);
    this.requests.leaveIfDrained(now);
  }

  /** Ends or suspends what a stream that has ended may have taken over. */
  #attemptEnded(now: Moment, fate: Fate, mayHaveMoved: (ids: Ids) => boolean): void {
    if (fate === "dropped") {
      // As when the stream ends that it is on, which this one may have become.
      this.state.holds.attemptDropped(now, this.state.options.grace, mayHaveMoved);
    } else if (fate === "ended") {
      this.state.holds.attemptDropped(now, 0, mayHaveMoved);
    }
  }

  /**
   * Handles the losses that a coordinator reports which may not be the one that has the holds. A hold that is lost without need does no
   * harm.
   */
  lostInDoubt(now: Moment, locks: readonly LostLock[]): void {
    const lost = new Map<OwnerId, LostReason>();
    for (const lock of locks) {
      const reason = lostReason(lock.reason);
      // The client's own resume does that.
      if (reason !== "resumed") {
        this.state.options.log.warn(
          `lost lock ${JSON.stringify(lock.name)}, as a coordinator says: ${reason}`,
        );
        lost.set(toId(lock.ownerId), reason);
      }
    }
    this.state.holds.lostInDoubt(now, lost);
  }

  /** Handles a message on a stream that did not open in time. */
  overdueMessage(now: Moment, { response }: SessionResponse): void {
    this.requests.expire(now);
    switch (response.case) {
      case "lost":
        this.lostInDoubt(now, response.value.locks);
        break;
      case "opened":
        // What it has resumed is named to the next coordinator as tried.
        this.lostInDoubt(now, response.value.refused);
        break;
      case "error":
        this.overdueEnded(now, fateOfAnswer(failureOf(response.value)));
        break;
      case "closed":
        this.overdueEnded(now, "dropped");
        break;
    }
  }

  /**
   * Handles the end of a stream that did not open in time. It may have been carried out after all: then its coordinator may have taken the
   * end for the client's, and released what this session had tried to take over.
   */
  overdueEnded(now: Moment, fate: Fate): void {
    this.requests.expire(now);
    this.#attemptEnded(now, fate, (ids) => ids.areInDoubt);
  }

  /** Handles the messages withheld from the stream before, if nothing was taken over from it. */
  #listenAgain(now: Moment, fate: Fate): void {
    const { stream } = this.state;
    if (!stream) {
      return;
    }
    const { withheld, hearing } = stream;
    stream.withheld = [];
    stream.hearing = "deaf";
    if (hearing === "withheld" && fate === "declined") {
      stream.hearing = "open";
      for (const kept of withheld) {
        this.message(now, stream.number, kept);
      }
    }
  }
}
