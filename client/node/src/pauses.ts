import { type Moment, NEVER, since } from "./clock";
import { clearTimeout, setTimeout } from "./timers";

/** Pause above which no coordinator can ask for a longer one. */
const LONGEST_ASKED = 60_000;

/** Pauses before attempts to repeat what failed or ended: growing, and partly random. Times are in milliseconds. */
export class Pauses {
  readonly #least: number;
  readonly #most: number;
  /** The next pause, without its random part. */
  #next: number;
  /** When the last connection was opened; NEVER if it is not open. */
  #liveSince: Moment = NEVER;

  constructor(least: number, most: number) {
    this.#most = Math.max(least, most);
    // The random part adds up to as much again.
    this.#least = Math.min(least, this.#most / 2);
    this.#next = this.#least;
  }

  opened(now: Moment): void {
    this.#liveSince = now;
  }

  /** Returns whether the last connection was open for a while. */
  lived(now: Moment): boolean {
    return this.#liveSince !== NEVER && since(now, this.#liveSince) >= this.#most;
  }

  /**
   * Returns the pause before the next attempt. A connection that was open for a while starts the row of pauses anew; one that ended as
   * soon as it was open does not, so that the two sides do not reconnect in a loop.
   */
  pause(now: Moment): number {
    if (this.lived(now)) {
      this.startAnew();
    }
    this.#liveSince = NEVER;
    const pause = this.#next;
    this.#next = Math.min(pause * 2, this.#most / 2);
    return pause + jitter(pause);
  }

  /** Makes the next pause the first of the row, though nothing lived. */
  startAnew(): void {
    this.#next = this.#least;
  }

  /**
   * Returns the pause before the next attempt, after the coordinator has asked for one of at least this length; 0 for none. It adds a
   * random time of its own, so that not all clients come back at once.
   */
  pauseAsAsked(now: Moment, asked: number): number {
    return Math.min(asked, LONGEST_ASKED) + this.pause(now);
  }
}

/** Returns a random time below the limit. */
export function jitter(limit: number): number {
  return Math.random() * limit;
}

/** Makes a pause. Returns false if the signal ended it. */
export function sleep(pause: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve(false);
      return;
    }
    const end = (wasAborted: boolean) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      resolve(!wasAborted);
    };
    const abort = () => end(true);
    const timer = setTimeout(() => end(false), pause);
    signal.addEventListener("abort", abort, { once: true });
  });
}
