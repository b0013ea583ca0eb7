/**
 * Checks of what programs pass, by the bounds of the protocol. Nothing is noted or sent before they are made: a message that can't be encoded
 * or read would end the whole stream, and 0 is the default on the wire. They throw what a coordinator would answer.
 *
 * @module
 */

import { setMaxListeners } from "node:events";
import { Actor } from "./actor";
import { invalidField } from "./failure";

/** Largest number of the wire. */
const LARGEST = 0xffff_ffff;
/** Largest fencing token of the wire. */
const LARGEST_TOKEN = 2n ** 63n - 1n;
const LONGEST_NAME = 512;
const LONGEST_TEXT = 256;
const LONGEST_VALUE = 4096;
const LONGEST_KEY = 128;
const SHORTEST_KEY = 16;
const OWNER_ID = 16;
/** Longest wait, in milliseconds. */
export const DAY = 86_400_000;
/** Longest time of a hold, in milliseconds. */
export const YEAR = 365 * DAY;

function mustBe(isGood: boolean, field: string, what: string): void {
  if (!isGood) {
    throw invalidField(field, `must be ${what}`);
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string" && !/\p{Cs}/u.test(value);
}

function isPlain(text: string): boolean {
  return !/\p{Cc}/u.test(text);
}

/** Checks the name of a lock or an election. */
export function checkName(name: unknown, field = "name"): void {
  const isName = isText(name) && name !== "" && Buffer.byteLength(name) <= LONGEST_NAME;
  mustBe(isName && isPlain(name), field, "a string of 1 to 512 bytes without control characters");
}

/** Checks the beginning of names. */
export function checkPrefix(prefix: unknown): void {
  const isGood = isText(prefix) && Buffer.byteLength(prefix) <= LONGEST_NAME;
  mustBe(isGood, "prefix", "a string of at most 512 bytes");
}

/** Checks a text for people, if there is one. */
export function checkText(text: unknown, field: string): void {
  const isGood = isText(text) && Buffer.byteLength(text) <= LONGEST_TEXT && isPlain(text);
  const what = "a string of at most 256 bytes without control characters";
  mustBe(text === undefined || isGood, field, what);
}

/** Checks the key of a request. */
export function checkKey(key: unknown): void {
  const size = isText(key) ? Buffer.byteLength(key) : 0;
  mustBe(size >= SHORTEST_KEY && size <= LONGEST_KEY, "key", "a string of 16 to 128 bytes");
}

/** Checks free text: keys and what they stand for. */
export function checkMetadata(metadata: unknown): void {
  checkObject(metadata, "metadata");
  const entries = Object.entries((metadata ?? {}) as object);
  mustBe(entries.length <= 16, "metadata", "at most 16 entries");
  for (const [key, value] of entries) {
    const size = isText(key) ? Buffer.byteLength(key) : 0;
    mustBe(size >= 1 && size <= 64 && isPlain(key), "metadata", "of keys of 1 to 64 bytes");
    checkText(value, `metadata.${key}`);
    mustBe(value !== undefined, `metadata.${key}`, "a string");
  }
}

/** Checks a number of milliseconds, if there is one. */
export function checkTime(time: unknown, field: string, least: number, most = LARGEST * 1000) {
  const isGood = typeof time === "number" && time >= least && time <= most;
  mustBe(time === undefined || isGood, field, `a number of milliseconds, ${least} to ${most}`);
}

/** Checks a number that is positive, if there is one. */
export function checkPositive(time: unknown, field: string): void {
  checkTime(time, field, 0);
  mustBe(time !== 0, field, "a number of milliseconds that is more than 0");
}

/** Checks a whole number. */
export function checkNumber(value: unknown, field: string, least: 0 | 1, most = LARGEST): void {
  const isGood = Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
  mustBe(isGood, field, `a whole number of ${least} to ${most}`);
}

/** Checks what a busy lock leads to, if it is given. */
export function checkIfBusy(ifBusy: unknown): void {
  mustBe(ifBusy === undefined || ifBusy === "skip", "ifBusy", '"skip"');
}

/** Checks a fencing token, or the number of a waiter. */
export function checkToken(token: unknown, field = "token"): void {
  const isGood = typeof token === "bigint" && token >= 0n && token <= LARGEST_TOKEN;
  mustBe(isGood, field, "a bigint of 0 to 2^63 - 1");
}

/** Checks an owner id. */
export function checkOwnerId(ownerId: unknown): void {
  const isGood = ownerId instanceof Uint8Array && ownerId.length === OWNER_ID;
  mustBe(isGood, "ownerId", "a Uint8Array of 16 bytes");
}

/** Returns the bytes of a value. */
export function bytes(value: unknown): Uint8Array {
  mustBe(
    value === undefined || isText(value) || value instanceof Uint8Array,
    "value",
    "a well-formed string or a Uint8Array",
  );
  const encoded = typeof value === "string" ? Buffer.from(value) : (value as Uint8Array);
  mustBe((encoded?.length ?? 0) <= LONGEST_VALUE, "value", "at most 4096 bytes long");
  return encoded ?? new Uint8Array();
}

/** Checks a flag, if there is one. */
export function checkFlag(flag: unknown, field: string): void {
  mustBe(flag === undefined || typeof flag === "boolean", field, "true or false");
}

/** Checks a signal, if there is one. It may stop any number of flows: that many listeners are no leak. */
export function checkSignal(signal: unknown): void {
  mustBe(signal === undefined || signal instanceof AbortSignal, "signal", "an AbortSignal");
  if (signal instanceof AbortSignal) {
    setMaxListeners(0, signal);
  }
}

/** Checks an actor, if there is one. */
export function checkActor(actor: unknown): void {
  mustBe(actor === undefined || actor instanceof Actor, "actor", "an Actor");
}

/** Checks options, if there are any. */
export function checkObject(options: unknown, field: string): void {
  const isList = Array.isArray(options) || ArrayBuffer.isView(options);
  const isGood = typeof options === "object" && options !== null && !isList;
  mustBe(options === undefined || isGood, field, "an object");
}

/** Checks what is called. */
export function checkFunction(called: unknown, field: string): void {
  mustBe(typeof called === "function", field, "a function");
}

/** Returns a name for messages to people, whatever it is. */
export function shown(name: unknown): string {
  if (typeof name !== "string") {
    return `(${name === null ? "null" : typeof name})`;
  }
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`;
}
