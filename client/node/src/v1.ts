/**
 * Messages and services of the protocol, for raw calls.
 *
 * @packageDocumentation
 */

export * from "./generated/leasehold/v1/admin_pb";
export * from "./generated/leasehold/v1/election_pb";
export * from "./generated/leasehold/v1/lock_pb";
export * from "./generated/leasehold/v1/session_pb";
export * from "./generated/leasehold/v1/types_pb";
