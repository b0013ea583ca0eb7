import { readFileSync, type Stats, statSync } from "node:fs";
import type { Logger } from "./options";
import { wallClock } from "./timers";

/** Age below which a changed file is read again, though its time has not changed: file systems keep times in steps. */
const UNSETTLED = 1000;

/**
 * Value made from files, and made anew when one of them has changed. If it can't be made then, for example because a file is half
 * written, it stays as it was. The files are small and read rarely, and a call that is about to begin needs them at once: they are read
 * without a promise.
 */
export class FromFiles<T> {
  #value: T;
  #contents: Buffer[];
  #version = 0;
  #stamps: (Stats | undefined)[];
  #isSettled: boolean;

  /** Makes it for the first time. Throws if that fails. */
  constructor(
    readonly paths: readonly string[],
    readonly parse: (contents: readonly Buffer[]) => T,
    readonly log: Logger,
  ) {
    // Before they are read: what changes in between is read again.
    this.#stamps = paths.map(look);
    this.#isSettled = isSettled(this.#stamps);
    this.#contents = paths.map((path) => readFileSync(path));
    this.#value = parse(this.#contents);
  }

  /** Returns the value for the files as they are now. */
  get value(): T {
    this.#refresh();
    return this.#value;
  }

  /** Returns a number that rises whenever another value is made. */
  get version(): number {
    this.#refresh();
    return this.#version;
  }

  #refresh(): void {
    const stamps = this.paths.map(look);
    const isNews = stamps.some((stamp, index) => !areSame(stamp, this.#stamps[index]));
    if (!isNews && this.#isSettled) {
      return;
    }
    this.#stamps = stamps;
    this.#isSettled = isSettled(stamps);
    try {
      const contents = this.paths.map((path) => readFileSync(path));
      if (contents.every((content, index) => content.equals(this.#contents[index] as Buffer))) {
        return;
      }
      this.#value = this.parse(contents);
      this.#contents = contents;
      this.#version++;
    } catch (error) {
      if (isNews) {
        const files = this.paths.join(", ");
        this.log.warn(
          `a changed file can't be used, and what was read before stays in use: ${files}: ${(error as Error).message}`,
        );
      }
    }
  }
}

/** Returns what is known of a file; nothing while it can't be looked at. */
function look(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Returns whether no file changed so lately that it may change again in the same step of time. */
function isSettled(stamps: readonly (Stats | undefined)[]): boolean {
  return stamps.every((stamp) => stamp && wallClock() - stamp.mtimeMs >= UNSETTLED);
}

/** Returns whether the files are the same, as they were. */
function areSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return (
    one?.ino === other?.ino &&
    one?.dev === other?.dev &&
    one?.size === other?.size &&
    one?.mtimeMs === other?.mtimeMs
  );
}
