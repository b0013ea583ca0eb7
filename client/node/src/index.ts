/**
 * Client of Leasehold: locks, semaphores and elections held by lease, with fencing tokens. `connect` is where to begin.
 *
 * @packageDocumentation
 */

export { Actor } from "./actor";
export { Admin, type Only, type WatchItem } from "./admin";
export { Client, connect } from "./client";
export type { CredentialOptions, TlsOptions } from "./credentials";
export { DetachedLock, type DetachedOptions, DetachedRequest } from "./detached";
export {
  Election,
  type ElectionOptions,
  type LeaderChange,
  type SignalOptions,
  Term,
} from "./election";
export {
  AcquireError,
  type AcquireErrorKind,
  ClosedError,
  ConnectError,
  type ConnectErrorKind,
  Failure,
  type FieldViolation,
  HoldError,
  type HoldErrorKind,
  LeaseholdError,
  LockLostError,
  LockReleasedError,
  LockSuspendedError,
  type RefusalKind,
  SettingsError,
} from "./errors";
export type { ClientEventMap, ClientEvents, ConnectionEvent, HoldEvent } from "./events";
export type { Held } from "./held";
export { Hold, Holds } from "./hold";
export type { ReleaseRequest } from "./lease";
export {
  type AcquireOptions,
  Lock,
  type LockOptions,
  type LockRequest,
  Locks,
  type PermitOptions,
  Semaphore,
  type SemaphoreOptions,
  type WithOptions,
} from "./locks";
export type { SessionInfo } from "./machine/stream";
export type { ClientOptions, Logger, SessionOptions } from "./options";
export type { LostReason, State } from "./reason";
export { type CloseOptions, Session } from "./session";
export { VERSION } from "./version";
export type {
  CertificateView,
  EventKind,
  Holder,
  Leader,
  LimitView,
  LockEvent,
  LockMode,
  LockView,
  PermissionView,
  SessionView,
  Status,
  Waiter,
} from "./views";
