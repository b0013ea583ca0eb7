/**
 * Conversions between the values of this library and those of the protocol's messages.
 *
 * @module
 */

import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema } from "@bufbuild/protobuf/wkt";

/** Owner id or ticket: 16 bytes, one in each character, so that it can be a key of maps. Secret, and never logged. */
export type OwnerId = string;

/** Longest duration of the protocol, in seconds. */
const LONGEST = 315_576_000_000;

/** Returns a duration of the wire in milliseconds: 0 if it is not set or negative. */
export function fromDuration(wire: Duration | undefined): number {
  return wire ? Math.max(0, Number(wire.seconds) * 1000 + wire.nanos / 1e6) : 0;
}

/** Returns milliseconds as a duration for the wire; negative ones count as 0. */
export function toDuration(milliseconds: number): Duration {
  const total = Math.min(Math.max(0, milliseconds), LONGEST * 1000);
  const seconds = Math.floor(total / 1000);
  const nanos = Math.min(Math.round((total - seconds * 1000) * 1e6), 999_999_999);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos });
}

/** Returns the bytes of an owner id. @internal */
export function toBytes(id: OwnerId): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(id, "latin1"));
}

/** Returns the owner id of these bytes. */
export function toId(bytes: Uint8Array): OwnerId {
  return Buffer.from(bytes).toString("latin1");
}
