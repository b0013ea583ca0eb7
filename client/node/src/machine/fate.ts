import { status as Code } from "@grpc/grpc-js";
import type { ConnectError, Failure } from "../errors";

/**
 * Fate of the holds and places that a stream which has not opened was asked to take over:
 *
 * - `declined`: nothing was taken over.
 * - `kept`: the coordinator may have taken them over, and keeps them until they expire.
 * - `dropped`: the coordinator may have taken them over; it has noticed the end of the stream, and may have released them.
 * - `ended`: an operator ended the session; what was to be taken over is lost, whatever the grace.
 */
export type Fate = "declined" | "kept" | "dropped" | "ended";

/** Reasons that coordinators give before they ask the store for anything. */
const EARLY = new Set([
  "INVALID_FIELD",
  "NOT_OPEN",
  "UNKNOWN_REQUEST",
  "TOO_MANY_SESSIONS",
  "TOO_MANY_LOCKS",
  "DRAINING",
  "OPEN_TIMEOUT",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "RATE_LIMITED",
  "MESSAGE_TOO_LARGE",
]);

/** Codes with which a proxy in between answers, which passes nothing on with them. */
const PROXYS = new Set([
  Code.INVALID_ARGUMENT,
  Code.FAILED_PRECONDITION,
  Code.PERMISSION_DENIED,
  Code.UNAUTHENTICATED,
  Code.UNIMPLEMENTED,
  Code.RESOURCE_EXHAUSTED,
]);

/** Returns the fate after a stream that ended with this error. */
export function fateOf(error: ConnectError): Fate {
  switch (error.kind) {
    case "invalid":
      return "declined";
    case "timed_out":
      // The connection is kept until there is another stream.
      return "kept";
    case "unreachable":
    case "ended":
      return "dropped";
  }
  return error.failure ? fateOfAnswer(error.failure) : "dropped";
}

/** Returns the fate after a stream that was ended with this failure. */
export function fateOfAnswer(failure: Failure): Fate {
  if (!failure.reason) {
    return PROXYS.has(failure.code) ? "declined" : "dropped";
  }
  if (failure.reason === "SESSION_ENDED") {
    return "ended";
  }
  return EARLY.has(failure.reason) ? "declined" : "kept";
}
