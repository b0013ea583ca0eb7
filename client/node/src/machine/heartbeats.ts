import type { Moment } from "../clock";

/**
 * Number of heartbeats remembered. Answers about older ones extend nothing; at one every third of a TTL this is far more than a lease can
 * last.
 */
const REMEMBERED = 64;

/** Heartbeats of one stream. The open is number 0. */
export class Heartbeats {
  #first = 0;
  readonly #sentAt: Moment[];

  /** Begins with the open, sent now. */
  constructor(now: Moment) {
    this.#sentAt = [now];
  }

  /** Returns when the oldest remembered heartbeat was sent: the open, while there was no other. */
  get began(): Moment {
    return this.#sentAt[0] as Moment;
  }

  /** Returns when the newest heartbeat was sent. */
  get lastSent(): Moment {
    return this.#sentAt.at(-1) as Moment;
  }

  /**
   * Notes that the next heartbeat is sent now, and numbers it. To be called before it can be on the wire: a time noted too early shortens
   * a lease by a little, one noted too late would let it outlive the lock.
   */
  note(now: Moment): number {
    this.#sentAt.push(now);
    if (this.#sentAt.length > REMEMBERED) {
      this.#sentAt.shift();
      this.#first++;
    }
    return this.#first + this.#sentAt.length - 1;
  }

  /** Returns when this heartbeat was sent; nothing if it never was, or too long ago to matter. */
  at(sequence: bigint): Moment | undefined {
    return this.#sentAt[Number(sequence) - this.#first];
  }
}
