import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { after, type Moment, NEVER } from "../clock";
import {
  type SessionOpened,
  type SessionRequest,
  type SessionResponse,
  type SessionResume,
  SessionResumeSchema,
} from "../generated/leasehold/v1/session_pb";
import { fromDuration, type OwnerId, toBytes } from "../wire";
import { Heartbeats } from "./heartbeats";
import type { Ids } from "./ids";
import { type Change, message, type Release } from "./pending";

/** Interval below which no coordinator can ask for heartbeats. */
const SHORTEST_HEARTBEAT = 10;
/** Interval above which no coordinator can put heartbeats off. */
const LONGEST_REST = 600_000;

/** Request that waits for its answer. `acquire` is the number of an acquire in the session. */
export type InFlight =
  | { readonly kind: "open" }
  | { readonly kind: "acquire"; readonly acquire: number }
  /** An acquire whose caller waits no longer. If it is granted, the session gives the lock back. */
  | { readonly kind: "abandoned"; readonly actor: number }
  | { readonly kind: "release"; readonly release: Release }
  | { readonly kind: "change"; readonly change: Change };

/** Description of an open session, as its coordinator gave it. Times are in milliseconds. */
export interface SessionInfo {
  /** Name of the session in listings. Not secret. Every reconnect brings a new one. */
  readonly sessionId: string;
  /** Name of the coordinator in listings. */
  readonly coordinator: string;
  /** TTL in force. */
  readonly ttl: number;
  /**
   * Time between heartbeats of a session that holds or waits for something. An idle one sends fewer if the coordinator allows it.
   */
  readonly heartbeatInterval: number;
}

/** Terms of a session, as the coordinator opened it. */
class Opened {
  nextHeartbeat: Moment;
  /** Time from which answers are missed: that of the last answer to a heartbeat, or of the opening, or the end of a rest. */
  silentFrom: Moment;
  /** Whether the session has nothing, and need not send a heartbeat at every interval. */
  rests = false;

  constructor(
    now: Moment,
    readonly ttl: number,
    readonly heartbeatInterval: number,
  ) {
    this.nextHeartbeat = after(now, heartbeatInterval);
    this.silentFrom = now;
  }

  /** Notes an answer to a heartbeat. */
  answered(now: Moment): void {
    this.silentFrom = this.rests ? this.nextHeartbeat : now;
  }

  /** Puts the next heartbeat off, because the session has nothing. It is due so long after that one was sent. */
  rest(sentAt: Moment, pause: number): void {
    const next = after(sentAt, Math.min(pause, LONGEST_REST));
    if (next > this.nextHeartbeat) {
      this.nextHeartbeat = next;
      this.silentFrom = next;
      this.rests = true;
    }
  }

  /** Ends a rest. */
  wake(now: Moment, lastSent: Moment): void {
    if (this.rests) {
      this.rests = false;
      this.nextHeartbeat = after(lastSent, this.heartbeatInterval);
      this.silentFrom = now;
    }
  }
}

/**
 * Actor that has abandoned acquires. Until the coordinator has answered them, it takes the actor for waiting or holding, and would refuse
 * the actor's next acquires.
 */
interface Abandoning {
  unanswered: number;
  /** Its next acquires, by their numbers in the session. */
  readonly heldBack: number[];
}

/**
 * Fate of the coordinator's messages once another stream has been asked to take over the session's holds:
 *
 * - `open`: nothing is being taken over.
 * - `withheld`: messages are kept until the other stream has answered.
 * - `deaf`: the other stream ended without an answer: the session does not know which holds this coordinator still has.
 */
export type Hearing = "open" | "withheld" | "deaf";

/** Hold or place that another stream is asked to take over. */
export type Asked =
  | { readonly hold: number }
  | { readonly acquire: number; readonly requestId: number; readonly actor: number };

/** State of one lease stream. It is dropped with the stream, so that nothing of an old stream can leak into the next. */
export class Stream {
  heartbeats: Heartbeats;
  /** Whether open was sent. */
  isAsked = false;
  /** The resumes in open that have not been answered, by their next owner ids. */
  readonly resuming = new Map<OwnerId, Asked>();
  /** The parts of the answer that have come, if there are more. */
  opening: SessionOpened | undefined;
  opened: Opened | undefined;
  /** Whether the coordinator is going away: nothing new is asked of it. */
  isDraining = false;
  /** Whether no heartbeat has been answered for a while: nothing new is asked of it. */
  isSilent = false;
  /**
   * Whether the session is to move although the stream can go on: the credentials that opened it have been replaced, or its coordinator,
   * which goes on serving, has asked for it.
   */
  isToMove = false;
  /** When the session tries again to move, after a round in which no coordinator opened it; NEVER without such a round. */
  moveAgainAt: Moment = NEVER;
  hearing: Hearing = "open";
  withheld: SessionResponse[] = [];
  /** NEVER until close was sent; the stream is cut if it has not ended by then. */
  closing: Moment = NEVER;
  readonly inFlight = new Map<number, InFlight>();
  readonly #abandoning = new Map<number, Abandoning>();
  /** Number of the newest request. */
  #lastRequest = 0;

  constructor(
    /** Never used again in this session. */
    readonly number: number,
    /** Where it leads to, for messages. */
    readonly endpoint: string,
    /**
     * Before open is sent, the latest time for that; afterwards, the time at which the stream is given up unless it has opened.
     */
    public openBy: Moment,
  ) {
    this.heartbeats = new Heartbeats(openBy);
  }

  /** Notes that the open is sent now, and must be answered by then. */
  begin(now: Moment, openBy: Moment): void {
    this.heartbeats = new Heartbeats(now);
    this.isAsked = true;
    this.openBy = openBy;
  }

  /** Notes that the session is open on it, and returns the session's description. */
  open(now: Moment, answer: SessionOpened): SessionInfo {
    const ttl = fromDuration(answer.ttl);
    const heartbeatInterval = Math.max(fromDuration(answer.heartbeatInterval), SHORTEST_HEARTBEAT);
    this.opened = new Opened(now, ttl, heartbeatInterval);
    return {
      sessionId: answer.sessionId,
      coordinator: answer.coordinator,
      ttl,
      heartbeatInterval,
    };
  }

  /** Whether close was sent. */
  get isClosing(): boolean {
    return this.closing !== NEVER;
  }

  /** Whether the session looks for another stream, because it must or should leave this one. */
  get isToBeLeft(): boolean {
    return this.opened !== undefined && !this.isClosing && (this.mustBeLeft || this.isToMove);
  }

  /** Whether the stream can't go on for long as it is. */
  get mustBeLeft(): boolean {
    return this.isDraining || this.isSilent || !this.isHeard;
  }

  /** Whether the coordinator's messages count. */
  get isHeard(): boolean {
    return this.hearing === "open";
  }

  /** Whether acquires may be sent on it, as long as there is no next stream. */
  get accepts(): boolean {
    return this.opened !== undefined && !this.isClosing && !this.mustBeLeft;
  }

  /**
   * Numbers a request and remembers what its answer is for, if it has any. Numbers are never used again on a stream.
   */
  numberRequest(expects?: InFlight): number {
    this.#lastRequest++;
    if (expects) {
      this.inFlight.set(this.#lastRequest, expects);
    }
    return this.#lastRequest;
  }

  /** Returns the request that is a heartbeat, and puts the next one off by this interval. */
  heartbeat(now: Moment, interval: number): SessionRequest {
    this.opened?.wake(now, now);
    if (this.opened) {
      this.opened.nextHeartbeat = after(now, interval);
    }
    const sequence = BigInt(this.heartbeats.note(now));
    return message(this.numberRequest(), { case: "heartbeat", value: { sequence } });
  }

  /**
   * Ends a rest, because the session is about to ask for something. Returns the heartbeat to send before, if the last one is older than
   * the interval: deadlines count from the newest that the coordinator has heard.
   */
  wake(now: Moment): SessionRequest | undefined {
    if (!this.opened?.rests) {
      return undefined;
    }
    this.opened.wake(now, this.heartbeats.lastSent);
    return now < this.opened.nextHeartbeat
      ? undefined
      : this.heartbeat(now, this.opened.heartbeatInterval);
  }

  /** Returns the request that closes the session on this stream. */
  close(): SessionRequest {
    return message(this.numberRequest(), { case: "close", value: {} });
  }

  /** Returns the request that cancels an acquire for which the caller no longer waits. */
  cancel(acquire: number, actor: number): SessionRequest {
    this.inFlight.set(acquire, { kind: "abandoned", actor });
    if (actor !== 0) {
      const abandoning = this.#abandoning.get(actor) ?? { unanswered: 0, heldBack: [] };
      abandoning.unanswered++;
      this.#abandoning.set(actor, abandoning);
    }
    const acquireRequestId = BigInt(acquire);
    return message(this.numberRequest(), { case: "cancel", value: { acquireRequestId } });
  }

  /** Returns whether an acquire of this actor must be held back. If so, `abandonedAnswered` returns it later. */
  holdsBack(actor: number, acquire: number): boolean {
    const abandoning = this.#abandoning.get(actor);
    abandoning?.heldBack.push(acquire);
    return abandoning !== undefined;
  }

  /** Notes that an abandoned acquire of this actor was answered. Returns the acquires held back that can be sent now. */
  abandonedAnswered(actor: number): number[] {
    const abandoning = this.#abandoning.get(actor);
    if (!abandoning || --abandoning.unanswered > 0) {
      return [];
    }
    this.#abandoning.delete(actor);
    return abandoning.heldBack;
  }

  /** Returns the request to take over what is known by these ids, under another one from now on. */
  resume(
    name: string,
    ids: Ids,
    next: OwnerId,
    asked: Asked,
    what: NonNullable<MessageInitShape<typeof SessionResumeSchema>["what"]>,
  ): SessionResume {
    ids.next = next;
    this.resuming.set(next, asked);
    return create(SessionResumeSchema, {
      name,
      ownerId: toBytes(ids.confirmed),
      triedOwnerIds: ids.tried.map(toBytes),
      nextOwnerId: toBytes(next),
      what,
    });
  }

  /** Returns when this stream needs attention next: for a heartbeat, for answers or a close that have been missing for too long. */
  get alarm(): Moment {
    if (this.isClosing) {
      return this.closing;
    }
    if (!this.opened) {
      return this.openBy;
    }
    const { ttl, nextHeartbeat, silentFrom } = this.opened;
    const missedAt = after(silentFrom, this.isSilent ? ttl : ttl / 2);
    return Math.min(nextHeartbeat, missedAt, this.moveAgainAt);
  }
}
