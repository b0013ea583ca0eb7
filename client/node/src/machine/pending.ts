import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { after, type Moment, NEVER, since } from "../clock";
import type { AcquireError, Failure } from "../errors";
import { type SessionRequest, SessionRequestSchema } from "../generated/leasehold/v1/session_pb";
import type { Lease } from "../lease";
import type { EndReason } from "../reason";
import { type OwnerId, toBytes, toId } from "../wire";
import { Ids } from "./ids";
import type { AcquireSpec } from "./spec";

/** First and longest pause before a release that could not be served is repeated. */
const RETRY_FIRST = 100;
const RETRY_MOST = 2000;
/** Longest wait for the answer to a release or a change; after it, the caller learns that it is not confirmed. */
const ANSWER_TIMEOUT = 10_000;
/** Extra time after its wait in which the coordinator may answer an acquire. */
const ANSWER_GRACE = 2000;

/** Lock that was granted. */
export interface Granted {
  readonly key: number;
  readonly lease: Lease;
  /** Number of times that the actor holds it, this grant included. */
  readonly holdCount: number;
}

/** Caller that waits for a lock. The machine only passes it on. */
export type AcquireCall = (result: Granted[] | AcquireError) => void;

/** End of a request about a hold. */
export type HoldResult =
  | { readonly outcome: "done" }
  | { readonly outcome: "lost"; readonly reason: EndReason }
  | { readonly outcome: "refused"; readonly failure: Failure }
  | { readonly outcome: "unconfirmed" };

export const DONE: HoldResult = { outcome: "done" };
export const UNCONFIRMED: HoldResult = { outcome: "unconfirmed" };

/** Caller that waits for the answer to a request about a hold. The machine only passes it on. */
export type HoldCall = (result: HoldResult) => void;

/** Identity of a hold at a coordinator. */
export interface Owned {
  readonly name: string;
  readonly ids: Ids;
  /** The hold's number here; 0 where there is none. */
  readonly number: number;
}

/** Returns the identity of what was granted, and has no hold here. */
export function unheld(name: string, ownerId: Uint8Array): Owned {
  return { name, ids: new Ids(toId(ownerId)), number: 0 };
}

/** Lock to be given back. */
export class Release {
  /** Index of the owner id that it is asked by. If nothing is held under one, a later one may hold it. */
  index = 0;
  /** Pause before it is repeated, if it fails. */
  #retryIn = RETRY_FIRST;
  /** When it is repeated on the same stream, since the coordinator could not serve it; NEVER if it is not. */
  retryAt: Moment = NEVER;
  /** Whether another stream was asked before and did not answer: the release may have been carried out. */
  isAgain = false;
  /** Whether the resume in progress already counts the hold once less because of this release. */
  isCounted = false;
  /** Whether the hold's deadline has passed, until a coordinator was told. */
  isExpired = false;

  /** Makes a release for the caller of this number; 0 for none. */
  constructor(
    readonly owned: Owned,
    public reply = 0,
    readonly trace = "",
  ) {}

  /** Makes it a release for another stream, because this one has not answered. */
  anew(): this {
    this.index = 0;
    this.isAgain = true;
    this.retryAt = NEVER;
    return this;
  }

  /** Plans to repeat it, because it could not be served. */
  putOff(now: Moment, asked: number): void {
    this.retryAt = after(now, Math.max(this.#retryIn, Math.min(asked, RETRY_MOST)));
    this.#retryIn = Math.min(this.#retryIn * 2, RETRY_MOST);
  }
}

/** Effect of a change on a hold. */
export type Effect =
  | { readonly kind: "value"; readonly value: Uint8Array }
  | { readonly kind: "downgrade" }
  | { readonly kind: "reduce"; readonly permits: number };

/** Change of a hold, as its holder has asked for it. */
export class Change {
  reply = 0;

  constructor(
    readonly key: number,
    readonly effect: Effect,
    readonly trace = "",
  ) {}

  /** Returns the request for it. */
  message(what: Owned, requestId: number): SessionRequest {
    const of = { name: what.name, ownerId: toBytes(what.ids.confirmed) };
    return message(requestId, changeBody(this.effect, of), this.trace);
  }
}

function changeBody(effect: Effect, of: { name: string; ownerId: Uint8Array }): RequestBody {
  switch (effect.kind) {
    case "value":
      return { case: "setValue", value: { ...of, value: effect.value } };
    case "downgrade":
      return { case: "downgrade", value: of };
    case "reduce":
      return { case: "reduce", value: { ...of, permits: effect.permits } };
  }
}

type RequestBody = NonNullable<MessageInitShape<typeof SessionRequestSchema>["request"]>;

/** Returns a request. */
export function message(requestId: number, request: RequestBody, traceparent = ""): SessionRequest {
  return create(SessionRequestSchema, { requestId: BigInt(requestId), request, traceparent });
}

/** Callers that wait. They are numbered in the order in which they asked, and so in that in which their time is over. */
export class Replies {
  readonly #waiting = new Map<number, { readonly due: Moment; readonly call: HoldCall }>();
  #last = 0;

  /** Notes a caller, and returns its number; 0 for no caller. */
  add(now: Moment, call: HoldCall | undefined): number {
    if (!call) {
      return 0;
    }
    this.#last++;
    this.#waiting.set(this.#last, { due: after(now, ANSWER_TIMEOUT), call });
    return this.#last;
  }

  /** Returns when the first of them has waited for long enough. */
  get firstDue(): Moment {
    for (const { due } of this.#waiting.values()) {
      return due;
    }
    return NEVER;
  }

  /** Removes a caller, if it still waits. */
  take(number: number): HoldCall | undefined {
    const call = this.#waiting.get(number)?.call;
    this.#waiting.delete(number);
    return call;
  }

  /** Removes the first caller that has waited for too long. */
  takeDue(now: Moment): HoldCall | undefined {
    for (const [number, { due }] of this.#waiting) {
      return due <= now ? this.take(number) : undefined;
    }
    return undefined;
  }
}

/** Acquire that has not been answered. */
export class Waiting {
  /** Request on the present stream; 0 if it is not there. */
  sentAs = 0;
  /** Whether it waits in a queue there. */
  isQueued = false;
  /** Ids by which its place can be resumed; none if it has no place, or waits for several names one after the other. */
  ticket: Ids | undefined;

  constructor(
    readonly call: AcquireCall,
    readonly spec: AcquireSpec,
    /** The end of its wait; NEVER without a bound. */
    public deadline: Moment,
  ) {}

  /** Notes that the stream that it was sent on does not serve it any more. */
  unsend(): void {
    this.sentAs = 0;
    this.isQueued = false;
  }

  /** Notes its place in a queue. */
  queued(ticket: OwnerId): void {
    this.isQueued = true;
    this.ticket = this.spec.locks.length === 1 && ticket ? new Ids(ticket) : undefined;
  }

  /** Returns the time left of its wait; nothing if it has no bound. */
  remaining(now: Moment): number | undefined {
    return this.deadline === NEVER ? this.spec.wait : since(this.deadline, now);
  }

  /** Returns when it ends without an answer: later while a coordinator is about to give one. */
  get endsAt(): Moment {
    return this.sentAs === 0 ? this.deadline : after(this.deadline, ANSWER_GRACE);
  }
}
