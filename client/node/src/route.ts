import { type Moment, since } from "./clock";
import { type Candidate, keyOf } from "./endpoints";
import { type Random, shuffled } from "./shuffled";

/** Time for which a candidate that failed is tried last. */
const TROUBLED = 10_000;

/** Way round the candidates: each is tried once in a round, in an order of its own, and those that failed lately come last. */
export class Route {
  readonly #random: Random;
  readonly #failedAt = new Map<string, Moment>();
  /** Whether there is more than one to choose from. */
  isSeveral: boolean;

  constructor(endpoints: number, random: Random) {
    this.#random = random;
    this.isSeveral = endpoints > 1;
  }

  /** Returns the candidates in the order in which to try them. */
  round(candidates: readonly Candidate[], now: Moment): Candidate[] {
    this.isSeveral ||= candidates.length > 1;
    for (const [key, failedAt] of this.#failedAt) {
      if (since(now, failedAt) >= TROUBLED) {
        this.#failedAt.delete(key);
      }
    }
    // In a common order, all clients of a coordinator that goes away would move to the same one.
    const round = shuffled(candidates, this.#random);
    // Of those that failed, the one that failed longest ago comes first.
    const failedAt = (candidate: Candidate) => this.#failedAt.get(keyOf(candidate)) ?? -1;
    return round.sort((one, other) => failedAt(one) - failedAt(other));
  }

  /** Notes that a candidate could not be reached, did not serve, or is to be left. */
  failed(which: Candidate, now: Moment): void {
    this.#failedAt.set(keyOf(which), now);
  }
}
