import { create } from "@bufbuild/protobuf";
import { type Moment, NEVER } from "../clock";
import { type AcquireError, acquireRefused, unconnected } from "../errors";
import { forceReleased, mayNotWait } from "../failure";
import {
  type BoundedLock,
  type GrantedLock,
  GrantedLockSchema,
  ResumedHoldSchema,
  type ResumedLock,
  ResumedWaitSchema,
  type SessionOpen,
  type SessionOpened,
  SessionOpenSchema,
  type SessionResume,
} from "../generated/leasehold/v1/session_pb";
import { Lease } from "../lease";
import { type LostReason, lostReason } from "../reason";
import { fromDuration, type OwnerId, toDuration, toId } from "../wire";
import type { Fate } from "./fate";
import { DONE, type Granted, type Waiting } from "./pending";
import type { Requests } from "./requests";
import { isTry, label } from "./spec";
import { inOrder, type State } from "./state";
import type { Asked, Stream } from "./stream";

/** The most bytes of resume in one message. */
const LONGEST_RESUME = 1 << 20;

/** Outcomes of the holds that were to be resumed, by their numbers: the reason of a loss, or nothing. */
type Outcomes = Map<number, LostReason | undefined>;

/** The opening of a session on another stream, and what that resumes. */
export class Resume {
  constructor(
    readonly state: State,
    readonly requests: Requests,
  ) {}

  /** Returns the messages that open the session on the next stream. */
  opens(now: Moment, next: Stream): SessionOpen[] {
    const { open, draw } = this.state.options;
    const first = create(SessionOpenSchema, {
      clientName: open.clientName,
      metadata: open.metadata,
      ...(open.ttl && { ttl: open.ttl }),
      ...(open.disconnectGrace && { disconnectGrace: open.disconnectGrace }),
    });
    const resumes: SessionResume[] = [];
    for (const { owned, token, holdCount } of this.state.holds.resumable(now)) {
      const value = create(ResumedHoldSchema, { fencingToken: token, holdCount });
      const asked = { hold: owned.number };
      resumes.push(next.resume(owned.name, owned.ids, draw(), asked, { case: "hold", value }));
      // Another coordinator's default may be shorter, and must not end what holds still count on.
      if (this.state.ttl > 0) {
        first.ttl = toDuration(this.state.ttl);
      }
    }
    for (const acquire of inOrder(this.state.waiting)) {
      const waits = this.state.waiting.get(acquire);
      if (!waits?.ticket) {
        continue;
      }
      const requestId = next.numberRequest({ kind: "acquire", acquire });
      const value = create(ResumedWaitSchema, { acquireRequestId: BigInt(requestId) });
      const wait = waits.remaining(now);
      if (wait !== undefined) {
        value.wait = toDuration(wait);
      }
      const asked = { acquire, requestId, actor: waits.spec.actor };
      const what = { case: "wait", value } as const;
      resumes.push(next.resume(label(waits.spec), waits.ticket, draw(), asked, what));
    }
    this.#countReleases(next);
    return inMessages(first, resumes);
  }

  /** Marks the releases that the counts in the request take into account already. */
  #countReleases(next: Stream): void {
    const resumed = new Set<number>();
    for (const asked of next.resuming.values()) {
      if ("hold" in asked) {
        resumed.add(asked.hold);
      }
    }
    for (const request of this.state.stream?.inFlight.values() ?? []) {
      if (request.kind === "release") {
        request.release.isCounted = resumed.has(request.release.owned.number);
      }
    }
    for (const asked of this.state.unsentReleases) {
      asked.isCounted = resumed.has(asked.owned.number);
    }
  }

  /** Ends an attempt to resume that had no result that this session knows of. */
  settleAttempt(fate: Fate): void {
    const all = [...this.state.holds.ids()];
    for (const { ticket } of this.state.waiting.values()) {
      if (ticket) {
        all.push(ticket);
      }
    }
    for (const asked of this.state.unsentReleases) {
      asked.isCounted = false;
      all.push(asked.owned.ids);
    }
    for (const ids of all) {
      if (fate === "declined") {
        ids.declined();
      } else {
        ids.unanswered();
      }
    }
  }

  /** Adds a part of the answer to open. */
  openedInPart(now: Moment, id: number, part: SessionOpened): void {
    const { next } = this.state;
    if (!next) {
      return;
    }
    if (next.opening) {
      next.opening.resumed.push(...part.resumed);
      next.opening.refused.push(...part.refused);
    } else if (next.inFlight.get(id)?.kind === "open") {
      next.inFlight.delete(id);
      next.opening = part;
    } else {
      return;
    }
    if (!part.more) {
      this.#openedOn(now, next, next.opening);
    }
  }

  /** Makes the next stream the session's own, with what it resumed. It replaces the former one. */
  #openedOn(now: Moment, next: Stream, answer: SessionOpened): void {
    const former = this.state.stream;
    this.state.next = undefined;
    // Each stream numbers its requests anew: no number of the former may be taken for one of this one.
    for (const waits of this.state.waiting.values()) {
      waits.unsend();
    }
    next.opening = undefined;
    const info = next.open(now, answer);
    this.state.ttl = info.ttl;
    this.state.stream = next;
    const known = this.state.holds.numbers();
    const outcomes = this.#resumed(now, next, answer);
    next.resuming.clear();
    let isLeftBehind = false;
    for (const number of known) {
      if (outcomes.has(number)) {
        continue;
      }
      isLeftBehind = true;
      // Lost, but it may be with another stream that did not answer: then it is still to be given back.
      if (!this.state.holds.isInDoubt(number)) {
        this.state.holds.forget(number, now, "session_ended");
      }
    }
    if (former) {
      this.#leave(former, isLeftBehind);
    }
    this.state.resumeUntil = NEVER;
    this.state.stoppedUntil = NEVER;
    this.state.unreachable = undefined;
    this.state.put({ kind: "opened", stream: next.number, info });
    this.#settleUnsent(outcomes, former !== undefined);
    this.requests.sendUnsent(now);
    this.requests.wakeForWaits();
  }

  /** Settles what the new stream was asked to resume. */
  #resumed(now: Moment, stream: Stream, answer: SessionOpened): Outcomes {
    const sentAt = stream.heartbeats.began;
    const deadline = this.state.deadline(sentAt, fromDuration(answer.validFor));
    const outcomes: Outcomes = new Map();
    const refused = new Map<OwnerId, LostReason>();
    for (const lock of answer.refused) {
      refused.set(toId(lock.ownerId), lostReason(lock.reason));
    }
    const resumed = new Map<OwnerId, ResumedLock>();
    for (const lock of answer.resumed) {
      resumed.set(toId(lock.ownerId), lock);
    }
    for (const [next, asked] of stream.resuming) {
      const lock = resumed.get(next);
      const reason = refused.get(next);
      if ("acquire" in asked) {
        this.#resumedPlace(now, asked, lock, reason, sentAt, deadline);
      } else if (lock) {
        outcomes.set(asked.hold, undefined);
        const endsAt = lock.endsIn ? this.state.deadline(sentAt, fromDuration(lock.endsIn)) : NEVER;
        this.state.holds.resumed(asked.hold, now, deadline, endsAt);
      } else {
        // What a coordinator says nothing of has ended with the stream before.
        const lost = reason ?? "session_ended";
        outcomes.set(asked.hold, lost);
        this.state.holds.forget(asked.hold, now, lost);
      }
    }
    return outcomes;
  }

  #resumedPlace(
    now: Moment,
    asked: Exclude<Asked, { hold: number }>,
    lock: ResumedLock | undefined,
    reason: LostReason | undefined,
    sentAt: Moment,
    deadline: Moment,
  ): void {
    if (lock) {
      this.#resumedWait(now, asked, lock, sentAt, deadline);
    } else if (reason === "forced") {
      this.#endedWait(asked, (name) => acquireRefused(name, forceReleased()));
    } else if (reason === "permission_revoked") {
      this.#endedWait(asked, (name) => acquireRefused(name, mayNotWait()));
    } else {
      this.requests.answered(asked.requestId);
      this.requests.askAgain(asked.acquire);
    }
  }

  /** Fails an acquire whose place was refused for good. */
  #endedWait(
    asked: { acquire: number; requestId: number },
    error: (lock: string) => AcquireError,
  ): void {
    this.requests.answered(asked.requestId);
    const waits = this.state.waiting.get(asked.acquire);
    if (waits) {
      this.state.waiting.delete(asked.acquire);
      this.state.fail(waits, error);
    }
  }

  #resumedWait(
    now: Moment,
    asked: { acquire: number; requestId: number; actor: number },
    lock: ResumedLock,
    sentAt: Moment,
    deadline: Moment,
  ): void {
    const waits = this.state.waiting.get(asked.acquire);
    if (lock.what.case === "hold") {
      // It has come to a grant.
      this.requests.answered(asked.requestId);
      const { fencingToken, holdCount } = lock.what.value;
      const grant = create(GrantedLockSchema, {
        name: lock.name,
        ownerId: lock.ownerId,
        fencingToken,
        holdCount: Math.max(holdCount, 1),
        permits: lock.permits,
      });
      if (waits && now < deadline) {
        this.state.waiting.delete(asked.acquire);
        this.hold(waits, [grant], [lock], sentAt, deadline);
      } else {
        this.requests.giveBack([grant]);
        this.requests.askAgain(asked.acquire);
      }
    } else if (waits) {
      waits.sentAs = asked.requestId;
      waits.isQueued = true;
      waits.ticket?.resumed();
    } else if (this.state.stream) {
      // Nobody waits for it any more.
      this.state.send(this.state.stream, this.state.stream.cancel(asked.requestId, asked.actor));
    }
  }

  /**
   * Hands the granted locks to the caller. They are good until the deadline, or until their bounds, which count from when the heartbeat
   * was sent that the coordinator had heard.
   */
  hold(
    asked: Waiting,
    locks: readonly GrantedLock[],
    bounded: readonly Pick<BoundedLock, "ownerId" | "endsIn">[],
    sentAt: Moment,
    deadline: Moment,
  ): void {
    const result: Granted[] = locks.map((lock, index) => {
      const id = toId(lock.ownerId);
      const bound = bounded.find(({ ownerId }) => toId(ownerId) === id)?.endsIn;
      const endsAt = bound ? this.state.deadline(sentAt, fromDuration(bound)) : NEVER;
      // Coordinators that name no number grant all that was asked for.
      const permits = lock.permits || (asked.spec.locks[index]?.permits ?? 0);
      const lease = new Lease(lock.name, lock.fencingToken, permits, deadline, endsAt);
      const key = this.state.holds.insert(
        lease,
        id,
        asked.spec.lockDelay,
        Math.min(deadline, endsAt),
      );
      return { key, lease, holdCount: lock.holdCount };
    });
    this.state.put({ kind: "acquired", call: asked.call, result });
  }

  /** Closes the stream that the session has moved from: no grant owns the holds that are left on it. */
  #leave(former: Stream, isLeftBehind: boolean): void {
    // What is lost, but is to stay closed for its lock-delay, must not be released cleanly.
    if (!former.isClosing && !isLeftBehind) {
      this.state.send(former, former.close());
    }
    for (const acquire of this.state.putOffUnanswered(former)) {
      // With a number again it was resumed.
      const asked = this.state.waiting.get(acquire);
      if (asked?.sentAs !== 0) {
        continue;
      }
      if (isTry(asked.spec)) {
        // It may have been granted, and asking again could find that.
        this.state.waiting.delete(acquire);
        this.state.fail(asked, unconnected);
      } else {
        this.requests.askAgain(acquire);
      }
    }
  }

  /** Settles the releases from before the stream opened: the resume carried them out, or they are still to be sent. */
  #settleUnsent(outcomes: Outcomes, hasMoved: boolean): void {
    const releases = this.state.unsentReleases;
    this.state.unsentReleases = [];
    for (const asked of releases) {
      const { number } = asked.owned;
      const reason = outcomes.get(number);
      if (outcomes.has(number) && asked.isCounted) {
        this.state.reply(asked.reply, reason ? { outcome: "lost", reason } : DONE);
        continue;
      }
      if (!outcomes.has(number)) {
        // It was not to be taken over: the end of the stream before gives it back too, whichever is first.
        asked.isAgain ||= hasMoved;
      } else if (!reason) {
        // It is known by what is its own now.
        asked.owned.ids.resumed();
      }
      asked.isCounted = false;
      asked.index = 0;
      this.state.unsentReleases.push(asked);
    }
  }
}

/** Returns the messages of an open with these resumes: the first one, and as many more as it takes. */
function inMessages(first: SessionOpen, resumes: SessionResume[]): SessionOpen[] {
  const opens = [first];
  let last = first;
  let size = 0;
  for (const resume of resumes) {
    // Generous, for what is around it.
    const length = Buffer.byteLength(resume.name) + 20 * (2 + resume.triedOwnerIds.length) + 64;
    size += length;
    if (size > LONGEST_RESUME) {
      size = length;
      last.more = true;
      last = create(SessionOpenSchema);
      opens.push(last);
    }
    last.resume.push(resume);
  }
  return opens;
}
