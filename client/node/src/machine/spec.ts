import { isDeepStrictEqual } from "node:util";
import { create } from "@bufbuild/protobuf";
import { checkName, checkNumber, shown } from "../checks";
import { invalidField } from "../failure";
import {
  type GrantedLock,
  type SessionAcquire,
  SessionAcquireSchema,
} from "../generated/leasehold/v1/session_pb";
import { LockMode } from "../generated/leasehold/v1/types_pb";
import { toDuration } from "../wire";

/** One lock of an acquire. */
export interface LockSpec {
  readonly name: string;
  readonly mode: LockMode;
  readonly permits: number;
  /** The fewest permits to be content with; `undefined` for all. */
  readonly atLeast: number | undefined;
  readonly limit: number;
  readonly limitRevision: number;
}

/** One acquire, without its caller, as long as it takes and over reconnects. */
export interface AcquireSpec {
  readonly locks: readonly LockSpec[];
  /** Whether it is an acquire of several names, though there be only one. */
  readonly isOfSeveral: boolean;
  /** The longest wait; `undefined` without a bound, 0 for none. */
  readonly wait: number | undefined;
  readonly value: Uint8Array;
  readonly lockDelay: number;
  /** The longest time for which each lock may be held; 0 without a bound. */
  readonly maxHold: number;
  readonly actor: number;
  readonly isReentrant: boolean;
  readonly trace: string;
}

/** Returns the spec of one lock. */
export function lockSpec(name: string, mode: LockMode): LockSpec {
  return { name, mode, permits: 0, atLeast: undefined, limit: 0, limitRevision: 0 };
}

/** Largest limit of a semaphore. */
const LARGEST_LIMIT = 1_000_000;
/** The most locks of one acquire. */
export const MOST_LOCKS = 1000;

/** Checks whether locks can be asked for as they are meant. Throws what a coordinator would answer. */
export function checkLocks(locks: readonly LockSpec[]): void {
  if (locks.length < 1 || locks.length > MOST_LOCKS) {
    throw invalidField("locks", "must be 1 to 64 locks");
  }
  const names = new Set<string>();
  for (const lock of locks) {
    checkName(lock.name);
    names.add(lock.name);
    if (lock.mode === LockMode.SEMAPHORE) {
      checkNumber(lock.limit, "limit", 1, LARGEST_LIMIT);
      checkNumber(lock.permits, "permits", 1);
      checkNumber(lock.atLeast ?? 1, "atLeast", 1);
      checkNumber(lock.limitRevision, "limitRevision", 0);
    }
  }
  if (names.size < locks.length) {
    throw invalidField("locks", "must be locks of different names");
  }
}

/** Returns whether it does not wait. */
export function isTry(spec: AcquireSpec): boolean {
  return spec.wait === 0;
}

/** Returns the names, for messages to people. */
export function label(spec: AcquireSpec): string {
  return spec.locks.map((lock) => shown(lock.name)).join(", ");
}

/** Returns whether these locks are the ones asked for, each once and in the same order. */
export function isOf(spec: AcquireSpec, locks: readonly GrantedLock[]): boolean {
  return (
    locks.length > 0 &&
    spec.locks.length === locks.length &&
    spec.locks.every((lock, index) => lock.name === locks[index]?.name)
  );
}

/** Returns the mode of a lock, as the protocol has it. */
export function modeOf({ mode, permits, limit, limitRevision, atLeast = 0 }: LockSpec) {
  return { mode, permits, limit, limitRevision, permitsAtLeast: atLeast };
}

/** Returns the request, with the rest of the wait. */
export function acquireMessage(spec: AcquireSpec, wait: number | undefined): SessionAcquire {
  const { locks, value, lockDelay, maxHold } = spec;
  const [first] = locks as readonly [LockSpec, ...LockSpec[]];
  const mode = modeOf(first);
  const isOneMode = locks.every((lock) => lock === first || isDeepStrictEqual(modeOf(lock), mode));
  const names = locks.map(({ name }) => name);
  return create(SessionAcquireSchema, {
    value,
    actor: BigInt(spec.actor),
    reentrant: spec.isReentrant,
    ...(wait !== undefined && { wait: toDuration(wait) }),
    ...(lockDelay > 0 && { lockDelay: toDuration(lockDelay) }),
    ...(maxHold > 0 && { maxHold: toDuration(maxHold) }),
    // Coordinators of every version know one mode for all.
    ...(isOneMode
      ? { ...mode, ...(spec.isOfSeveral ? { names } : { name: first.name }) }
      : { locks: locks.map((lock) => ({ name: lock.name, ...modeOf(lock) })) }),
  });
}
