import { type Moment, NEVER } from "../clock";
import { AcquireError, type Failure, unconnected } from "../errors";
import type { GrantedLock } from "../generated/leasehold/v1/session_pb";
import { toBytes } from "../wire";
import {
  type AcquireCall,
  Change,
  DONE,
  type Effect,
  type HoldCall,
  message,
  Release,
  UNCONFIRMED,
  unheld,
  Waiting,
} from "./pending";
import { type AcquireSpec, acquireMessage, isTry, label } from "./spec";
import { inOrder, type State } from "./state";
import type { InFlight } from "./stream";

/** Longest wait for the answer to a close; after it, the stream is cut. */
export const CLOSE_TIMEOUT = 2000;

/**
 * Requests of callers on the present stream: acquires, releases and changes of holds. The session repeats a release that the coordinator
 * could not serve.
 *
 * Of a hold that has several grants, every release but the last only counts down, which no coordinator needs a store for: it can't fail.
 * So what is repeated is the last release of a hold, done already or not, and takes nothing from anybody.
 */
export class Requests {
  constructor(readonly state: State) {}

  /** Ends the holds whose deadline has passed. Every input begins with this: an answer that comes after a deadline must find the lock
   * lost. */
  expire(now: Moment): void {
    for (const over of this.state.holds.expire(now)) {
      this.state.options.log.warn(`lost lock ${JSON.stringify(over.name)}; giving it back`);
      const release = new Release(over);
      release.isExpired = true;
      this.sendRelease(release);
    }
  }

  /** Begins an acquire. The id is the caller's, and rises with every acquire of this session. */
  acquire(now: Moment, id: number, spec: AcquireSpec, call: AcquireCall): void {
    this.expire(now);
    if (this.state.isRetired) {
      const result = new AcquireError(label(spec), { kind: "closed" });
      this.state.put({ kind: "acquired", call, result });
      return;
    }
    const asked = new Waiting(call, spec, spec.wait ? now + spec.wait : NEVER);
    this.state.waitsEndAt = Math.min(this.state.waitsEndAt, asked.deadline);
    this.state.waiting.set(id, asked);
    this.sendAcquire(now, id);
  }

  /** Cancels an acquire whose caller waits no longer. Does nothing once it has been answered. */
  cancel(now: Moment, id: number): void {
    this.expire(now);
    const cancelled = this.state.waiting.get(id);
    if (cancelled) {
      this.state.waiting.delete(id);
      this.abandon(cancelled);
    }
  }

  sendAcquire(now: Moment, id: number): void {
    const asked = this.state.waiting.get(id);
    const { next, stream } = this.state;
    if (
      !stream?.accepts ||
      next ||
      !asked ||
      asked.sentAs !== 0 ||
      stream.holdsBack(asked.spec.actor, id)
    ) {
      return;
    }
    this.state.send(stream, stream.wake(now));
    asked.sentAs = stream.numberRequest({ kind: "acquire", acquire: id });
    const value = acquireMessage(asked.spec, asked.remaining(now));
    this.state.send(stream, message(asked.sentAs, { case: "acquire", value }, asked.spec.trace));
    if (isTry(asked.spec)) {
      asked.deadline = now;
      this.state.waitsEndAt = Math.min(this.state.waitsEndAt, asked.endsAt);
    }
  }

  /** Sends the acquires of this actor that were held back, after an abandoned one has been answered and its grant given back. */
  sendHeldBack(now: Moment, actor: number): void {
    for (const id of this.state.stream?.abandonedAnswered(actor) ?? []) {
      this.sendAcquire(now, id);
    }
  }

  /** Sets the alarm for the earliest end of a wait. */
  wakeForWaits(): void {
    this.state.waitsEndAt = NEVER;
    for (const asked of this.state.waiting.values()) {
      this.state.waitsEndAt = Math.min(this.state.waitsEndAt, asked.endsAt);
    }
  }

  endWaits(now: Moment): void {
    if (now < this.state.waitsEndAt) {
      return;
    }
    for (const ended of this.state.takeWaiting((asked) => asked.endsAt <= now)) {
      this.abandon(ended);
      // Only a coordinator can say that a lock was busy all the while; here none did.
      this.state.fail(ended, (lock) => unconnected(lock, this.state.unreachable));
    }
    this.wakeForWaits();
  }

  /** Tells the coordinator that the caller waits no longer, and remembers to give back a grant that crosses the message. */
  abandon(asked: Waiting): void {
    if (this.state.stream && asked.sentAs !== 0) {
      this.state.send(this.state.stream, this.state.stream.cancel(asked.sentAs, asked.spec.actor));
    } else if (!this.state.stream && asked.ticket) {
      // It may have come to a grant meanwhile.
      this.putOff(new Release({ name: label(asked.spec), ids: asked.ticket, number: 0 }));
    }
  }

  /** Asks for an acquire from the start, on the next stream that takes acquires. */
  askAgain(acquire: number): void {
    const asked = this.state.waiting.get(acquire);
    if (asked) {
      asked.unsend();
      asked.ticket = undefined;
    }
  }

  /** Lets an acquire wait on, to be asked for again. */
  waitOn(acquire: number, asked: Waiting): void {
    this.state.waiting.set(acquire, asked);
    this.askAgain(acquire);
    this.wakeForWaits();
  }

  /** Returns the request that this answers, if it is still in flight. */
  answered(id: number): InFlight | undefined {
    const request = this.state.stream?.inFlight.get(id);
    this.state.stream?.inFlight.delete(id);
    return request;
  }

  /** Handles the release of a grant: once for each grant, even a lost one. */
  release(now: Moment, key: number, trace = "", call?: HoldCall): void {
    this.expire(now);
    const reply = this.state.replies.add(now, call);
    const found = this.state.holds.remove(key);
    if ("reason" in found) {
      this.state.reply(reply, { outcome: "lost", reason: found.reason });
      return;
    }
    this.sendRelease(new Release(found.owned, reply, trace));
    this.leaveIfDrained(now);
  }

  /** Sends a release. A hold that was granted three times is released three times. */
  sendRelease(asked: Release): void {
    const { stream } = this.state;
    if (!stream || !this.state.takesChanges) {
      this.putOff(asked);
      return;
    }
    const id = asked.owned.ids.nth(asked.index);
    if (id === undefined) {
      return;
    }
    const number = stream.numberRequest({ kind: "release", release: asked });
    const value = { name: asked.owned.name, ownerId: toBytes(id), expired: asked.isExpired };
    asked.isExpired = false;
    this.state.send(stream, message(number, { case: "release", value }, asked.trace));
  }

  /** Keeps it for the next stream, if there may be anything left to give back then. */
  putOff(asked: Release): void {
    if (this.state.stream || this.state.canResume || asked.owned.ids.areInDoubt) {
      this.state.unsentReleases.push(asked);
    } else {
      this.state.reply(asked.reply, UNCONFIRMED);
    }
  }

  giveBack(locks: readonly GrantedLock[]): void {
    for (const lock of locks) {
      this.sendRelease(new Release(unheld(lock.name, lock.ownerId)));
    }
  }

  released(now: Moment, id: number, wasReleased: boolean): void {
    const request = this.answered(id);
    if (request?.kind !== "release") {
      return;
    }
    const asked = request.release;
    if (!wasReleased && asked.owned.ids.nth(asked.index + 1) !== undefined) {
      asked.index++;
      asked.isAgain = true;
      this.sendRelease(asked);
      return;
    }
    if (wasReleased || asked.isAgain) {
      this.state.reply(asked.reply, DONE);
    } else {
      // Nor is it held for other grants of the same hold.
      this.state.holds.forget(asked.owned.number, now, "unknown");
      this.state.reply(asked.reply, { outcome: "lost", reason: "unknown" });
    }
    this.leaveIfDrained(now);
  }

  releaseFailed(now: Moment, asked: Release, failure: Failure): void {
    const { reply } = asked;
    asked.reply = 0;
    // Nobody else would give it back, and the coordinator goes on renewing it.
    if (failure.isRetryable) {
      asked.putOff(now, failure.retryAfter);
      this.state.unsentReleases.push(asked);
    } else {
      const lock = JSON.stringify(asked.owned.name);
      this.state.options.log.warn(`the release of lock ${lock} was refused: ${failure.message}`);
    }
    this.state.reply(reply, { outcome: "refused", failure });
  }

  repeatReleases(now: Moment): void {
    const due = this.state.unsentReleases.filter((asked) => asked.retryAt <= now);
    if (due.length === 0) {
      return;
    }
    this.state.unsentReleases = this.state.unsentReleases.filter((asked) => asked.retryAt > now);
    for (const asked of due) {
      asked.retryAt = NEVER;
      this.sendRelease(asked);
    }
  }

  /** Handles the request of a holder to change its hold. */
  change(now: Moment, key: number, effect: Effect, trace: string, call: HoldCall): void {
    this.expire(now);
    const asked = new Change(key, effect, trace);
    asked.reply = this.state.replies.add(now, call);
    this.sendChange(now, asked);
  }

  /** Asks for a change, now or on the next stream. */
  sendChange(now: Moment, asked: Change): void {
    const found = this.state.holds.owned(asked.key, now);
    if ("reason" in found) {
      this.state.reply(asked.reply, { outcome: "lost", reason: found.reason });
    } else if (this.state.stream && this.state.takesChanges) {
      const number = this.state.stream.numberRequest({ kind: "change", change: asked });
      this.state.send(this.state.stream, asked.message(found.owned, number));
    } else {
      // For the stream that takes it over, if there is one in time.
      this.state.unsentChanges.push(asked);
    }
  }

  changed(now: Moment, id: number, wasChanged: boolean): void {
    const request = this.answered(id);
    if (request?.kind !== "change") {
      return;
    }
    const { key, reply } = request.change;
    if (wasChanged) {
      this.state.reply(reply, DONE);
    } else {
      this.state.reply(reply, {
        outcome: "lost",
        reason: this.state.holds.gone(key, now, "unknown"),
      });
    }
  }

  /** Tells callers that have waited for too long that their request is not confirmed. */
  endOverdueReplies(now: Moment): void {
    for (let call = this.state.replies.takeDue(now); call; call = this.state.replies.takeDue(now)) {
      this.state.put({ kind: "hold_done", call, result: UNCONFIRMED });
    }
  }

  /**
   * Closes the session at a coordinator that goes away, unless there is something that could move: a hold, a place in a queue, or a
   * request without its answer.
   */
  leaveIfDrained(now: Moment): void {
    const { stream } = this.state;
    if (!stream?.isDraining || stream.isClosing || !stream.isHeard || this.state.next) {
      return;
    }
    if (
      this.state.unsentReleases.length > 0 ||
      !this.state.holds.isEmpty ||
      this.state.isUnsettled
    ) {
      return;
    }
    for (const request of stream.inFlight.values()) {
      if (request.kind === "acquire") {
        return;
      }
    }
    this.sendClose(now);
  }

  sendClose(now: Moment): void {
    if (this.state.stream) {
      this.state.stream.closing = now + CLOSE_TIMEOUT;
      this.state.send(this.state.stream, this.state.stream.close());
    }
  }

  /** Puts all that could not be asked so far on the stream, as far as it takes it. */
  sendUnsent(now: Moment): void {
    if (this.state.takesChanges) {
      const changes = this.state.unsentChanges;
      this.state.unsentChanges = [];
      for (const asked of changes) {
        this.sendChange(now, asked);
      }
      const anew = this.state.unsentReleases.filter((asked) => asked.retryAt === NEVER);
      this.state.unsentReleases = this.state.unsentReleases.filter(
        (asked) => asked.retryAt !== NEVER,
      );
      for (const asked of anew) {
        this.sendRelease(asked);
      }
    }
    for (const id of inOrder(this.state.waiting)) {
      this.sendAcquire(now, id);
    }
  }
}
