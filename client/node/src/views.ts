/**
 * Locks, sessions, elections and coordinators, as others may see them. No view has an owner id. Times are in milliseconds.
 *
 * @module
 */

import { type Duration, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import {
  type GetStatusResponse,
  LockEventKind,
  StoreState,
  type LockEvent as WireEvent,
  type SessionView as WireSession,
} from "./generated/leasehold/v1/admin_pb";
import type { Leader as WireLeader } from "./generated/leasehold/v1/election_pb";
import {
  type Holder as WireHolder,
  type LockView as WireLock,
  LockMode as WireMode,
  type Waiter as WireWaiter,
} from "./generated/leasehold/v1/types_pb";
import { type LostReason, lostReason } from "./reason";
import { fromDuration } from "./wire";

/** Mode in which a lock is held. */
export type LockMode = "exclusive" | "shared" | "semaphore";

/** Holder of a lock. */
export interface Holder {
  /** Its session; empty for a caller without one. */
  readonly sessionId: string;
  /** Name that its client gave itself. */
  readonly clientName: string;
  readonly coordinator: string;
  /** Fencing token; 0 for a program that does not use Leasehold. */
  readonly token: bigint;
  readonly acquiredAt: Date | undefined;
  /** Time left until the hold ends unless it is renewed. */
  readonly ttl: number;
  readonly value: Uint8Array;
  /** Number of times that its actor holds the lock. */
  readonly holdCount: number;
  /** Whether it is a program that does not use Leasehold. */
  readonly isForeign: boolean;
  readonly permits: number;
  /** Number of its actor; 0 for none. */
  readonly actor: bigint;
  /** Longest time for which it may hold the lock, from its grant on; `undefined` without a bound. */
  readonly maxHold: number | undefined;
  /**
   * Network address that its session came from. Only `admin.getLock` tells it, at the coordinator that serves the session, to those who
   * may list that; empty otherwise.
   */
  readonly peer: string;
}

/** Waiter for a lock. */
export interface Waiter {
  readonly sessionId: string;
  readonly clientName: string;
  readonly coordinator: string;
  readonly waitingSince: Date | undefined;
  /** Place in the queue, from 1. */
  readonly position: bigint;
  readonly mode: LockMode | undefined;
  readonly permits: number;
  readonly permitsAtLeast: number;
  readonly actor: bigint;
  /** Number by which an operator ends its wait. */
  readonly number: bigint;
  /** Network address that its session came from, told as for a holder. */
  readonly peer: string;
}

/** Everything that can be seen of one lock. */
export interface LockView {
  readonly name: string;
  /** Mode in which it is held; `undefined` if it is free. */
  readonly mode: LockMode | undefined;
  readonly holders: readonly Holder[];
  readonly holderCount: bigint;
  readonly waiters: readonly Waiter[];
  readonly waiterCount: bigint;
  /** Newest fencing token on record; 0 if there is none. */
  readonly token: bigint;
  /** Time for which it stays closed after an unclean end. */
  readonly closedFor: number;
  readonly lockDelay: number;
  /** Limit of a semaphore. */
  readonly limit: number;
  readonly permitsTaken: number;
  readonly limitRevision: number;
}

/** Kind of a {@link LockEvent}; `unknown` for one that this version does not know. */
export type EventKind =
  | "granted"
  | "queued"
  | "withdrawn"
  | "released"
  | "expired"
  | "lost"
  | "forced"
  | "value_changed"
  | "downgraded"
  | "limit_changed"
  | "permits_reduced"
  | "release_requested"
  | "unknown";

/** Something that happened to a lock. */
export interface LockEvent {
  readonly kind: EventKind;
  readonly name: string;
  readonly time: Date | undefined;
  readonly token: bigint;
  readonly holder: Holder | undefined;
  readonly waiter: Waiter | undefined;
  /** Reason of a loss. */
  readonly reason: LostReason | undefined;
  readonly mode: LockMode | undefined;
  readonly holderCount: bigint;
  readonly waiterCount: bigint;
  readonly closedFor: number;
  readonly limit: number;
  readonly limitRevision: number;
}

/** Session, as operators see it. */
export interface SessionView {
  readonly sessionId: string;
  readonly clientName: string;
  /** Address of the client. */
  readonly peer: string;
  readonly coordinator: string;
  readonly ttl: number;
  readonly openedAt: Date | undefined;
  readonly sinceHeartbeat: number;
  readonly holdCount: number;
  readonly waiterCount: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly identity: string;
}

/** Permission of the caller. */
export interface PermissionView {
  /** `acquire`, `inspect` or `administer`. */
  readonly permission: string;
  /** Prefixes of the names of locks that it is for; the empty one stands for every name. */
  readonly locks: readonly string[];
  /** Prefixes of the names of elections that it is for; the empty one stands for every name. */
  readonly elections: readonly string[];
}

/** Limit of a coordinator. */
export interface LimitView {
  /** The setting, such as `max-sessions`; or `open-files`. */
  readonly name: string;
  /** How much of it is in use. */
  readonly used: bigint;
  readonly limit: bigint;
}

/** Certificate of a coordinator. */
export interface CertificateView {
  /** What it is for: `server` (the gRPC port), `admin` (the admin port) or `store` (to identify itself to Redis). */
  readonly purpose: string;
  /** When the first certificate of its chain expires. */
  readonly expires: Date | undefined;
}

/** Status of a coordinator. Callers that may not inspect every lock do not see its store, its counts, its limits and its certificates. */
export interface Status {
  readonly coordinator: string;
  readonly version: string;
  readonly uptime: number;
  readonly isServing: boolean;
  /** Reason for which it does not serve; while it serves, what its store has refused in the last minute. */
  readonly reason: string;
  /** URL of its store, without passwords. */
  readonly store: string;
  /** Whether it reaches its store. Undefined where the caller may not see it. */
  readonly isStoreUp: boolean | undefined;
  readonly sessionCount: bigint | undefined;
  readonly holdCount: bigint | undefined;
  readonly waiterCount: bigint | undefined;
  /** Its wall clock when it answered. */
  readonly time: Date | undefined;
  /** Whether it was told to stop, and waits for its clients to leave. */
  readonly isDraining: boolean;
  /** The caller's identity, for example `token:ci`. Empty where callers need none. */
  readonly identity: string;
  /** What the caller may do here. */
  readonly permissions: readonly PermissionView[];
  /** The smallest TTL that it grants, that of callers that ask for none, and the largest, in milliseconds. */
  readonly minTtl: number;
  readonly defaultTtl: number;
  readonly maxTtl: number;
  /** Prefix of the Redis keys of locks. */
  readonly keyPrefix: string | undefined;
  /** Replicas that must acknowledge a grant. */
  readonly minReplicas: number | undefined;
  readonly limits: readonly LimitView[];
  readonly certificates: readonly CertificateView[];
}

/** Leader of an election. */
export interface Leader {
  /** Fencing token of its term; 0 for a holder that does not use Leasehold. */
  readonly token: bigint;
  readonly value: Uint8Array;
  readonly clientName: string;
  readonly sessionId: string;
  readonly coordinator: string;
  readonly electedAt: Date | undefined;
}

function date(time: Timestamp | undefined): Date | undefined {
  return time && timestampDate(time);
}

function modeOf(wire: WireMode): LockMode | undefined {
  const mode = WireMode[wire]?.toLowerCase();
  return wire === WireMode.UNSPECIFIED ? undefined : (mode as LockMode | undefined);
}

function optional(wire: Duration | undefined): number | undefined {
  return wire && fromDuration(wire);
}

/** @internal */
export function holderOf(wire: WireHolder): Holder {
  return {
    sessionId: wire.sessionId,
    clientName: wire.clientName,
    coordinator: wire.coordinator,
    token: wire.fencingToken,
    acquiredAt: date(wire.acquiredAt),
    ttl: fromDuration(wire.ttl),
    value: wire.value,
    holdCount: wire.holdCount,
    isForeign: wire.foreign,
    permits: wire.permits,
    actor: wire.actor,
    maxHold: optional(wire.maxHold),
    peer: wire.peer,
  };
}

function waiterOf(wire: WireWaiter): Waiter {
  return {
    sessionId: wire.sessionId,
    clientName: wire.clientName,
    coordinator: wire.coordinator,
    waitingSince: date(wire.waitingSince),
    position: wire.position,
    mode: modeOf(wire.mode),
    permits: wire.permits,
    permitsAtLeast: wire.permitsAtLeast,
    actor: wire.actor,
    number: wire.number,
    peer: wire.peer,
  };
}

/** @internal */
export function lockOf(wire: WireLock): LockView {
  return {
    name: wire.name,
    mode: modeOf(wire.mode),
    holders: wire.holders.map(holderOf),
    holderCount: wire.holderCount,
    waiters: wire.waiters.map(waiterOf),
    waiterCount: wire.waiterCount,
    token: wire.fencingToken,
    closedFor: fromDuration(wire.closedFor),
    lockDelay: fromDuration(wire.lockDelay),
    limit: wire.limit,
    permitsTaken: wire.permitsTaken,
    limitRevision: wire.limitRevision,
  };
}

/** @internal */
export function eventOf(wire: WireEvent): LockEvent {
  const kind = LockEventKind[wire.kind]?.toLowerCase() ?? "unknown";
  return {
    kind: kind === "unspecified" ? "unknown" : (kind as EventKind),
    name: wire.name,
    time: date(wire.time),
    token: wire.fencingToken,
    holder: wire.holder && holderOf(wire.holder),
    waiter: wire.waiter && waiterOf(wire.waiter),
    reason: wire.reason === 0 ? undefined : lostReason(wire.reason),
    mode: modeOf(wire.mode),
    holderCount: wire.holderCount,
    waiterCount: wire.waiterCount,
    closedFor: fromDuration(wire.closedFor),
    limit: wire.limit,
    limitRevision: wire.limitRevision,
  };
}

/** @internal */
export function sessionOf(wire: WireSession): SessionView {
  return {
    sessionId: wire.sessionId,
    clientName: wire.clientName,
    peer: wire.peer,
    coordinator: wire.coordinator,
    ttl: fromDuration(wire.ttl),
    openedAt: date(wire.openedAt),
    sinceHeartbeat: fromDuration(wire.sinceHeartbeat),
    holdCount: wire.holdCount,
    waiterCount: wire.waiterCount,
    metadata: wire.metadata,
    identity: wire.identity,
  };
}

/** @internal */
export function statusOf(wire: GetStatusResponse): Status {
  return {
    coordinator: wire.coordinator,
    version: wire.version,
    uptime: fromDuration(wire.uptime),
    isServing: wire.serving,
    reason: wire.reason,
    store: wire.store,
    isStoreUp:
      wire.storeState === StoreState.UNSPECIFIED ? undefined : wire.storeState === StoreState.UP,
    sessionCount: wire.sessionCount,
    holdCount: wire.holdCount,
    waiterCount: wire.waiterCount,
    time: date(wire.time),
    isDraining: wire.draining,
    identity: wire.identity,
    permissions: wire.permissions.map(({ permission, locks, elections }) => ({
      permission,
      locks,
      elections,
    })),
    minTtl: fromDuration(wire.minTtl),
    defaultTtl: fromDuration(wire.defaultTtl),
    maxTtl: fromDuration(wire.maxTtl),
    keyPrefix: wire.keyPrefix,
    minReplicas: wire.minReplicas,
    limits: wire.limits.map(({ name, used, limit }) => ({ name, used, limit })),
    certificates: wire.certificates.map(({ purpose, expires }) => ({
      purpose,
      expires: date(expires),
    })),
  };
}

/** @internal */
export function leaderOf(wire: WireLeader): Leader {
  return {
    token: wire.fencingToken,
    value: wire.value,
    clientName: wire.clientName,
    sessionId: wire.sessionId,
    coordinator: wire.coordinator,
    electedAt: date(wire.electedAt),
  };
}
