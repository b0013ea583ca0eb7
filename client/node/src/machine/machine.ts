/**
 * State machine of a session over all the streams that it has in its life. It is pure: no I/O, no timer, no clock. Time is passed in, and
 * `outputs` is what is to be done. Acquires and releases may come with a time that is a little earlier than that of the input before.
 *
 * @module
 */

import { status as Code } from "@grpc/grpc-js";
import { after, type Moment, NEVER } from "../clock";
import {
  AcquireError,
  acquireRefused,
  type ConnectError,
  type Failure,
  unconnected,
} from "../errors";
import { failureOf, protocolFailure } from "../failure";
import type {
  SessionDraining,
  SessionGranted,
  SessionHeartbeatAck,
  SessionLost,
  SessionNotGranted,
  SessionResponse,
} from "../generated/leasehold/v1/session_pb";
import { AcquireOutcome } from "../generated/leasehold/v1/types_pb";
import { ReleaseRequest } from "../lease";
import { lostReason } from "../reason";
import { holderOf } from "../views";
import { fromDuration, toId } from "../wire";
import { Moving } from "./moving";
import { type AcquireCall, Change, type Effect, type HoldCall, type Waiting } from "./pending";
import { type AcquireSpec, isOf, isTry, label } from "./spec";
import type { Stream } from "./stream";

/**
 * Number of heartbeats per TTL that a session sends to a coordinator that is going away: the more recent the last one, the more of the TTL
 * is left to resume in when that coordinator has stopped.
 */
const DRAINING_HEARTBEATS = 5;
/** Time for which the store keeps the places of waiters whose coordinator has stopped. */
const PLACES_KEPT = 10_000;

/**
 * End of a stream:
 *
 * - `left`: it broke, or its coordinator left it; its holds may be resumed within the grace.
 * - `disowned`: the coordinator no longer knows who the client is. It leaves the holds for as long as it promised, and a client that is
 *   known again may resume them.
 * - `stopped`: the coordinator stopped, and left what was held to expire, and the places in queues for as long as the store keeps them:
 *   nobody else can have any of it before that, so holds stay held until their own deadlines.
 * - `by_operator`: an operator ended the session, and took everything from it.
 */
export type StreamEnd = "left" | "disowned" | "stopped" | "by_operator";

/** One session, over all the streams that it has in its life. */
export class Machine extends Moving {
  /** Begins an acquire. The id is the caller's, and rises with every acquire of this session. */
  acquire(now: Moment, id: number, spec: AcquireSpec, call: AcquireCall): void {
    this.expire(now);
    if (this.isRetired) {
      this.put({
        kind: "acquired",
        call,
        result: new AcquireError(label(spec), { kind: "closed" }),
      });
      return;
    }
    this.beginAcquire(now, id, spec, call);
  }

  /** Cancels an acquire whose caller waits no longer. Does nothing once it has been answered. */
  cancel(now: Moment, id: number): void {
    this.expire(now);
    const cancelled = this.waiting.get(id);
    if (cancelled) {
      this.waiting.delete(id);
      this.abandon(cancelled);
    }
  }

  /** Handles the release of a grant: once for each grant, even a lost one. */
  release(now: Moment, key: number, trace = "", call?: HoldCall): void {
    this.expire(now);
    this.beginRelease(now, key, trace, call);
  }

  /** Handles the request of a holder to change its hold. */
  change(now: Moment, key: number, effect: Effect, trace: string, call: HoldCall): void {
    this.expire(now);
    this.beginChange(now, new Change(key, effect, trace), call);
  }

  /**
   * Notes that no coordinator could be reached and opened a session. Callers that wanted to wait go on waiting, unless the next attempt
   * would fail as well.
   */
  connectFailed(now: Moment, error: ConnectError): void {
    this.expire(now);
    this.unreachable = error;
    const isDoomed = !error.isRetryable;
    this.failWaiting(
      (asked) => asked.sentAs === 0 && (isDoomed || isTry(asked.spec)),
      (lock) => unconnected(lock, error),
    );
  }

  /** Handles the end of the session's stream, plain or with this failure. Returns what the end means. */
  streamEndedBy(now: Moment, number: number, failure?: Failure): StreamEnd {
    // The coordinator says so, or ends the stream plainly after it said draining. A broken connection is neither: the coordinator may
    // still be there, hear of the break, and release everything.
    let end: StreamEnd = "left";
    if (failure ? failure.isDraining : this.isDraining) {
      end = "stopped";
    } else if (failure?.isUnauthenticated) {
      end = "disowned";
    } else if (failure?.reason === "SESSION_ENDED") {
      end = "by_operator";
    }
    if (failure && isOfRequest(failure) && this.stream?.number === number) {
      // On the next stream it would do the same.
      this.failWaiting(
        (asked) => asked.sentAs !== 0 && !asked.isQueued,
        (lock) => acquireRefused(lock, failure),
      );
    }
    this.streamEnded(now, number, end);
    return end;
  }

  /**
   * Handles the end of a stream. If the session was open on it, its locks are lost or suspended before anything else happens, unless its
   * coordinator stopped.
   */
  streamEnded(now: Moment, number: number, end: StreamEnd): void {
    this.expire(now);
    if (this.isNext(number)) {
      this.attemptFailed(now, "dropped");
      return;
    }
    const { stream } = this;
    if (stream?.number !== number) {
      return;
    }
    this.stream = undefined;
    const grace = this.#graceAfter(end);
    if (this.isEnding || grace === 0) {
      this.holds.endWithStream(now);
      this.putOffUnanswered(stream);
      this.giveUpUnsent();
    } else {
      this.resumeUntil = after(now, grace);
      if (end === "stopped") {
        this.stoppedUntil = Math.max(this.resumeUntil, now + PLACES_KEPT);
      } else {
        this.holds.suspend(now, end === "left" ? this.resumeUntil : NEVER);
      }
      this.putOffUnanswered(stream);
    }
    if (this.isEnding) {
      this.put({ kind: "ended" });
      return;
    }
    // A try that was on its way may have been granted and lost with the stream; asking again could find our own former hold and call it
    // busy.
    this.failWaiting((asked) => isTry(asked.spec) && asked.sentAs !== 0, unconnected);
    for (const asked of this.waiting.values()) {
      asked.unsend();
    }
    this.wakeForWaits();
    this.askNextIfDue(now);
  }

  #graceAfter(end: StreamEnd): number {
    switch (end) {
      case "left":
        return this.options.grace;
      case "by_operator":
        return 0;
      default:
        // Deadlines are earlier.
        return this.ttl;
    }
  }

  /** Fails the acquires that wait, and all later ones. What is held stays. */
  retire(now: Moment): void {
    this.expire(now);
    this.isRetired = true;
    for (const asked of this.takeWaiting(() => true)) {
      this.abandon(asked);
      this.failAcquire(asked, (lock) => new AcquireError(lock, { kind: "closed" }));
    }
  }

  /** Ends the session. Its holds are lost before the coordinator hears of it. */
  close(now: Moment): void {
    if (this.isEnding) {
      return;
    }
    this.expire(now);
    this.isRetired = true;
    this.isEnding = true;
    this.holds.endAll(now, "session_closed");
    this.failWaiting(
      () => true,
      (lock) => new AcquireError(lock, { kind: "closed" }),
    );
    this.giveUpUnsent();
    this.resumeUntil = NEVER;
    this.stoppedUntil = NEVER;
    const { next } = this;
    this.next = undefined;
    if (next && next.resuming.size > 0) {
      // What it takes over is not the present stream's any more, and has to be given back here.
      this.send(next, next.close());
      this.put({ kind: "leave", stream: next.number });
    } else if (next) {
      this.put({ kind: "hang_up", stream: next.number });
    }
    if (!this.stream) {
      this.put({ kind: "ended" });
    } else if (!this.stream.isClosing) {
      this.sendClose(now);
    }
  }

  /** Does everything that is due. */
  tick(now: Moment): void {
    this.expire(now);
    this.endWaits(now);
    this.endOverdueReplies(now);
    this.repeatReleases(now);
    if (this.resumeUntil <= now) {
      this.resumeUntil = NEVER;
      this.giveUpUnsent();
    }
    this.tickNext(now);
    if (this.stream) {
      this.#tickStream(now, this.stream);
    }
  }

  #tickStream(now: Moment, stream: Stream): void {
    const { opened } = stream;
    if (stream.isClosing) {
      if (stream.closing <= now) {
        this.#hangUp(now, stream);
      }
      return;
    }
    if (!opened) {
      return;
    }
    if (after(opened.silentFrom, opened.ttl) <= now) {
      this.options.log.warn(
        `gave up the stream to ${stream.endpoint}: no heartbeat was answered for a TTL`,
      );
      this.#hangUp(now, stream);
      return;
    }
    if (!stream.isSilent && after(opened.silentFrom, opened.ttl / 2) <= now) {
      this.options.log.info(
        `moving the session from ${stream.endpoint}: no heartbeat was answered for half the TTL`,
      );
      stream.isSilent = true;
    }
    this.tickMoveAgain(now, stream);
    if (opened.nextHeartbeat <= now) {
      const interval = stream.isDraining
        ? Math.min(opened.heartbeatInterval, opened.ttl / DRAINING_HEARTBEATS)
        : opened.heartbeatInterval;
      this.send(stream, stream.heartbeat(now, interval));
    }
  }

  #hangUp(now: Moment, stream: Stream): void {
    this.streamEnded(now, stream.number, "left");
    this.put({ kind: "hang_up", stream: stream.number });
  }

  override message(now: Moment, number: number, message: SessionResponse): void {
    this.expire(now);
    const { next, stream } = this;
    if (next?.number === number) {
      this.messageOfNext(now, next, message);
      return;
    }
    if (stream?.number !== number) {
      return;
    }
    if (!stream.isHeard) {
      if (message.response.case === "heartbeat") {
        // It lives, and keeps what has not been moved.
        stream.opened?.answered(now);
      }
      if (stream.hearing === "withheld") {
        stream.withheld.push(message);
      }
      // An end counts at once, whatever becomes of the attempt: somebody else may have the lock.
      const { response } = message;
      if (response.case === "lost") {
        this.lostInDoubt(now, response.value.locks);
      } else if (response.case === "closed") {
        this.#hangUp(now, stream);
      } else if (response.case === "draining" && !response.value.keepsServing) {
        // An end of the stream after this is the coordinator's stop, which leaves what is held.
        stream.isDraining = true;
      }
      return;
    }
    this.#heard(now, stream, message);
    this.leaveIfDrained(now);
    this.askNextIfDue(now);
  }

  #heard(now: Moment, stream: Stream, { requestId, response }: SessionResponse): void {
    const id = Number(requestId);
    const before = stream.inFlight.get(id);
    switch (response.case) {
      case "granted":
        this.#granted(now, stream, id, response.value);
        break;
      case "notGranted":
        this.#notGranted(id, response.value);
        break;
      case "released":
        this.released(now, id, response.value.released);
        break;
      case "valueSet":
        this.changed(now, id, response.value.valueSet);
        break;
      case "downgraded":
        this.changed(now, id, response.value.downgraded);
        break;
      case "reduced":
        this.changed(now, id, response.value.reduced);
        break;
      case "heartbeat":
        this.#heartbeatAcked(now, stream, response.value);
        break;
      case "lost":
        this.#lost(now, response.value);
        break;
      case "releaseRequested": {
        const asked = response.value;
        this.holds.ask(toId(asked.ownerId), now, new ReleaseRequest(asked, now));
        break;
      }
      case "draining":
        this.#drains(now, stream, response.value);
        break;
      case "closed":
        this.#hangUp(now, stream);
        break;
      case "queued":
        if (before?.kind === "acquire") {
          this.waiting.get(before.acquire)?.queued(toId(response.value.ticket));
        }
        break;
      case "error":
        this.#failed(now, id, failureOf(response.value));
        break;
      default:
      // It has been opened before. What a newer coordinator says besides is not for this client.
    }
    if (before?.kind === "abandoned" && stream.inFlight.get(id) !== before) {
      this.sendHeldBack(now, before.actor);
    }
  }

  /** Returns the acquire that this answers, if its caller still waits. It is no longer among those that wait. */
  #answeredAcquire(id: number): { acquire: number; asked: Waiting } | undefined {
    const request = this.answered(id);
    if (request?.kind !== "acquire") {
      return undefined;
    }
    const asked = this.waiting.get(request.acquire);
    this.waiting.delete(request.acquire);
    return asked && { acquire: request.acquire, asked };
  }

  #granted(now: Moment, stream: Stream, id: number, answer: SessionGranted): void {
    // Whatever was granted and has nobody to hold it is given back.
    const answered = this.#answeredAcquire(id);
    if (!answered) {
      this.giveBack(answer.locks);
      return;
    }
    const { acquire, asked } = answered;
    if (!isOf(asked.spec, answer.locks)) {
      this.giveBack(answer.locks);
      const failure = protocolFailure("the coordinator granted another lock");
      this.failAcquire(asked, (lock) => acquireRefused(lock, failure));
      return;
    }
    const sentAt = stream.heartbeats.at(answer.ackedHeartbeat);
    if (sentAt !== undefined && !stream.isClosing) {
      const deadline = this.deadline(sentAt, fromDuration(answer.validFor));
      if (now < deadline) {
        this.hold(asked, answer.locks, answer.bounded, sentAt, deadline);
        return;
      }
    }
    this.options.log.warn(
      `gave back a grant of ${label(asked.spec)} that came too late to be used`,
    );
    // Where it crossed our close, that gives it back.
    if (!stream.isClosing) {
      this.giveBack(answer.locks);
    }
    if (isTry(asked.spec)) {
      this.failAcquire(asked, unconnected);
      return;
    }
    this.waitOn(acquire, asked);
    this.sendAcquire(now, acquire);
    this.wakeForWaits();
  }

  #notGranted(id: number, { outcome, holder }: SessionNotGranted): void {
    const answered = this.#answeredAcquire(id);
    if (!answered) {
      return;
    }
    const { acquire, asked } = answered;
    // This client did not cancel it: the coordinator puts its waiters out because it goes away.
    if (outcome === AcquireOutcome.CANCELLED && this.isDraining) {
      this.waitOn(acquire, asked);
      return;
    }
    const isOver = outcome === AcquireOutcome.BUSY || outcome === AcquireOutcome.TIMED_OUT;
    const { wait } = asked.spec;
    if (!isOver || wait === undefined) {
      const failure = protocolFailure(
        `the coordinator ended the acquire unasked: outcome ${outcome}`,
      );
      this.failAcquire(asked, (lock) => acquireRefused(lock, failure));
      return;
    }
    const kind = wait === 0 ? "busy" : "timed_out";
    const parts = { kind, wait, holder: holder && holderOf(holder) } as const;
    this.failAcquire(asked, (lock) => new AcquireError(lock, parts));
  }

  #heartbeatAcked(now: Moment, stream: Stream, ack: SessionHeartbeatAck): void {
    const sentAt = stream.heartbeats.at(ack.ackedHeartbeat);
    if (sentAt === undefined) {
      this.options.log.debug("ignored an answer to a heartbeat that was never sent, or long ago");
      return;
    }
    stream.opened?.answered(now);
    if (ack.nextWithin && this.isIdle) {
      stream.opened?.rest(sentAt, fromDuration(ack.nextWithin));
    }
    this.holds.extend(this.deadline(sentAt, fromDuration(ack.validFor)));
    // No attempt to move has come to anything yet, so that there is no need any more.
    if (stream.isSilent) {
      stream.isSilent = false;
      this.sendUnsent(now);
    }
  }

  #lost(now: Moment, lost: SessionLost): void {
    for (const lock of lost.locks) {
      const reason = lostReason(lock.reason);
      this.options.log.warn(
        `lost lock ${JSON.stringify(lock.name)}, as the coordinator says: ${reason}`,
      );
      this.holds.lost(toId(lock.ownerId), now, reason);
    }
  }

  #drains(now: Moment, stream: Stream, { deadline, keepsServing }: SessionDraining): void {
    if (keepsServing) {
      this.options.log.debug(`the coordinator at ${stream.endpoint} asks the session to move`);
      this.askToMove();
      return;
    }
    stream.isDraining = true;
    if (stream.opened) {
      stream.opened.nextHeartbeat = now;
    }
    this.put({ kind: "draining", until: after(now, fromDuration(deadline)) });
  }

  #failed(now: Moment, id: number, failure: Failure): void {
    const request = this.answered(id);
    switch (request?.kind) {
      case "acquire": {
        const asked = this.waiting.get(request.acquire);
        if (!asked) {
          return;
        }
        this.waiting.delete(request.acquire);
        // What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
        const waitsOn = failure.isRetryable && failure.code !== Code.ABORTED && !isTry(asked.spec);
        if (this.isDraining && waitsOn) {
          this.waitOn(request.acquire, asked);
        } else {
          this.failAcquire(asked, (lock) => acquireRefused(lock, failure));
        }
        break;
      }
      case "release":
        this.releaseFailed(now, request.release, failure);
        break;
      case "change":
        this.reply(request.change.reply, { outcome: "refused", failure });
        break;
      case "abandoned":
        // A cancelled acquire that failed has ended as well.
        break;
      default:
        this.options.log.debug(`the coordinator could not serve a request: ${failure.message}`);
    }
  }
}

/** Returns whether a stream ended because of a request on it. */
function isOfRequest({ code, reason, isTransport }: Failure): boolean {
  const isEncoding = code === Code.INTERNAL && !isTransport && reason === "";
  return code === Code.INVALID_ARGUMENT || reason === "MESSAGE_TOO_LARGE" || isEncoding;
}
