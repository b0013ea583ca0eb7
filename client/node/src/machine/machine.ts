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
import type { Waiting } from "./pending";
import { Requests } from "./requests";
import { Resume } from "./resume";
import { isOf, isTry, label } from "./spec";
import { type MachineOptions, State } from "./state";
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
export class Machine {
  readonly state: State;
  readonly requests: Requests;
  readonly resume: Resume;
  readonly moving: Moving;

  constructor(options: MachineOptions) {
    this.state = new State(options);
    this.requests = new Requests(this.state);
    this.resume = new Resume(this.state, this.requests);
    this.moving = new Moving(this.state, this.requests, this.resume, (now, number, message) =>
      this.message(now, number, message),
    );
  }

  /**
   * Notes that no coordinator could be reached and opened a session. Callers that wanted to wait go on waiting, unless the next attempt
   * would fail as well.
   */
  connectFailed(now: Moment, error: ConnectError): void {
    this.requests.expire(now);
    this.state.unreachable = error;
    const isDoomed = !error.isRetryable;
    this.state.failWaiting(
      (asked) => asked.sentAs === 0 && (isDoomed || isTry(asked.spec)),
      (lock) => unconnected(lock, error),
    );
  }

  /** Handles the end of the session's stream, plain or with this failure. Returns what the end means. */
  streamEndedBy(now: Moment, number: number, failure?: Failure): StreamEnd {
    // The coordinator says so, or ends the stream plainly after it said draining. A broken connection is neither: the coordinator may
    // still be there, hear of the break, and release everything.
    let end: StreamEnd = "left";
    if (failure ? failure.isDraining : this.state.isDraining) {
      end = "stopped";
    } else if (failure?.isUnauthenticated) {
      end = "disowned";
    } else if (failure?.reason === "SESSION_ENDED") {
      end = "by_operator";
    }
    if (failure && isOfRequest(failure) && this.state.stream?.number === number) {
      // On the next stream it would do the same.
      this.state.failWaiting(
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
    this.requests.expire(now);
    if (this.state.isNext(number)) {
      this.moving.attemptFailed(now, "dropped");
      return;
    }
    const { stream } = this.state;
    if (stream?.number !== number) {
      return;
    }
    this.state.stream = undefined;
    const grace = this.#graceAfter(end);
    if (this.state.isEnding || grace === 0) {
      this.state.holds.endWithStream(now);
      this.state.putOffUnanswered(stream);
      this.state.giveUpUnsent();
    } else {
      this.state.resumeUntil = after(now, grace);
      if (end === "stopped") {
        this.state.stoppedUntil = Math.max(this.state.resumeUntil, now + PLACES_KEPT);
      } else {
        this.state.holds.suspend(now, end === "left" ? this.state.resumeUntil : NEVER);
      }
      this.state.putOffUnanswered(stream);
    }
    if (this.state.isEnding) {
      this.state.put({ kind: "ended" });
      return;
    }
    // A try that was on its way may have been granted and lost with the stream; asking again could find our own former hold and call it
    // busy.
    this.state.failWaiting((asked) => isTry(asked.spec) && asked.sentAs !== 0, unconnected);
    for (const asked of this.state.waiting.values()) {
      asked.unsend();
    }
    this.requests.wakeForWaits();
    this.moving.askNextIfDue(now);
  }

  #graceAfter(end: StreamEnd): number {
    switch (end) {
      case "left":
        return this.state.options.grace;
      case "by_operator":
        return 0;
      default:
        // Deadlines are earlier.
        return this.state.ttl;
    }
  }

  /** Fails the acquires that wait, and all later ones. What is held stays. */
  retire(now: Moment): void {
    this.requests.expire(now);
    this.state.isRetired = true;
    for (const asked of this.state.takeWaiting(() => true)) {
      this.requests.abandon(asked);
      this.state.fail(asked, (lock) => new AcquireError(lock, { kind: "closed" }));
    }
  }

  /** Ends the session. Its holds are lost before the coordinator hears of it. */
  close(now: Moment): void {
    if (this.state.isEnding) {
      return;
    }
    this.requests.expire(now);
    this.state.isRetired = true;
    this.state.isEnding = true;
    this.state.holds.endAll(now, "session_closed");
    this.state.failWaiting(
      () => true,
      (lock) => new AcquireError(lock, { kind: "closed" }),
    );
    this.state.giveUpUnsent();
    this.state.resumeUntil = NEVER;
    this.state.stoppedUntil = NEVER;
    const { next } = this.state;
    this.state.next = undefined;
    if (next && next.resuming.size > 0) {
      // What it takes over is not the present stream's any more, and has to be given back here.
      this.state.send(next, next.close());
      this.state.put({ kind: "leave", stream: next.number });
    } else if (next) {
      this.state.put({ kind: "hang_up", stream: next.number });
    }
    if (!this.state.stream) {
      this.state.put({ kind: "ended" });
    } else if (!this.state.stream.isClosing) {
      this.requests.sendClose(now);
    }
  }

  /** Does everything that is due. */
  tick(now: Moment): void {
    this.requests.expire(now);
    this.requests.endWaits(now);
    this.requests.endOverdueReplies(now);
    this.requests.repeatReleases(now);
    if (this.state.resumeUntil <= now) {
      this.state.resumeUntil = NEVER;
      this.state.giveUpUnsent();
    }
    this.moving.tickNext(now);
    if (this.state.stream) {
      this.#tickStream(now, this.state.stream);
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
      this.state.options.log.warn(
        `gave up the stream to ${stream.endpoint}: no heartbeat was answered for a TTL`,
      );
      this.#hangUp(now, stream);
      return;
    }
    if (!stream.isSilent && after(opened.silentFrom, opened.ttl / 2) <= now) {
      this.state.options.log.info(
        `moving the session from ${stream.endpoint}: no heartbeat was answered for half the TTL`,
      );
      stream.isSilent = true;
    }
    this.moving.tickMoveAgain(now, stream);
    if (opened.nextHeartbeat <= now) {
      const interval = stream.isDraining
        ? Math.min(opened.heartbeatInterval, opened.ttl / DRAINING_HEARTBEATS)
        : opened.heartbeatInterval;
      this.state.send(stream, stream.heartbeat(now, interval));
    }
  }

  #hangUp(now: Moment, stream: Stream): void {
    this.streamEnded(now, stream.number, "left");
    this.state.put({ kind: "hang_up", stream: stream.number });
  }

  /** Handles a message of the coordinator on this stream. */
  message(now: Moment, number: number, message: SessionResponse): void {
    this.requests.expire(now);
    const { next, stream } = this.state;
    if (next?.number === number) {
      this.moving.messageOfNext(now, next, message);
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
        this.moving.lostInDoubt(now, response.value.locks);
      } else if (response.case === "closed") {
        this.#hangUp(now, stream);
      } else if (response.case === "draining" && !response.value.keepsServing) {
        // An end of the stream after this is the coordinator's stop, which leaves what is held.
        stream.isDraining = true;
      }
      return;
    }
    this.#heard(now, stream, message);
    this.requests.leaveIfDrained(now);
    this.moving.askNextIfDue(now);
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
        this.requests.released(now, id, response.value.released);
        break;
      case "valueSet":
        this.requests.changed(now, id, response.value.valueSet);
        break;
      case "downgraded":
        this.requests.changed(now, id, response.value.downgraded);
        break;
      case "reduced":
        this.requests.changed(now, id, response.value.reduced);
        break;
      case "heartbeat":
        this.#heartbeatAcked(now, stream, response.value);
        break;
      case "lost":
        this.#lost(now, response.value);
        break;
      case "releaseRequested": {
        const asked = response.value;
        this.state.holds.ask(toId(asked.ownerId), now, new ReleaseRequest(asked, now));
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
          this.state.waiting.get(before.acquire)?.queued(toId(response.value.ticket));
        }
        break;
      case "error":
        this.#failed(now, id, failureOf(response.value));
        break;
      default:
      // It has been opened before. What a newer coordinator says besides is not for this client.
    }
    if (before?.kind === "abandoned" && stream.inFlight.get(id) !== before) {
      this.requests.sendHeldBack(now, before.actor);
    }
  }

  /** Returns the acquire that this answers, if its caller still waits. It is no longer among those that wait. */
  #answeredAcquire(id: number): { acquire: number; asked: Waiting } | undefined {
    const request = this.requests.answered(id);
    if (request?.kind !== "acquire") {
      return undefined;
    }
    const asked = this.state.waiting.get(request.acquire);
    this.state.waiting.delete(request.acquire);
    return asked && { acquire: request.acquire, asked };
  }

  #granted(now: Moment, stream: Stream, id: number, answer: SessionGranted): void {
    // Whatever was granted and has nobody to hold it is given back.
    const answered = this.#answeredAcquire(id);
    if (!answered) {
      this.requests.giveBack(answer.locks);
      return;
    }
    const { acquire, asked } = answered;
    if (!isOf(asked.spec, answer.locks)) {
      this.requests.giveBack(answer.locks);
      const failure = protocolFailure("the coordinator granted another lock");
      this.state.fail(asked, (lock) => acquireRefused(lock, failure));
      return;
    }
    const sentAt = stream.heartbeats.at(answer.ackedHeartbeat);
    if (sentAt !== undefined && !stream.isClosing) {
      const deadline = this.state.deadline(sentAt, fromDuration(answer.validFor));
      if (now < deadline) {
        this.resume.hold(asked, answer.locks, answer.bounded, sentAt, deadline);
        return;
      }
    }
    this.state.options.log.warn(
      `gave back a grant of ${label(asked.spec)} that came too late to be used`,
    );
    // Where it crossed our close, that gives it back.
    if (!stream.isClosing) {
      this.requests.giveBack(answer.locks);
    }
    if (isTry(asked.spec)) {
      this.state.fail(asked, unconnected);
      return;
    }
    this.requests.waitOn(acquire, asked);
    this.requests.sendAcquire(now, acquire);
    this.requests.wakeForWaits();
  }

  #notGranted(id: number, { outcome, holder }: SessionNotGranted): void {
    const answered = this.#answeredAcquire(id);
    if (!answered) {
      return;
    }
    const { acquire, asked } = answered;
    // This client did not cancel it: the coordinator puts its waiters out because it goes away.
    if (outcome === AcquireOutcome.CANCELLED && this.state.isDraining) {
      this.requests.waitOn(acquire, asked);
      return;
    }
    const isOver = outcome === AcquireOutcome.BUSY || outcome === AcquireOutcome.TIMED_OUT;
    const { wait } = asked.spec;
    if (!isOver || wait === undefined) {
      const failure = protocolFailure(
        `the coordinator ended the acquire unasked: outcome ${outcome}`,
      );
      this.state.fail(asked, (lock) => acquireRefused(lock, failure));
      return;
    }
    const kind = wait === 0 ? "busy" : "timed_out";
    const parts = { kind, wait, holder: holder && holderOf(holder) } as const;
    this.state.fail(asked, (lock) => new AcquireError(lock, parts));
  }

  #heartbeatAcked(now: Moment, stream: Stream, ack: SessionHeartbeatAck): void {
    const sentAt = stream.heartbeats.at(ack.ackedHeartbeat);
    if (sentAt === undefined) {
      this.state.options.log.debug(
        "ignored an answer to a heartbeat that was never sent, or long ago",
      );
      return;
    }
    stream.opened?.answered(now);
    if (ack.nextWithin && this.state.isIdle) {
      stream.opened?.rest(sentAt, fromDuration(ack.nextWithin));
    }
    this.state.holds.extend(this.state.deadline(sentAt, fromDuration(ack.validFor)));
    // No attempt to move has come to anything yet, so that there is no need any more.
    if (stream.isSilent) {
      stream.isSilent = false;
      this.requests.sendUnsent(now);
    }
  }

  #lost(now: Moment, lost: SessionLost): void {
    for (const lock of lost.locks) {
      const reason = lostReason(lock.reason);
      this.state.options.log.warn(
        `lost lock ${JSON.stringify(lock.name)}, as the coordinator says: ${reason}`,
      );
      this.state.holds.lost(toId(lock.ownerId), now, reason);
    }
  }

  #drains(now: Moment, stream: Stream, { deadline, keepsServing }: SessionDraining): void {
    if (keepsServing) {
      this.state.options.log.debug(
        `the coordinator at ${stream.endpoint} asks the session to move`,
      );
      this.moving.askToMove();
      return;
    }
    stream.isDraining = true;
    if (stream.opened) {
      stream.opened.nextHeartbeat = now;
    }
    this.state.put({ kind: "draining", until: after(now, fromDuration(deadline)) });
  }

  #failed(now: Moment, id: number, failure: Failure): void {
    const request = this.requests.answered(id);
    switch (request?.kind) {
      case "acquire": {
        const asked = this.state.waiting.get(request.acquire);
        if (!asked) {
          return;
        }
        this.state.waiting.delete(request.acquire);
        // What was aborted is about what the actor holds: a deadlock does not end by waiting on elsewhere.
        const waitsOn = failure.isRetryable && failure.code !== Code.ABORTED && !isTry(asked.spec);
        if (this.state.isDraining && waitsOn) {
          this.requests.waitOn(request.acquire, asked);
        } else {
          this.state.fail(asked, (lock) => acquireRefused(lock, failure));
        }
        break;
      }
      case "release":
        this.requests.releaseFailed(now, request.release, failure);
        break;
      case "change":
        this.state.reply(request.change.reply, { outcome: "refused", failure });
        break;
      case "abandoned":
        // A cancelled acquire that failed has ended as well.
        break;
      default:
        this.state.options.log.debug(
          `the coordinator could not serve a request: ${failure.message}`,
        );
    }
  }
}

/** Returns whether a stream ended because of a request on it. */
function isOfRequest({ code, reason, isTransport }: Failure): boolean {
  const isEncoding = code === Code.INTERNAL && !isTransport && reason === "";
  return code === Code.INVALID_ARGUMENT || reason === "MESSAGE_TOO_LARGE" || isEncoding;
}
