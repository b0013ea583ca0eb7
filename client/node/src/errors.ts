/**
 * Errors of this library.
 *
 * All are a {@link LeaseholdError}. Where a coordinator's answer is behind one, `failure` has it.
 *
 * @module
 */

import { status as Code } from "@grpc/grpc-js";
import { describeReason, type LostReason } from "./reason";
import type { Holder } from "./views";

/** Reasons of failures that `docs/errors.md` lists, and whether the same request may succeed later, here or elsewhere. */
const RETRIES: Record<string, boolean> = {
  INVALID_FIELD: false,
  UNAUTHENTICATED: false,
  IDENTITY_EXPIRED: false,
  PERMISSION_DENIED: false,
  NOT_OPEN: false,
  ALREADY_OPEN: false,
  OPEN_TIMEOUT: true,
  REQUEST_TIMEOUT: true,
  UNKNOWN_REQUEST: false,
  REQUEST_ID_IN_USE: false,
  SELF_DEADLOCK: false,
  UPGRADE_REFUSED: false,
  LIMIT_MISMATCH: false,
  NOT_EXCLUSIVE: false,
  NOT_A_SEMAPHORE: false,
  DEADLOCK: false,
  FORCE_RELEASED: false,
  SESSION_ENDED: false,
  TOO_MANY_ENDED: true,
  REQUEST_REPEATED: false,
  LOCK_LOST: false,
  NOT_LEADER: false,
  SESSION_SILENT: true,
  DRAINING: true,
  TOO_MANY_SESSIONS: true,
  TOO_MANY_LOCKS: true,
  TOO_MANY_REQUESTS: true,
  RATE_LIMITED: true,
  TOO_MANY_WAITERS: true,
  TOO_MANY_WATCHERS: true,
  TOO_MANY_NAMES: false,
  PAGE_TOO_LARGE: false,
  MESSAGE_TOO_LARGE: false,
  STORE_UNAVAILABLE: true,
  STORE_INDETERMINATE: true,
  NOT_REPLICATED: true,
  STORE_REFUSED: true,
  KEY_NOT_A_LOCK: false,
  NOT_OFFERED: false,
  STORE_GARBLED: false,
};

/** Any error of this library. */
export abstract class LeaseholdError extends Error {}

/** Fault in one field of a request, in the coordinator's words. */
export interface FieldViolation {
  /** Path of the field in the request, for example `acquire.name`. */
  field: string;
  /** Text that says what was wrong, and what is accepted. */
  description: string;
}

/** Parts of a {@link Failure}. */
export interface FailureParts {
  code: number;
  message: string;
  reason?: string;
  violations?: readonly FieldViolation[];
  metadata?: Readonly<Record<string, string>>;
  retryAfter?: number;
  endpoint?: string;
  isTransport?: boolean;
  isUnsent?: boolean;
  isDistrust?: boolean;
}

/**
 * Request that a coordinator could not serve, with its answer; or a call that reached no coordinator or whose connection broke. A failure
 * on the lease stream and the failure of a single call look the same.
 */
export class Failure extends LeaseholdError {
  /** gRPC status code. */
  readonly code: number;
  /** Reason that `docs/errors.md` lists, for example `INVALID_FIELD`; empty if there is none, as after a broken connection. */
  readonly reason: string;
  /** Invalid fields of the request. */
  readonly violations: readonly FieldViolation[];
  /** Details of the reason: for `LIMIT_MISMATCH` the `limit` in force. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Milliseconds to wait before asking again, if the coordinator named a time; otherwise 0. */
  readonly retryAfter: number;
  /** URL of the coordinator that was asked; empty if that is not known, as for an answer on a session. */
  readonly endpoint: string;
  /** Whether the connection failed, rather than that somebody answered. */
  readonly isTransport: boolean;
  /** Whether there was no connection that the request could have been sent on. @internal */
  readonly isUnsent: boolean;
  /** Whether one side does not trust the other's certificate, or what answers is no coordinator. @internal */
  readonly isDistrust: boolean;

  /** Message without the words for where. @internal */
  readonly bare: string;

  constructor(parts: FailureParts) {
    super(describeFailure(parts));
    this.bare = describeFailure({ ...parts, endpoint: "" });
    this.code = parts.code;
    this.reason = parts.reason ?? "";
    this.violations = parts.violations ?? [];
    this.metadata = parts.metadata ?? {};
    this.retryAfter = parts.retryAfter ?? 0;
    this.endpoint = parts.endpoint ?? "";
    this.isTransport = parts.isTransport ?? false;
    this.isUnsent = parts.isUnsent ?? false;
    this.isDistrust = parts.isDistrust ?? false;
  }

  /** Whether the same request may succeed later, here or at another coordinator, though nothing else changes. */
  get isRetryable(): boolean {
    if (this.isTransport) {
      return !this.isDistrust;
    }
    if (this.reason) {
      return RETRIES[this.reason] ?? false;
    }
    return [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED].includes(this.code);
  }

  /** Kind of the errors that this failure causes. */
  get kind(): RefusalKind | "unavailable" {
    if (this.isTransport) {
      return "unavailable";
    }
    switch (this.reason) {
      case "SELF_DEADLOCK":
        return "self_deadlock";
      case "UPGRADE_REFUSED":
        return "upgrade_refused";
      case "DEADLOCK":
        return "deadlock";
      case "FORCE_RELEASED":
        return "force_released";
      case "LIMIT_MISMATCH":
        return "limit_mismatch";
    }
    switch (this.code) {
      case Code.UNAUTHENTICATED:
        return "unauthenticated";
      case Code.PERMISSION_DENIED:
        return "permission_denied";
      case Code.RESOURCE_EXHAUSTED:
        return "limit_reached";
      case Code.INVALID_ARGUMENT:
        return "invalid";
      default:
        return "refused";
    }
  }

  /** Whether the coordinator stops. @internal */
  get isDraining(): boolean {
    return this.reason === "DRAINING";
  }

  /** Whether the coordinator does not know the client. @internal */
  get isUnauthenticated(): boolean {
    return this.code === Code.UNAUTHENTICATED && !this.isTransport;
  }
}

function describeFailure(parts: FailureParts): string {
  const where =
    parts.isTransport && parts.endpoint
      ? `the connection to the coordinator at ${parts.endpoint} failed: `
      : "";
  const reason = parts.reason ? ` (${parts.reason})` : "";
  // Coordinators say the violation in the message too when there is only one.
  const rest = (parts.violations ?? [])
    .filter(({ description }) => !parts.message.includes(description))
    .map(({ field, description }) => `; ${field}: ${description}`);
  const message = parts.message || (Code[parts.code] ?? `code ${parts.code}`);
  return `${where}${inOptions(message)}${reason}${inOptions(rest.join(""))}`;
}

/** Names of the protocol's fields that are options of this library under other names. */
const OPTIONS: Readonly<Record<string, string>> = {
  disconnect_grace: "grace",
  lock_delay: "lockDelay",
  max_hold: "maxHold",
  limit_revision: "limitRevision",
  permits_at_least: "atLeast",
  client_name: "clientName",
  request_key: "key",
};

/** Returns a coordinator's words with this library's names of the options. */
function inOptions(words: string): string {
  return words.replace(/\b(?:acquire\.|open\.)?([a-z]+(?:_[a-z]+)*)\b/g, (field, name) => {
    return OPTIONS[name] ?? (field === name ? field : name);
  });
}

/**
 * Kind of a coordinator's refusal:
 *
 * - `invalid`: a field of the request is out of bounds.
 * - `unauthenticated`: the coordinator does not know the client.
 * - `permission_denied`: the coordinator does not allow the request.
 * - `limit_reached`: one of the coordinator's limits is reached.
 * - `limit_mismatch`: the semaphore has another limit of the same revision, or one that is less than the permits that the request needs.
 * - `self_deadlock`: the actor holds the lock already, or waits for it. Use `reentrant` to hold a lock more than once.
 * - `upgrade_refused`: the actor holds the lock in a weaker way. Release it first, and ask anew.
 * - `deadlock`: actors waited for one another in a circle, and the coordinator ended this wait. Release what the actor holds, and begin
 *   anew.
 * - `force_released`: an operator ended the wait.
 * - `refused`: the coordinator could not serve the request, for another reason.
 */
export type RefusalKind =
  | "invalid"
  | "unauthenticated"
  | "permission_denied"
  | "limit_reached"
  | "limit_mismatch"
  | "self_deadlock"
  | "upgrade_refused"
  | "deadlock"
  | "force_released"
  | "refused";

/**
 * Kind of an acquire that failed: a refusal, or
 *
 * - `busy`: another client holds the lock, or others wait for it, and the request did not wait.
 * - `timed_out`: the lock did not come free within the wait of the request.
 * - `unavailable`: no coordinator could be asked in time.
 * - `closed`: this process closed the session or the client.
 * - `already_candidate`: the session campaigns for the election already, or leads it.
 */
export type AcquireErrorKind =
  | RefusalKind
  | "busy"
  | "timed_out"
  | "unavailable"
  | "closed"
  | "already_candidate";

/** Parts of an {@link AcquireError}. */
export interface AcquireErrorParts {
  kind: AcquireErrorKind;
  wait?: number;
  holder?: Holder | undefined;
  limit?: number;
  cause?: Failure | ConnectError | undefined;
}

/** Acquire that failed. */
export class AcquireError extends LeaseholdError {
  /** Name of the lock; of several, all of them with commas in between. */
  readonly lock: string;
  /** Kind of the failure. */
  readonly kind: AcquireErrorKind;
  /** Wait of the request that timed out, in milliseconds. */
  readonly wait: number | undefined;
  /** Holder of a lock that is busy or did not come free in time, if known. */
  readonly holder: Holder | undefined;
  /** Limit of the semaphore in force, with `limit_mismatch`. */
  readonly limit: number | undefined;

  constructor(lock: string, parts: AcquireErrorParts) {
    super(describeAcquire(lock, parts), parts.cause ? { cause: parts.cause } : undefined);
    this.lock = lock;
    this.kind = parts.kind;
    this.wait = parts.wait;
    this.holder = parts.holder;
    this.limit = parts.limit;
  }

  /** Answer of the coordinator, or failure of the connection, if that is the cause. */
  get failure(): Failure | undefined {
    const cause = this.cause;
    return cause instanceof ConnectError
      ? cause.failure
      : cause instanceof Failure
        ? cause
        : undefined;
  }

  /** Whether the same request may succeed later, though nothing else changes. */
  get isRetryable(): boolean {
    switch (this.kind) {
      case "busy":
      case "timed_out":
        return true;
      case "unavailable":
        return this.cause instanceof ConnectError
          ? this.cause.isRetryable
          : (this.failure?.isRetryable ?? true);
      default:
        return this.failure?.isRetryable ?? false;
    }
  }
}

function describeAcquire(lock: string, { kind, wait, holder, limit, cause }: AcquireErrorParts) {
  const name = JSON.stringify(lock);
  switch (kind) {
    case "busy":
      return `lock ${name} is busy${by(holder)}`;
    case "timed_out":
      return `lock ${name} did not come free within ${wait} ms${by(holder)}`;
    case "already_candidate":
      return `failed to campaign for election ${name}: this session campaigns for it already, or leads it`;
    case "closed":
      return `failed to acquire lock ${name}: the session was closed`;
    case "unavailable":
      return `failed to acquire lock ${name}: no connection to a coordinator${cause ? `: ${cause.message}` : ""}`;
    case "limit_mismatch":
      return `failed to acquire permits of semaphore ${name}: its limit is ${limit}: ${cause?.message}`;
    default:
      return `failed to acquire lock ${name}: ${cause?.message ?? kind}`;
  }
}

/** Returns the words for the holder of a lock that is not free. */
function by(holder: Holder | undefined): string {
  if (!holder) {
    return "";
  }
  if (holder.isForeign) {
    return ": held by a program that does not use Leasehold";
  }
  if (holder.clientName) {
    return `: held by ${JSON.stringify(holder.clientName)}`;
  }
  return holder.sessionId
    ? `: held by session ${holder.sessionId}`
    : ": held by a caller without a session";
}

/** Loss of a lock. If work failed as well under the lock, its error is the `cause`. */
export class LockLostError extends LeaseholdError {
  constructor(
    /** Name of the lock. */
    readonly lock: string,
    /** Fencing token of the hold. */
    readonly token: bigint,
    /** Reason of the loss. */
    readonly reason: LostReason,
    options?: ErrorOptions,
  ) {
    super(`lost lock ${JSON.stringify(lock)}: ${describeReason(reason)}`, options);
  }
}

/** Check of a hold that is suspended: don't act on the lock. */
export class LockSuspendedError extends LeaseholdError {
  constructor(
    /** Name of the lock. */
    readonly lock: string,
  ) {
    super(`lock ${JSON.stringify(lock)} is suspended`);
  }
}

/** Use of a hold that this process has released. */
export class LockReleasedError extends LeaseholdError {
  constructor(
    /** Name of the lock. */
    readonly lock: string,
  ) {
    super(`lock ${JSON.stringify(lock)} was released`);
  }
}

/** Kind of a request about a hold that failed: a refusal, or `unconfirmed`, if it had no answer: it may have been carried out. */
export type HoldErrorKind = RefusalKind | "unavailable" | "unconfirmed";

/** Request about a hold that failed for another reason than a loss. */
export class HoldError extends LeaseholdError {
  constructor(
    /** Name of the lock. */
    readonly lock: string,
    /** Kind of the failure. */
    readonly kind: HoldErrorKind,
    /** Answer of the coordinator; none if there was no answer. */
    readonly failure?: Failure,
  ) {
    const why = failure?.message ?? "it was not confirmed, and may have been carried out";
    super(
      `the request about lock ${JSON.stringify(lock)} failed: ${why}`,
      failure ? { cause: failure } : undefined,
    );
  }
}

/** Use of a client or a session that was closed. */
export class ClosedError extends LeaseholdError {
  constructor(what = "the session was closed") {
    super(what);
  }
}

/** Setting that can't be used. */
export class SettingsError extends LeaseholdError {}

/**
 * Kind of an attempt to open a session that failed:
 *
 * - `invalid`: the settings can't work, and nothing was sent.
 * - `unreachable`: the connection could not be made, or broke.
 * - `timed_out`: no answer came in time.
 * - `ended`: the coordinator ended the stream without a word.
 * - `refused`: the coordinator refused.
 */
export type ConnectErrorKind = "invalid" | "unreachable" | "timed_out" | "ended" | "refused";

/** Coordinator at which no session could be opened. */
export class ConnectError extends LeaseholdError {
  constructor(
    /** URL of the coordinator. */
    readonly endpoint: string,
    /** Kind of the failure. */
    readonly kind: ConnectErrorKind,
    cause?: Error,
    after?: number,
  ) {
    const why =
      kind === "timed_out"
        ? `no answer within ${Math.round(after ?? 0)} ms`
        : kind === "ended"
          ? "the stream ended before the session was open"
          : cause instanceof Failure
            ? cause.bare
            : cause?.message;
    super(
      `failed to open a session at ${endpoint}: ${why}`,
      cause === undefined ? undefined : { cause },
    );
  }

  /** Returns the error of a stream that broke, or was refused, before the session was open. @internal */
  static of(endpoint: string, failure: Failure): ConnectError {
    return new ConnectError(endpoint, failure.isTransport ? "unreachable" : "refused", failure);
  }

  /** Answer of the coordinator, or failure of the connection. */
  get failure(): Failure | undefined {
    return this.cause instanceof Failure ? this.cause : undefined;
  }

  /** Whether the same attempt may succeed later. */
  get isRetryable(): boolean {
    switch (this.kind) {
      case "invalid":
        return false;
      case "timed_out":
      case "ended":
        return true;
      default:
        return this.failure?.isRetryable ?? true;
    }
  }

  /** Whether a coordinator answered. @internal */
  get isAnswer(): boolean {
    return this.kind === "refused";
  }
}

// Literal, so that a bundler that renames the classes keeps them, and where those of Node's own errors are.
for (const [name, { prototype }] of Object.entries({
  LeaseholdError,
  Failure,
  AcquireError,
  LockLostError,
  LockSuspendedError,
  LockReleasedError,
  HoldError,
  ClosedError,
  SettingsError,
  ConnectError,
})) {
  Object.defineProperty(prototype, "name", { value: name, configurable: true, writable: true });
}

/** Returns the error for a request without a session to ask on, or whose connection broke. @internal */
export function unconnected(lock: string, cause?: ConnectError): AcquireError {
  const kind = cause?.failure?.kind;
  const isAnswer = kind === "unauthenticated" || kind === "permission_denied";
  return new AcquireError(lock, { kind: isAnswer ? kind : "unavailable", cause });
}

/** Returns the error for a coordinator's refusal. @internal */
export function acquireRefused(lock: string, failure: Failure): AcquireError {
  if (failure.kind !== "limit_mismatch") {
    return new AcquireError(lock, { kind: failure.kind, cause: failure });
  }
  const limit = Number(failure.metadata["limit"]);
  return Number.isInteger(limit)
    ? new AcquireError(lock, { kind: "limit_mismatch", limit, cause: failure })
    : new AcquireError(lock, { kind: "refused", cause: failure });
}

/** Returns the error of an acquire, by what went wrong, with the stack of whoever awaits it. @internal */
export function acquireFailed(lock: string, error: unknown): unknown {
  if (error instanceof ClosedError) {
    return new AcquireError(lock, { kind: "closed" });
  }
  return error instanceof Failure ? acquireRefused(lock, error) : atCaller(error);
}

/** Returns an error that was made elsewhere, with the stack of whoever awaits it. @internal */
export function atCaller(error: unknown): unknown {
  if (error instanceof LeaseholdError) {
    Error.captureStackTrace(error, atCaller);
  }
  return error;
}
