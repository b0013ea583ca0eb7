import { after, type Moment, NEVER } from "../clock";
import type { Lease, ReleaseRequest } from "../lease";
import type { EndReason, LostReason } from "../reason";
import type { OwnerId } from "../wire";
import { Ids } from "./ids";
import type { Owned } from "./pending";

/** One grant of a hold, with its lease. */
interface Guarded {
  readonly key: number;
  readonly lease: Lease;
  readonly lockDelay: number;
  /**
   * Set once the deadline has passed, while as far as the session knows the coordinator still has the hold. It is given back at this
   * moment: at once, or after the lock-delay that was asked for, which is there for work that stops late.
   */
  releaseAt: Moment;
}

/** A coordinator's hold for this session, under one owner id. */
interface Hold {
  readonly owned: Owned;
  /** Its grants, in the order of their keys; never none. */
  guards: Guarded[];
}

/** What the session knows of one grant: the number of its hold, or why the coordinator does not have it any more. */
type Known = { readonly number: number } | { readonly lost: EndReason };

/** Either the identity of a hold, or why there is none. */
export type Found = { readonly owned: Owned } | { readonly reason: EndReason };

/**
 * Locks that a session holds, from their grant until they are released. Those that an actor was granted again have several grants, which
 * share an owner id: the coordinator loses them together, while each is given back for itself.
 */
export class Holds {
  readonly #byKey = new Map<number, Known>();
  /** The coordinator's holds, by the session's own numbers, which rise with their grants. */
  readonly #held = new Map<number, Hold>();
  /** Their numbers by the owner ids under which they were last confirmed. */
  readonly #byOwner = new Map<OwnerId, number>();
  #lastKey = 0;
  /** A lower bound: nothing needs to be done before it. Made exact whenever it has passed. */
  checkAt: Moment = NEVER;

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  /** Returns the numbers of all holds, in the order of their grants. */
  numbers(): number[] {
    return [...this.#held.keys()];
  }

  /** Returns the ids of all holds. */
  *ids(): Iterable<Ids> {
    for (const { owned } of this.#held.values()) {
      yield owned.ids;
    }
  }

  /** Adds a grant, and returns its key. */
  insert(lease: Lease, id: OwnerId, lockDelay: number, deadline: Moment): number {
    const key = ++this.#lastKey;
    this.checkAt = Math.min(this.checkAt, deadline);
    let number = this.#byOwner.get(id);
    let held = number === undefined ? undefined : this.#held.get(number);
    if (number === undefined || !held) {
      // Keys are never used again, so that the first one can number the hold too.
      number = key;
      held = { owned: { name: lease.name, ids: new Ids(id), number }, guards: [] };
      this.#held.set(number, held);
      this.#byOwner.set(id, number);
    }
    held.guards.push({ key, lease, lockDelay, releaseAt: NEVER });
    this.#byKey.set(key, { number });
    return key;
  }

  /** Forgets a grant that is released. Returns its hold, or why there is nothing to release. */
  remove(key: number): Found {
    const known = this.#byKey.get(key);
    this.#byKey.delete(key);
    if (!known) {
      return { reason: "released" };
    }
    if ("lost" in known) {
      return { reason: known.lost };
    }
    const owned = this.#unlink(known.number, key);
    return owned ? { owned } : { reason: "released" };
  }

  /** Returns the identity of a hold, unless its grant has lost it. */
  owned(key: number, now: Moment): Found {
    const known = this.#byKey.get(key);
    if (!known) {
      return { reason: "released" };
    }
    if ("lost" in known) {
      return { reason: known.lost };
    }
    const held = this.#held.get(known.number);
    const guard = held?.guards.find((guarded) => guarded.key === key);
    if (!held || !guard) {
      return { reason: "unknown" };
    }
    const reason = guard.lease.endReason(now);
    return reason === undefined ? { owned: held.owned } : { reason };
  }

  /** Handles the coordinator's message that it does not have this hold any more: every grant of it has lost it. */
  lost(id: OwnerId, now: Moment, reason: LostReason): void {
    const number = this.#byOwner.get(id);
    if (number !== undefined) {
      this.forget(number, now, reason);
    }
  }

  /** Handles the coordinator's message that an operator asks for the release of this lock: it concerns every grant of it. */
  ask(id: OwnerId, now: Moment, request: ReleaseRequest): void {
    for (const guard of this.#held.get(this.#byOwner.get(id) ?? 0)?.guards ?? []) {
      guard.lease.ask(now, request);
    }
  }

  /** Removes a hold that the coordinator does not have any more: every grant of it has lost it. */
  forget(number: number, now: Moment, reason: LostReason): void {
    const held = this.#held.get(number);
    if (!held) {
      return;
    }
    this.#held.delete(number);
    this.#byOwner.delete(held.owned.ids.confirmed);
    for (const { key, lease } of held.guards) {
      lease.end(now, reason);
      const first = lease.endReason(now) ?? reason;
      // One that had reported another end before keeps that.
      this.#byKey.set(key, { lost: first === "released" ? reason : first });
    }
  }

  /** Removes the hold of this grant, which the coordinator does not know. Returns the reason of the loss. */
  gone(key: number, now: Moment, reason: LostReason): EndReason {
    const known = this.#byKey.get(key);
    if (known && "number" in known) {
      this.forget(known.number, now, reason);
    }
    const became = this.#byKey.get(key);
    return became && "lost" in became ? became.lost : "released";
  }

  /** Extends every hold after the answer to a heartbeat: all are good until then at least. */
  extend(to: Moment): void {
    for (const { lease } of this.#guards()) {
      lease.extend(to);
    }
  }

  /** Ends the holds that have passed their deadlines. Returns those to give back now, in the order of their grants. */
  expire(now: Moment): Owned[] {
    if (now < this.checkAt) {
      return [];
    }
    this.checkAt = NEVER;
    const due: { number: number; guard: Guarded }[] = [];
    for (const [number, held] of this.#held) {
      for (const guard of held.guards) {
        const next = nextCheck(guard, now);
        if (now < next) {
          this.checkAt = Math.min(this.checkAt, next);
        } else {
          due.push({ number, guard });
        }
      }
    }
    due.sort((one, other) => one.guard.key - other.guard.key);
    const over: Owned[] = [];
    for (const { number, guard } of due) {
      this.#byKey.set(guard.key, { lost: guard.lease.endReason(now) ?? "expired" });
      const owned = this.#unlink(number, guard.key);
      if (owned) {
        over.push(owned);
      }
    }
    return over;
  }

  /** Ends all holds with the session. */
  endAll(now: Moment, reason: LostReason): void {
    for (const number of this.numbers()) {
      this.forget(number, now, reason);
    }
    this.checkAt = NEVER;
  }

  /** Ends all holds with the stream. */
  endWithStream(now: Moment): void {
    for (const [number, held] of [...this.#held]) {
      this.#end(number, held, now, "session_ended");
    }
  }

  /** Ends the holds that a coordinator has lost which may have had them under any of their ids. */
  lostInDoubt(now: Moment, lost: ReadonlyMap<OwnerId, LostReason>): void {
    for (const [number, held] of [...this.#held]) {
      const id = held.owned.ids.all().find((one) => lost.has(one));
      const reason = id === undefined ? undefined : lost.get(id);
      if (reason !== undefined) {
        this.#end(number, held, now, reason);
      }
    }
  }

  /** Ends a hold. One that an attempt to resume may have moved to another stream is still to be given back there. */
  #end(number: number, { owned, guards }: Hold, now: Moment, reason: LostReason): void {
    if (!owned.ids.areInDoubt) {
      this.forget(number, now, reason);
      return;
    }
    for (const { lease } of guards) {
      lease.end(now, reason);
    }
    this.checkAt = now;
  }

  /** Suspends what is held, because the stream has ended; see Lease.suspend. */
  suspend(now: Moment, until: Moment): void {
    for (const { lease } of this.#guards()) {
      lease.suspend(now, until);
      // Deadlines may have come closer: they are looked at anew.
      this.checkAt = now;
    }
  }

  /** Handles the end of a stream that was asked to resume holds: those whose ids say so may have been on it. */
  attemptDropped(now: Moment, grace: number, mayHaveMoved: (ids: Ids) => boolean): void {
    for (const { owned, guards } of this.#held.values()) {
      if (!mayHaveMoved(owned.ids)) {
        continue;
      }
      for (const { lease } of guards) {
        if (grace === 0) {
          lease.end(now, "session_ended");
        } else {
          lease.suspend(now, after(now, grace));
        }
        this.checkAt = now;
      }
    }
  }

  /** Returns the holds that another stream could take over: those that at least one grant has not lost. */
  resumable(now: Moment): { owned: Owned; token: bigint; holdCount: number }[] {
    const found = [];
    for (const { owned, guards } of this.#held.values()) {
      const alive = guards.find(({ lease }) => lease.alive(now) !== undefined);
      if (alive) {
        found.push({ owned, token: alive.lease.token, holdCount: guards.length });
      }
    }
    return found;
  }

  /** Returns whether another stream that did not answer may have taken this hold over. */
  isInDoubt(number: number): boolean {
    return this.#held.get(number)?.owned.ids.areInDoubt ?? false;
  }

  /** Notes that another stream has resumed this hold. */
  resumed(number: number, now: Moment, deadline: Moment, endsAt: Moment): void {
    const held = this.#held.get(number);
    if (!held) {
      return;
    }
    const { ids } = held.owned;
    this.#byOwner.delete(ids.confirmed);
    ids.resumed();
    this.#byOwner.set(ids.confirmed, number);
    for (const { lease } of held.guards) {
      lease.resume(now, deadline, endsAt);
    }
    // Deadlines may have come closer: they are looked at anew.
    this.checkAt = Math.min(this.checkAt, now);
  }

  /** Returns the first deadline of all that is held or suspended; NEVER if nothing is. */
  firstDeadline(now: Moment): Moment {
    let first = NEVER;
    for (const { lease } of this.#guards()) {
      first = Math.min(first, lease.alive(now) ?? NEVER);
    }
    return first;
  }

  *#guards(): Iterable<Guarded> {
    for (const { guards } of this.#held.values()) {
      yield* guards;
    }
  }

  /** Removes a grant from its hold, because the coordinator does not hold it for this grant any more. Returns the hold. */
  #unlink(number: number, key: number): Owned | undefined {
    const held = this.#held.get(number);
    if (!held) {
      return undefined;
    }
    held.guards = held.guards.filter((guard) => guard.key !== key);
    if (held.guards.length > 0) {
      return { ...held.owned, ids: held.owned.ids.clone() };
    }
    this.#held.delete(number);
    this.#byOwner.delete(held.owned.ids.confirmed);
    return held.owned;
  }
}

/** Returns when to look at a grant next; notes when to give back one that has ended. */
function nextCheck(guard: Guarded, now: Moment): Moment {
  if (guard.releaseAt !== NEVER) {
    return guard.releaseAt;
  }
  const deadline = guard.lease.alive(now);
  if (deadline !== undefined) {
    return deadline;
  }
  if (guard.lease.endReason(now) === "released") {
    // Its release is on the way to the session.
    return NEVER;
  }
  guard.releaseAt = after(now, guard.lockDelay);
  return guard.releaseAt;
}
