import { type Moment, NEVER } from "../clock";
import { type AcquireError, type Failure, unconnected } from "../errors";
import type { GrantedLock } from "../generated/leasehold/v1/session_pb";
import { toBytes } from "../wire";
import {
  type AcquireCall,
  type Change,
  DONE,
  type HoldCall,
  message,
  Release,
  UNCONFIRMED,
  unheld,
  Waiting,
} from "./pending";
import { type AcquireSpec, acquireMessage, isTry, label } from "./spec";
import { inOrder, State } from "./state";
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
export class Requests extends State {
  /** Ends the holds whose deadline has passed. Every input begins with this: an answer that comes after a deadline must find the lock
   * lost. */
  protected expire(now: Moment): void {
    for (const over of this.holds.expire(now)) {
      this.options.log.warn(`lost lock ${JSON.stringify(over.name)}; giving it back`);
      const release = new Release(over);
      release.isExpired = true;
      this.sendRelease(release);
    }
  }

  protected beginAcquire(now: Moment, id: number, spec: AcquireSpec, call: AcquireCall): void {
    const asked = new Waiting(call, spec, spec.wait ? now + spec.wait : NEVER);
    this.waitsEndAt = Math.min(this.waitsEndAt, asked.deadline);
    this.waiting.set(id, asked);
    this.sendAcquire(now, id);
  }

  protected sendAcquire(now: Moment, id: number): void {
    const asked = this.waiting.get(id);
    const { next, stream } = this;
    if (
      !stream?.accepts ||
      next ||
      !asked ||
      asked.sentAs !== 0 ||
      stream.holdsBack(asked.spec.actor, id)
    ) {
      return;
    }
    this.send(stream, stream.wake(now));
    asked.sentAs = stream.numberRequest({ kind: "acquire", acquire: id });
    const value = acquireMessage(asked.spec, asked.remaining(now));
    this.send(stream, message(asked.sentAs, { case: "acquire", value }, asked.spec.trace));
    if (isTry(asked.spec)) {
      asked.deadline = now;
      this.waitsEndAt = Math.min(this.waitsEndAt, asked.endsAt);
    }
  }

  /** Sends the acquires of this actor that were held back, after an abandoned one has been answered and its grant given back. */
  protected sendHeldBack(now: Moment, actor: number): void {
    for (const id of this.stream?.abandonedAnswered(actor) ?? []) {
      this.sendAcquire(now, id);
    }
  }

  /** Sets the alarm for the earliest end of a wait. */
  protected wakeForWaits(): void {
    this.waitsEndAt = NEVER;
    for (const asked of this.waiting.values()) {
      this.waitsEndAt = Math.min(this.waitsEndAt, asked.endsAt);
    }
  }

  protected endWaits(now: Moment): void {
    if (now < this.waitsEndAt) {
      return;
    }
    for (const ended of this.takeWaiting((asked) => asked.endsAt <= now)) {
      this.abandon(ended);
      // Only a coordinator can say that a lock was busy all the while; here none did.
      this.fail(ended, unconnected(label(ended.spec), this.unreachable));
    }
    this.wakeForWaits();
  }

  /** Tells the coordinator that the caller waits no longer, and remembers to give back a grant that crosses the message. */
  protected abandon(asked: Waiting): void {
    if (this.stream && asked.sentAs !== 0) {
      this.send(this.stream, this.stream.cancel(asked.sentAs, asked.spec.actor));
    } else if (!this.stream && asked.ticket) {
      // It may have come to a grant meanwhile.
      this.putOff(new Release({ name: label(asked.spec), ids: asked.ticket, number: 0 }));
    }
  }

  /** Asks for an acquire from the start, on the next stream that takes acquires. */
  protected askAgain(acquire: number): void {
    const asked = this.waiting.get(acquire);
    if (asked) {
      asked.unsend();
      asked.ticket = undefined;
    }
  }

  /** Lets an acquire wait on, to be asked for again. */
  protected waitOn(acquire: number, asked: Waiting): void {
    this.waiting.set(acquire, asked);
    this.askAgain(acquire);
    this.wakeForWaits();
  }

  /** Returns the request that this answers, if it is still in flight. */
  protected answered(id: number): InFlight | undefined {
    const request = this.stream?.inFlight.get(id);
    this.stream?.inFlight.delete(id);
    return request;
  }

  protected beginRelease(
    now: Moment,
    key: number,
    trace: string,
    call: HoldCall | undefined,
  ): void {
    const reply = this.replies.add(now, call);
    const found = this.holds.remove(key);
    if ("reason" in found) {
      this.reply(reply, { outcome: "lost", reason: found.reason });
      return;
    }
    this.sendRelease(new Release(found.owned, reply, trace));
    this.leaveIfDrained(now);
  }

  /** Sends a release. A hold that was granted three times is released three times. */
  protected sendRelease(asked: Release): void {
    const { stream } = this;
    if (!stream || !this.takesChanges) {
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
    this.send(stream, message(number, { case: "release", value }, asked.trace));
  }

  /** Keeps it for the next stream, if there may be anything left to give back then. */
  protected putOff(asked: Release): void {
    if (this.stream || this.canResume || asked.owned.ids.areInDoubt) {
      this.unsentReleases.push(asked);
    } else {
      this.reply(asked.reply, UNCONFIRMED);
    }
  }

  protected giveBack(locks: readonly GrantedLock[]): void {
    for (const lock of locks) {
      this.sendRelease(new Release(unheld(lock.name, lock.ownerId)));
    }
  }

  protected released(now: Moment, id: number, wasReleased: boolean): void {
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
      this.reply(asked.reply, DONE);
    } else {
      // Nor is it held for other grants of the same hold.
      this.holds.forget(asked.owned.number, now, "unknown");
      this.reply(asked.reply, { outcome: "lost", reason: "unknown" });
    }
    this.leaveIfDrained(now);
  }

  protected releaseFailed(now: Moment, asked: Release, failure: Failure): void {
    const { reply } = asked;
    asked.reply = 0;
    // Nobody else would give it back, and the coordinator goes on renewing it.
    if (failure.isRetryable) {
      asked.putOff(now, failure.retryAfter);
      this.unsentReleases.push(asked);
    } else {
      const lock = JSON.stringify(asked.owned.name);
      this.options.log.warn(`the release of lock ${lock} was refused: ${failure.message}`);
    }
    this.reply(reply, { outcome: "refused", failure });
  }

  protected repeatReleases(now: Moment): void {
    const due = this.unsentReleases.filter((asked) => asked.retryAt <= now);
    if (due.length === 0) {
      return;
    }
    this.unsentReleases = this.unsentReleases.filter((asked) => asked.retryAt > now);
    for (const asked of due) {
      asked.retryAt = NEVER;
      this.sendRelease(asked);
    }
  }

  protected beginChange(now: Moment, asked: Change, call: HoldCall): void {
    asked.reply = this.replies.add(now, call);
    this.sendChange(now, asked);
  }

  /** Asks for a change, now or on the next stream. */
  protected sendChange(now: Moment, asked: Change): void {
    const found = this.holds.owned(asked.key, now);
    if ("reason" in found) {
      this.reply(asked.reply, { outcome: "lost", reason: found.reason });
    } else if (this.stream && this.takesChanges) {
      const number = this.stream.numberRequest({ kind: "change", change: asked });
      this.send(this.stream, asked.message(found.owned, number));
    } else {
      // For the stream that takes it over, if there is one in time.
      this.unsentChanges.push(asked);
    }
  }

  protected changed(now: Moment, id: number, wasChanged: boolean): void {
    const request = this.answered(id);
    if (request?.kind !== "change") {
      return;
    }
    const { key, reply } = request.change;
    if (wasChanged) {
      this.reply(reply, DONE);
    } else {
      this.reply(reply, { outcome: "lost", reason: this.holds.gone(key, now, "unknown") });
    }
  }

  /** Tells callers that have waited for too long that their request is not confirmed. */
  protected endOverdueReplies(now: Moment): void {
    for (let call = this.replies.takeDue(now); call; call = this.replies.takeDue(now)) {
      this.put({ kind: "hold_done", call, result: UNCONFIRMED });
    }
  }

  /**
   * Closes the session at a coordinator that goes away, unless there is something that could move: a hold, a place in a queue, or a
   * request without its answer.
   */
  protected leaveIfDrained(now: Moment): void {
    const { stream } = this;
    if (!stream?.isDraining || stream.isClosing || !stream.isHeard || this.next) {
      return;
    }
    if (this.unsentReleases.length > 0 || !this.holds.isEmpty || this.isUnsettled) {
      return;
    }
    for (const request of stream.inFlight.values()) {
      if (request.kind === "acquire") {
        return;
      }
    }
    this.sendClose(now);
  }

  protected sendClose(now: Moment): void {
    if (this.stream) {
      this.stream.closing = now + CLOSE_TIMEOUT;
      this.send(this.stream, this.stream.close());
    }
  }

  /** Puts all that could not be asked so far on the stream, as far as it takes it. */
  protected sendUnsent(now: Moment): void {
    if (this.takesChanges) {
      const changes = this.unsentChanges;
      this.unsentChanges = [];
      for (const asked of changes) {
        this.sendChange(now, asked);
      }
      const anew = this.unsentReleases.filter((asked) => asked.retryAt === NEVER);
      this.unsentReleases = this.unsentReleases.filter((asked) => asked.retryAt !== NEVER);
      for (const asked of anew) {
        this.sendRelease(asked);
      }
    }
    for (const id of inOrder(this.waiting)) {
      this.sendAcquire(now, id);
    }
  }

  /** Fails an acquire that is answered by an error. */
  protected failAcquire(asked: Waiting, error: (lock: string) => AcquireError): void {
    this.fail(asked, error(label(asked.spec)));
  }
}
