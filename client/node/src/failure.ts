/**
 * Failures that coordinators and connections report, read from statuses and from messages.
 *
 * @module
 */

import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { status as Code, type StatusObject } from "@grpc/grpc-js";
import { Failure, type FieldViolation } from "./errors";
import type { SessionFailure } from "./generated/leasehold/v1/session_pb";
import { isBroken } from "./grpc-texts";
import { fromDuration } from "./wire";

/** Returns the failure of a request on a lease stream. */
export function failureOf(answer: SessionFailure): Failure {
  return new Failure({
    code: answer.code,
    reason: answer.reason,
    message: answer.message,
    violations: answer.fieldViolations.map(({ field, description }) => ({ field, description })),
    metadata: answer.metadata,
    retryAfter: fromDuration(answer.retryAfter),
  });
}

/** Returns the failure of a call or a stream that ended with this status, of the coordinator at the endpoint. */
export function failureFrom(endpoint: string, status: StatusObject): Failure {
  const details: Details = { reason: "", metadata: {}, violations: [], retryAfter: 0 };
  const encoded = status.metadata.get("grpc-status-details-bin")[0];
  if (encoded instanceof Buffer) {
    try {
      readStatus(encoded, details);
    } catch {
      // A proxy's own details are no concern of this client.
    }
  }
  return new Failure({
    code: status.code,
    message: status.details,
    endpoint,
    isTransport: details.reason === "" && isTransport(status),
    ...details,
  });
}

/**
 * Returns whether a status without a reason is that of a broken connection. Coordinators give a reason with every status. What a proxy
 * answers, without one, can't be told from a broken connection where the code is UNAVAILABLE, and means the same.
 */
function isTransport(status: StatusObject): boolean {
  switch (status.code) {
    case Code.UNAVAILABLE:
    case Code.UNKNOWN:
    case Code.CANCELLED:
    case Code.DEADLINE_EXCEEDED:
      return true;
    case Code.INTERNAL:
      return isBroken(status.details);
    default:
      return false;
  }
}

/** Returns the failure of a connection that could not be made or broke. */
export function transportFailure(endpoint: string, message: string, isDistrust = false): Failure {
  return new Failure({
    code: Code.UNAVAILABLE,
    message,
    endpoint,
    isTransport: true,
    isUnsent: true,
    isDistrust,
  });
}

/** Returns the failure of a connection that did not come about in time. */
export function timedOut(endpoint: string): Failure {
  return new Failure({
    code: Code.DEADLINE_EXCEEDED,
    message: "no answer in time",
    endpoint,
    isTransport: true,
    isUnsent: true,
  });
}

/** Returns the failure of a stream that the coordinator ended without a status of its own. */
export function endedFailure(endpoint: string): Failure {
  return new Failure({
    code: Code.UNAVAILABLE,
    message: "the coordinator ended the stream",
    endpoint,
    isTransport: true,
  });
}

/** Returns the failure of a wait that an operator ended, as the coordinator reports it to the stream that has it. */
export function forceReleased(): Failure {
  return new Failure({
    code: Code.ABORTED,
    reason: "FORCE_RELEASED",
    message: "an operator ended the wait",
  });
}

/** Returns the failure of a wait whose client may not wait any more. */
export function mayNotWait(): Failure {
  return new Failure({
    code: Code.PERMISSION_DENIED,
    reason: "PERMISSION_DENIED",
    message: "this client may not wait for the lock any more",
  });
}

/** Returns the failure of a coordinator that broke the protocol. */
export function protocolFailure(message: string): Failure {
  return new Failure({ code: Code.INTERNAL, message });
}

/** Returns what a coordinator would answer to a mistake that it can't see. */
export function invalidField(field: string, description: string): Failure {
  return new Failure({
    code: Code.INVALID_ARGUMENT,
    reason: "INVALID_FIELD",
    message: `${field}: ${description}`,
    violations: [{ field, description }],
  });
}

interface Details {
  reason: string;
  metadata: Record<string, string>;
  violations: FieldViolation[];
  retryAfter: number;
}

// The messages of google.rpc are read here, by their field numbers, so that their code need not be generated too.

function readStatus(message: Uint8Array, into: Details): void {
  for (const any of fields(message, 3)) {
    const url = text(any, 1);
    const [value] = fields(any, 2);
    if (!value) {
      continue;
    }
    switch (url.slice(url.lastIndexOf("/") + 1)) {
      case "google.rpc.ErrorInfo":
        into.reason = text(value, 1);
        for (const entry of fields(value, 3)) {
          into.metadata[text(entry, 1)] = text(entry, 2);
        }
        break;
      case "google.rpc.BadRequest":
        for (const violation of fields(value, 1)) {
          into.violations.push({ field: text(violation, 1), description: text(violation, 2) });
        }
        break;
      case "google.rpc.RetryInfo":
        for (const delay of fields(value, 1)) {
          into.retryAfter = fromDuration(fromBinary(DurationSchema, delay));
        }
        break;
    }
  }
}

/** Returns the length-delimited fields of this number. */
function fields(message: Uint8Array, wanted: number): Uint8Array[] {
  const reader = new BinaryReader(message);
  const found: Uint8Array[] = [];
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (number === wanted && type === WireType.LengthDelimited) {
      found.push(reader.bytes());
    } else {
      reader.skip(type, number);
    }
  }
  return found;
}

function text(message: Uint8Array, number: number): string {
  return Buffer.from(fields(message, number)[0] ?? []).toString("utf8");
}
