import { type Moment, since } from "./clock";
import { type Candidate, keyOf } from "./endpoints";

/** Time for which a candidate that failed is tried last. */
const TROUBLED = 10_000;

/** Way round the candidates: each is tried once in a round, and those that failed lately come last. */
export class Route {
  /** Where the next round begins: anywhere at first, so that many clients spread over all coordinators. */
  #beginAt = Math.floor(Math.random() * 65_536);
  readonly #failedAt = new Map<string, Moment>();
  /** Whether there is more than one to choose from. */
  isSeveral: boolean;

  constructor(endpoints: number) {
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
    if (candidates.length === 0) {
      return [];
    }
    const beginAt = this.#beginAt % candidates.length;
    this.#beginAt = beginAt + 1;
    const round = [...candidates.slice(beginAt), ...candidates.slice(0, beginAt)];
    // The one that failed longest ago comes first of those.
    const failedAt = (candidate: Candidate) => this.#failedAt.get(keyOf(candidate)) ?? -1;
    return round.sort((one, other) => failedAt(one) - failedAt(other));
  }

  /** Notes that a candidate could not be reached, did not serve, or is to be left. */
  failed(which: Candidate, now: Moment): void {
    this.#failedAt.set(keyOf(which), now);
  }
}
