/**
 * Rig for tests of a session's rules without I/O: each test gives the inputs with their times, and checks all outputs. All times are in
 * milliseconds.
 *
 * @module
 */

import assert from "node:assert/strict";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { status as Code } from "@grpc/grpc-js";
import { AcquireError, ConnectError, Failure } from "../src/errors";
import {
  type GrantedLockSchema,
  SessionOpenSchema,
  type SessionRequest,
  type SessionResponse,
  SessionResponseSchema,
  type SessionResume,
} from "../src/generated/leasehold/v1/session_pb";
import { AcquireOutcome, LockMode, type LostReason } from "../src/generated/leasehold/v1/types_pb";
import type { Fate } from "../src/machine/fate";
import { Machine, type StreamEnd } from "../src/machine/machine";
import type { Output } from "../src/machine/output";
import type { Effect, Granted, HoldCall } from "../src/machine/pending";
import { type AcquireSpec, lockSpec } from "../src/machine/spec";
import { toDuration, toId } from "../src/wire";

export const TTL = 10_000;
export const INTERVAL = 3000;
const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined };

/** What a coordinator says. */
export type Response = NonNullable<MessageInitShape<typeof SessionResponseSchema>["response"]>;

/** Drives a machine. */
export class Rig {
  readonly machine: Machine;
  readonly leases: Granted[] = [];
  /** The stream that was connected last. */
  stream = 0;
  /** The resumes of the last open. */
  resumes: SessionResume[] = [];
  /** The error of the last stream that was given up. */
  connectError: ConnectError | undefined;
  /** The words for the outputs of the last input. */
  seen = "";
  readonly #ids = new Map<number, Set<bigint>>();
  #drawn = 0;

  /** Makes a session that is not connected yet. */
  constructor({ grace = 0, clockError = 0 } = {}) {
    this.machine = new Machine({
      open: create(SessionOpenSchema, grace ? { disconnectGrace: toDuration(grace) } : {}),
      grace,
      openTimeout: 5000,
      clockError,
      draw: () => `next${String(++this.#drawn).padStart(12, "0")}`,
      log: SILENT,
    });
  }

  /** Makes a session that was opened at 0; the open is request 1, and the next request 2. */
  static open(options = {}): Rig {
    const rig = new Rig(options);
    rig.reopen(0);
    return rig;
  }

  /** Makes a session that holds lock1 under owner id 1, as lease 0. The next request is 3. */
  static holding(options = {}): Rig {
    const rig = Rig.open(options);
    rig.acquire(0, 1);
    rig.grant(0, 2, 1, 1);
    rig.want("acquired 1");
    return rig;
  }

  /** Checks the outputs of the last input. */
  want(...outputs: string[]): this {
    assert.equal(this.seen, outputs.join("; "));
    return this;
  }

  connect(now: number): this {
    this.stream = this.machine.moving.connected(now, "http://test");
    return this.#look();
  }

  /** Connects a stream and opens it, with nothing to resume. */
  reopen(now: number): this {
    this.connect(now).want("open");
    return this.hear(now, 1, opensWith());
  }

  hear(now: number, id: number | bigint, response: Response, stream = this.stream): this {
    const message = create(SessionResponseSchema, { requestId: BigInt(id), response });
    this.machine.message(now, stream, message as SessionResponse);
    return this.#look();
  }

  /** Asks for the lock of this number. */
  acquire(now: number, id: number, wait?: number): this {
    return this.ask(now, id, spec([id], { wait }));
  }

  ask(now: number, id: number, asked: AcquireSpec): this {
    this.machine.requests.acquire(
      now,
      id,
      asked,
      named(id, () => undefined),
    );
    return this.#look();
  }

  cancel(now: number, id: number): this {
    this.machine.requests.cancel(now, id);
    return this.#look();
  }

  /** Grants a lock; the owner id is one byte. */
  grant(now: number, request: number, lock: number, owner: number, acked = 0): this {
    return this.hear(now, request, grants(acked, granted(lock, owner)));
  }

  /** Releases a hold as the hold itself does it: ends its lease first. 0 is no caller. */
  release(now: number, index: number, reply: number): this {
    const { key, lease } = this.lease(index);
    lease.end(now, "released");
    this.machine.requests.release(now, key, "", caller(reply));
    return this.#look();
  }

  change(now: number, index: number, effect: Effect, reply: number): this {
    this.machine.requests.change(
      now,
      this.lease(index).key,
      effect,
      "",
      named(reply, () => undefined),
    );
    return this.#look();
  }

  ack(now: number, sequence: number | bigint, validFor: number, nextWithin?: number): this {
    return this.hear(now, 0, acks(sequence, validFor, nextWithin));
  }

  end(now: number, how: StreamEnd): this {
    this.machine.streamEnded(now, this.stream, how);
    return this.#look();
  }

  attemptFailed(now: number, fate: Fate): this {
    this.machine.moving.attemptFailed(now, fate);
    return this.#look();
  }

  connectFailed(now: number, error: ConnectError): this {
    this.machine.connectFailed(now, error);
    return this.#look();
  }

  tick(now: number): this {
    this.machine.tick(now);
    return this.#look();
  }

  close(now: number): this {
    this.machine.close(now);
    return this.#look();
  }

  lease(index: number): Granted {
    const lease = this.leases[index];
    assert(lease);
    return lease;
  }

  /** Checks the state of a hold, or the reason of its loss. */
  wantState(now: number, index: number, state: string): this {
    const { lease } = this.lease(index);
    assert.equal(lease.endReason(now) ?? lease.stateAt(now), state);
    return this;
  }

  wantDeadline(now: number, index: number, deadline: number): this {
    assert.equal(this.lease(index).lease.alive(now), deadline);
    return this;
  }

  wantAlarm(alarm: number): this {
    assert.equal(this.machine.state.alarm(), alarm);
    return this;
  }

  /** Returns the next owner id of the first resume of the last open. */
  next(index = 0): string {
    const resume = this.resumes[index];
    assert(resume, "nothing was to be resumed");
    return toId(resume.nextOwnerId);
  }

  /** Puts what is to be done since the last look into words. */
  #look(): this {
    const { outputs } = this.machine.state;
    this.machine.state.outputs = [];
    this.seen = outputs.map((output) => this.#word(output)).join("; ");
    return this;
  }

  #word(output: Output): string {
    switch (output.kind) {
      case "send":
        return this.#sent(output.stream, output.request);
      case "acquired": {
        const { result, call } = output;
        if (result instanceof AcquireError) {
          return `failed ${nameOf(call)} ${result.kind}`;
        }
        this.leases.push(...result);
        return `acquired ${nameOf(call)}`;
      }
      case "hold_done": {
        const { outcome } = output.result;
        return `done ${nameOf(output.call)}${outcome === "done" ? "" : ` ${outcome}`}`;
      }
      case "hang_up":
        this.connectError = output.error;
        return "hang up";
      default:
        return output.kind;
    }
  }

  #sent(stream: number, { requestId, request }: SessionRequest): string {
    const ids = this.#ids.get(stream) ?? new Set();
    this.#ids.set(stream, ids);
    const isRepeated = ids.has(requestId) && request.case !== "open";
    assert(requestId > 0n && !isRepeated, `request id ${requestId} of stream ${stream}`);
    ids.add(requestId);
    switch (request.case) {
      case "open":
        this.resumes = request.value.resume;
        return "open";
      case "acquire": {
        const { name, names, wait } = request.value;
        const rest = wait ? ` for ${Number(wait.seconds) * 1000 + wait.nanos / 1e6}` : "";
        return `acquire ${requestId} ${name}${names.join("+")}${rest}`;
      }
      case "cancel":
        return `cancel ${request.value.acquireRequestId}`;
      case "release": {
        const { ownerId } = request.value;
        return `release ${requestId} of ${ownerId.length === 1 ? ownerId[0] : toId(ownerId)}`;
      }
      case "setValue":
        return `set value ${requestId}`;
      case "downgrade":
        return `downgrade ${requestId}`;
      case "reduce":
        return `reduce ${requestId} to ${request.value.permits}`;
      case "heartbeat":
        return `heartbeat ${request.value.sequence}`;
      case "close":
        return "close";
      default:
        assert.fail(`unexpected request ${request.case}`);
    }
  }
}

// Callers are known by their numbers.
const names = new WeakMap<object, number>();

function named<T extends object>(name: number, call: T): T {
  names.set(call, name);
  return call;
}

function nameOf(call: object): number | undefined {
  return names.get(call);
}

function caller(reply: number): HoldCall | undefined {
  return reply === 0 ? undefined : named(reply, () => undefined);
}

/** Returns an acquire of these locks. */
export function spec(
  locks: readonly (number | string)[],
  more: Partial<AcquireSpec> = {},
): AcquireSpec {
  const name = (lock: number | string) => (typeof lock === "number" ? `lock${lock}` : lock);
  return {
    locks: locks.map((lock) => lockSpec(name(lock), LockMode.EXCLUSIVE)),
    isOfSeveral: locks.length > 1,
    wait: undefined,
    value: new Uint8Array(),
    lockDelay: 0,
    maxHold: 0,
    actor: 0,
    isReentrant: false,
    trace: "",
    ...more,
  };
}

export function granted(
  lock: number | string,
  owner: number | string,
  holdCount = 1,
): MessageInitShape<typeof GrantedLockSchema> {
  return {
    name: typeof lock === "number" ? `lock${lock}` : lock,
    ownerId: typeof owner === "number" ? Uint8Array.of(owner) : Buffer.from(owner, "latin1"),
    fencingToken: 7n,
    holdCount,
  };
}

export function grants(
  acked: number,
  ...locks: MessageInitShape<typeof GrantedLockSchema>[]
): Response {
  const value = { locks, validFor: toDuration(9900), ackedHeartbeat: BigInt(acked) };
  return { case: "granted", value };
}

export function acks(sequence: number | bigint, validFor: number, nextWithin?: number): Response {
  const value = {
    ackedHeartbeat: BigInt(sequence),
    validFor: toDuration(validFor),
    ...(nextWithin === undefined ? {} : { nextWithin: toDuration(nextWithin) }),
  };
  return { case: "heartbeat", value };
}

/** Answers an open: each of these next owner ids is resumed as a hold. */
export function opensWith(
  resumed: readonly string[] = [],
  more: { endsIn?: number; more?: boolean } = {},
): Response {
  const value = {
    sessionId: "s",
    coordinator: "c",
    ttl: toDuration(TTL),
    heartbeatInterval: toDuration(INTERVAL),
    validFor: toDuration(9900),
    more: more.more ?? false,
    resumed: resumed.map((id) => ({
      name: "lock1",
      ownerId: Buffer.from(id, "latin1"),
      what: { case: "hold", value: { fencingToken: 7n, holdCount: 1 } } as const,
      ...(more.endsIn ? { endsIn: toDuration(more.endsIn) } : {}),
    })),
  };
  return { case: "opened", value };
}

/** Answers an open that resumes a place, which is the first in the queue of lock1. */
export function opensInPlace(next: string): Response {
  const opened = opensWith();
  assert(opened.case === "opened");
  const ownerId = Buffer.from(next, "latin1");
  const what = { case: "position", value: 1n } as const;
  opened.value.resumed = [{ name: "lock1", ownerId, what }];
  return opened;
}

export function refuses(next: string, reason: LostReason): Response {
  const opened = opensWith();
  assert(opened.case === "opened");
  opened.value.refused = [{ name: "lock1", ownerId: Buffer.from(next, "latin1"), reason }];
  return opened;
}

export function loses(owner: number, reason: LostReason): Response {
  return {
    case: "lost",
    value: { locks: [{ name: "lock1", ownerId: Uint8Array.of(owner), reason }] },
  };
}

export const DRAINS: Response = { case: "draining", value: { deadline: toDuration(8000) } };
/** Asks the session to move; the coordinator goes on serving. */
export const ASKS: Response = { case: "draining", value: { keepsServing: true } };
export const CLOSED: Response = { case: "closed", value: {} };
export const BUSY: Response = { case: "notGranted", value: { outcome: AcquireOutcome.BUSY } };
export const CANCELLED: Response = {
  case: "notGranted",
  value: { outcome: AcquireOutcome.CANCELLED },
};

export function releasedAs(released: boolean): Response {
  return { case: "released", value: { released } };
}

export function queuedAs(ticket: string): Response {
  return { case: "queued", value: { position: 1n, ticket: Buffer.from(ticket, "latin1") } };
}

export function failsWith(code: Code, reason: string): Response {
  return { case: "error", value: { code, reason } };
}

export function unreachable(isRetryable: boolean): ConnectError {
  return new ConnectError("http://test", isRetryable ? "ended" : "invalid");
}

export function failure(code: Code, reason: string, isTransport = false): Failure {
  return new Failure({ code, reason, message: "", isTransport });
}

/** Returns numbers that look random, from a seed. */
export function randomFrom(seed: number): (limit: number) => number {
  let state = seed + 1;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
}
