/**
 * Reasons of losses, and the states of a hold.
 *
 * @module
 */

import { LostReason as Wire } from "./generated/leasehold/v1/types_pb";

/**
 * Reason for which a lock is no longer held:
 *
 * - `unknown`: the coordinator said that the lock was no longer held, but not why.
 * - `expired`: the lease ran out before it was renewed. Decided by this process's own clock, or told by the coordinator, whichever came
 *   first.
 * - `deleted`: the lock was gone from the store before its time.
 * - `taken`: another client's lock was found in its place.
 * - `forced`: an operator force-released it.
 * - `session_ended`: the stream to the coordinator ended, and every hold of the session with it.
 * - `session_closed`: this process closed the session.
 * - `permission_revoked`: the coordinator does not allow this client to hold it any more.
 * - `unauthenticated`: the client's token or certificate expired or was removed, and no newer one came in time.
 * - `resumed`: another stream resumed it without a request of this session.
 * - `max_hold`: it was held for as long as it may be.
 */
export type LostReason = keyof typeof TEXTS;

const TEXTS = {
  unknown: "the coordinator no longer holds it for us",
  expired: "its lease ran out before it was renewed",
  deleted: "it was deleted from the store",
  taken: "another client's lock was found in its place",
  forced: "it was force-released by an operator",
  session_ended: "the stream to the coordinator ended",
  session_closed: "the session was closed",
  permission_revoked: "this client is not allowed to hold it any more",
  unauthenticated:
    "the coordinator does not know this client any more, and no newer credentials came in time",
  resumed: "another stream resumed it",
  max_hold: "it was held for as long as it may be",
};

/** Reason for which a hold has ended: a loss, or this process's own release. */
export type EndReason = LostReason | "released";

/** Returns the reason for people. */
export function describeReason(reason: LostReason): string {
  return TEXTS[reason];
}

/** Returns the reason on the wire. One that this version does not know is `unknown`. */
export function lostReason(wire: Wire): LostReason {
  const reason = Wire[wire]?.toLowerCase() ?? "";
  return reason in TEXTS ? (reason as LostReason) : "unknown";
}

/**
 * State of a hold:
 *
 * - `held`: the lock is held, by this process's own clock and all messages so far.
 * - `suspended`: the stream to the coordinator broke and the session has a grace, or the coordinator ended it because the client's token
 *   or certificate expired. Don't act on the lock: it counts as not held, and is not lost yet.
 * - `lost`: the lock is not held any more. That is final.
 * - `released`: this process released it. That is final.
 */
export type State = "held" | "suspended" | "lost" | "released";
