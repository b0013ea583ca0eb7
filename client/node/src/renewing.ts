import { type Moment, NEVER, since } from "./clock";
import { jitter } from "./pauses";

/** Interval of looks at the files of credentials. */
const LOOK = 1000;
/** Time within which all clients that see a file change move their sessions: many have the same file. */
const SPREAD = 5000;

/** Schedule of moves to a stream with newer credentials. */
export class Renewing {
  #lookedAt: Moment = NEVER;
  #at: Moment = NEVER;

  /** Returns whether it is time to move; calls `isOutdated` once in a while. */
  isDue(now: Moment, isOutdated: () => boolean): boolean {
    if (this.#lookedAt !== NEVER && since(now, this.#lookedAt) < LOOK) {
      return false;
    }
    this.#lookedAt = now;
    if (!isOutdated()) {
      this.#at = NEVER;
      return false;
    }
    if (this.#at === NEVER) {
      this.#at = now + jitter(SPREAD);
    }
    return this.#at <= now;
  }
}
