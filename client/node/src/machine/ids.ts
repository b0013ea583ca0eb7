import type { OwnerId } from "../wire";

/**
 * Number of ids of unanswered attempts that are remembered: as many as a coordinator takes. After that many the oldest go, because what
 * they stood for is long over.
 */
const MOST_TRIED = 64;

/** Owner ids by which a coordinator may know a hold or a waiter, over the streams that it is resumed on. */
export class Ids {
  /** The id under which it was last confirmed. */
  confirmed: OwnerId;
  /** Ids of later attempts to resume it that may have been carried out; the oldest first. */
  tried: OwnerId[] = [];
  /** The id of the attempt in progress. */
  next: OwnerId | undefined;

  constructor(confirmed: OwnerId) {
    this.confirmed = confirmed;
  }

  /** Returns a copy that changes for itself. */
  clone(): Ids {
    const copy = new Ids(this.confirmed);
    copy.tried = [...this.tried];
    copy.next = this.next;
    return copy;
  }

  /** Ends an attempt without an answer: the coordinator may have carried it out. */
  unanswered(): void {
    if (this.next !== undefined) {
      this.tried.push(this.next);
      this.next = undefined;
    }
    this.tried = this.tried.slice(-MOST_TRIED);
  }

  /** Ends an attempt that the coordinator declined. */
  declined(): void {
    this.next = undefined;
  }

  /** Ends an attempt that the coordinator carried out. */
  resumed(): void {
    if (this.next !== undefined) {
      this.confirmed = this.next;
      this.tried = [];
      this.next = undefined;
    }
  }

  /** Returns whether a coordinator may know it by another id than the confirmed one. */
  get areInDoubt(): boolean {
    return this.next !== undefined || this.tried.length > 0;
  }

  /** Returns every id, in the order of the attempts. */
  all(): OwnerId[] {
    return [this.confirmed, ...this.tried, ...(this.next === undefined ? [] : [this.next])];
  }

  /**
   * Returns the id at this place in the order of the attempts. A hold that is under one of them was never under a later one before.
   */
  nth(index: number): OwnerId | undefined {
    return this.all()[index];
  }
}
