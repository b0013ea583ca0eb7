import { type Moment, NEVER } from "../clock";
import type { AcquireError, ConnectError } from "../errors";
import type { SessionOpen, SessionRequest } from "../generated/leasehold/v1/session_pb";
import type { Logger } from "../options";
import type { OwnerId } from "../wire";
import { Holds } from "./holds";
import type { Output } from "./output";
import {
  type Change,
  type HoldResult,
  type Release,
  Replies,
  UNCONFIRMED,
  type Waiting,
} from "./pending";
import { label } from "./spec";
import type { Stream } from "./stream";

/** Parts of a session that its program chooses. */
export interface MachineOptions {
  /** The message that opens the session. */
  readonly open: SessionOpen;
  /** The `disconnect_grace` of open. */
  readonly grace: number;
  /** Longest time for a session to open once there is a connection. */
  readonly openTimeout: number;
  /** The most by which the clock may be behind: leases end so much earlier. */
  readonly clockError: number;
  /** Makes owner ids: 16 random bytes. */
  readonly draw: () => OwnerId;
  readonly log: Logger;
}

/** Returns the keys of a map in rising order, so that what the machine puts out does not depend on chance. */
export function inOrder(all: ReadonlyMap<number, unknown>): number[] {
  return [...all.keys()].sort((one, other) => one - other);
}

/**
 * State of a session over all the streams that it has in its life, and what all parts of its machine share.
 *
 * There are at most two streams. `stream` has the session open on it. `next` is to have it next: it is there while there is no `stream`,
 * or while that one is to be left (draining, silent) or the session is to move (newer credentials, or its coordinator has asked for it),
 * and from its connection on. Of what is held or waited for:
 *
 * | `stream` | `next` | the hold is | its owner id is | releases and changes | acquires |
 * |---|---|---|---|---|---|
 * | open | – | held | the confirmed one | are sent | are sent |
 * | open, to move | – | held | the confirmed one | are sent | are sent |
 * | to be left | – | held | the confirmed one | are sent | are put off |
 * | to move, or to be left | connected | held | the confirmed one | are put off | are put off |
 * | to move, or to be left; not heard | asked | held | that or next | are put off | are put off |
 * | to be left, deaf | – or connected | held | that or one tried | are put off | are put off |
 * | –, it broke | any | suspended, or lost without a grace | as above | are put off, or fail | are put off |
 * | –, coordinator stopped | any | held | as above | are put off | are put off |
 */
export class State {
  /** The TTL in force on the last stream; 0 before the first. */
  ttl = 0;
  readonly holds = new Holds();
  /** The waiting acquires, by the order in which they were asked for. */
  readonly waiting = new Map<number, Waiting>();
  /** A lower bound: no wait ends before it. */
  waitsEndAt: Moment = NEVER;
  /** Releases that no stream could be asked for so far, and those to be repeated. */
  unsentReleases: Release[] = [];
  unsentChanges: Change[] = [];
  readonly replies = new Replies();
  stream: Stream | undefined;
  next: Stream | undefined;
  lastStream = 0;
  /** If there is no stream, the time until which the session may resume the holds of the last one. */
  resumeUntil: Moment = NEVER;
  /** If there is no stream because its coordinator stopped, the time until which the store keeps holds and places. */
  stoppedUntil: Moment = NEVER;
  /** Whether the session takes no more acquires, because it is to end. */
  isRetired = false;
  /** Whether this process wants the session to end. */
  isEnding = false;
  /** Why there is no stream, if attempts to connect have failed since the last one. */
  unreachable: ConnectError | undefined;
  /** What is to be done, in this order. Whoever does it empties it. */
  outputs: Output[] = [];

  constructor(readonly options: MachineOptions) {}

  /** Whether the session moves, or is to move, from a stream that it has. */
  get isMoving(): boolean {
    return this.stream?.isToBeLeft ?? false;
  }

  /** Whether another connection is to be made. */
  get wantsConnection(): boolean {
    return !this.isEnding && !this.next && (!this.stream || this.stream.isToBeLeft);
  }

  /** Whether the coordinator has said that it is going away. */
  get isDraining(): boolean {
    return this.stream?.isDraining ?? false;
  }

  /** Whether a coordinator stopped so recently that the session can still resume its holds and places there. */
  isOrphaned(now: Moment): boolean {
    const hasAny = !this.holds.isEmpty || this.waiting.size > 0;
    return hasAny && this.stoppedUntil !== NEVER && now < this.stoppedUntil;
  }

  isNext(number: number): boolean {
    return this.next?.number === number;
  }

  /** Whether there is no stream, and the session may resume the holds of the last one. */
  get canResume(): boolean {
    return this.resumeUntil !== NEVER;
  }

  /** Whether the session has nothing, waits for nothing, and is asked for nothing. */
  get isIdle(): boolean {
    return (
      this.holds.isEmpty &&
      this.waiting.size === 0 &&
      this.unsentReleases.length === 0 &&
      this.unsentChanges.length === 0 &&
      !this.next &&
      this.stream !== undefined &&
      !this.stream.isToBeLeft &&
      this.stream.inFlight.size === 0
    );
  }

  /** Whether releases and changes can be sent: not while they could cross a change of owner. */
  get takesChanges(): boolean {
    return (this.stream?.isHeard ?? false) && !this.next;
  }

  /** Whether an answer is about to come. */
  get isUnsettled(): boolean {
    for (const request of this.stream?.inFlight.values() ?? []) {
      if (request.kind === "release" || request.kind === "change") {
        return true;
      }
      if (request.kind === "acquire" && this.waiting.get(request.acquire)?.isQueued === false) {
        return true;
      }
    }
    return false;
  }

  /** Returns when to call `tick` at the latest. */
  alarm(): Moment {
    const alarms = [this.holds.checkAt, this.waitsEndAt, this.replies.firstDue, this.resumeUntil];
    for (const stream of [this.stream, this.next]) {
      if (stream) {
        alarms.push(stream.alarm);
      }
    }
    let alarm = Math.min(...alarms);
    // While none can be sent there may be as many as there were holds, and none has a time of its own.
    if (this.takesChanges) {
      for (const release of this.unsentReleases) {
        alarm = Math.min(alarm, release.retryAt);
      }
    }
    return alarm;
  }

  put(output: Output): void {
    this.outputs.push(output);
  }

  send(on: Stream, request: SessionRequest | undefined): void {
    if (request) {
      this.put({ kind: "send", stream: on.number, request });
    }
  }

  /** Answers, unless nobody waits, or the caller was already told that its request was not confirmed in time. */
  reply(number: number, result: HoldResult): void {
    const call = number === 0 ? undefined : this.replies.take(number);
    if (call) {
      this.put({ kind: "hold_done", call, result });
    }
  }

  /** Answers an acquire with an error. */
  fail({ call, spec }: Waiting, error: (lock: string) => AcquireError): void {
    this.put({ kind: "acquired", call, result: error(label(spec)) });
  }

  failWaiting(which: (asked: Waiting) => boolean, error: (lock: string) => AcquireError) {
    for (const failed of this.takeWaiting(which)) {
      this.fail(failed, error);
    }
  }

  /** Removes those acquires, and returns them in the order in which they were asked for. */
  takeWaiting(which: (asked: Waiting) => boolean): Waiting[] {
    const taken: Waiting[] = [];
    for (const id of inOrder(this.waiting)) {
      const asked = this.waiting.get(id);
      if (asked && which(asked)) {
        taken.push(asked);
        this.waiting.delete(id);
      }
    }
    return taken;
  }

  /** Fails all outstanding changes and releases of the last stream, except releases of holds that another stream may have. */
  giveUpUnsent(): void {
    for (const asked of this.unsentChanges) {
      this.reply(asked.reply, UNCONFIRMED);
    }
    this.unsentChanges = [];
    for (const asked of this.unsentReleases) {
      this.reply(asked.reply, UNCONFIRMED);
      asked.reply = 0;
    }
    this.unsentReleases = this.isEnding
      ? []
      : this.unsentReleases.filter((asked) => asked.owned.ids.areInDoubt);
  }

  /**
   * Keeps what this stream was asked about holds, and has not answered, for the next one. Returns the acquires that it has not answered,
   * in the order in which they were asked.
   */
  putOffUnanswered(stream: Stream): number[] {
    const repeated = this.unsentReleases.filter((asked) => asked.retryAt !== NEVER);
    const kept = this.unsentReleases.filter((asked) => asked.retryAt === NEVER);
    const acquires: number[] = [];
    // In the order in which they were sent.
    for (const id of inOrder(stream.inFlight)) {
      const request = stream.inFlight.get(id);
      if (request?.kind === "acquire") {
        acquires.push(request.acquire);
      } else if (request?.kind === "release") {
        kept.push(request.release.anew());
      } else if (request?.kind === "change") {
        this.unsentChanges.push(request.change);
      }
    }
    stream.inFlight.clear();
    this.unsentReleases = [...kept, ...repeated.map((asked) => asked.anew())];
    return acquires;
  }

  /** Returns the deadline of what is good for this long from then on, by a clock that may be behind. */
  deadline(from: Moment, validFor: number): Moment {
    return from + validFor - this.options.clockError;
  }
}
