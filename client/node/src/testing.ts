/**
 * Coordinator for unit tests: it runs inside of the test's process, keeps its locks in memory, and speaks the protocol to the real client.
 *
 * It has exclusive and shared locks, semaphores, several names at once, queues in order, rising tokens, detached locks, elections without
 * observers, release at disconnect, and losses on demand. It has no deadlocks but those of an actor with itself, no limits and no
 * check that those of a semaphore agree, no permissions, no `grace`, `lockDelay` or `maxHold`, no resumes, and nothing of `client.admin`.
 *
 * @packageDocumentation
 */

import { randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";
import * as wire from "./generated/leasehold/v1/lock_pb";
import type { SessionAcquire, SessionRequest } from "./generated/leasehold/v1/session_pb";
import { AcquireOutcome, LockMode, LostReason } from "./generated/leasehold/v1/types_pb";
import { clearTimeout, setTimeout } from "./timers";
import { fromDuration, toDuration, toId } from "./wire";

const TTL = 10_000;
const NAME = "testing";

/** Holder of a lock, as {@link TestCoordinator.holders} shows it. */
export interface TestHolder {
  readonly token: bigint;
  readonly clientName: string;
  readonly value: string;
  /** Number of permits of a semaphore; 0 for other locks. */
  readonly permits: number;
}

/** Client on a stream, or one call without a session. */
interface Peer {
  clientName: string;
  ttl: number;
  /** The newest heartbeat. */
  acked: bigint;
  say?: (requestId: bigint, kind: string, value: object) => void;
}

/** Lock that is asked for. */
type Wanted = Pick<SessionAcquire, "name" | "mode" | "permits" | "permitsAtLeast" | "limit">;

interface Grant extends Omit<Wanted, "permitsAtLeast">, Pick<Waiter, "peer" | "actor"> {
  readonly ownerId: Buffer;
  readonly token: bigint;
  value: Uint8Array;
  count: number;
  timer?: NodeJS.Timeout;
}

interface Waiter {
  readonly peer: Peer;
  readonly id: bigint;
  readonly wanted: readonly Wanted[];
  readonly value: Uint8Array;
  readonly actor: bigint;
  readonly isReentrant: boolean;
  readonly answer: (granted: Grant[] | AcquireOutcome) => void;
}

/** Coordinator for unit tests. Make one with {@link TestCoordinator.start}, and connect the client to its `url`. */
export class TestCoordinator implements AsyncDisposable {
  readonly #server = new grpc.Server();
  readonly #tokens = new Map<string, bigint>();
  #grants: Grant[] = [];
  #waiters: Waiter[] = [];
  #sessions = 0;
  /** URL for the client. */
  readonly url: string = "";

  private constructor() {
    this.#server.addService(SERVICE, {
      session: (stream: Stream) => this.#session(stream),
      acquire: (call: Call<wire.AcquireRequest>, reply: Reply) => this.#detached(call, reply),
      renew: ({ request: { ownerId, ttl } }: Call<wire.RenewRequest>, reply: Reply) => {
        const grant = this.#owned(ownerId);
        reply(null, grant ? { renewed: true, ttl: this.#expire(grant, ttl) } : {});
      },
      release: ({ request: { ownerId } }: Call<wire.ReleaseRequest>, reply: Reply) => {
        reply(null, { released: this.#release(this.#owned(ownerId)) });
      },
    });
  }

  /** Starts a coordinator on a free port of this machine. */
  static async start(): Promise<TestCoordinator> {
    const coordinator = new TestCoordinator();
    const server = coordinator.#server;
    const bind = promisify(server.bindAsync.bind(server));
    const port = await bind("127.0.0.1:0", grpc.ServerCredentials.createInsecure());
    return Object.assign(coordinator, { url: `http://127.0.0.1:${port}` });
  }

  /** Takes a lock from all who hold it, as an operator's force release does, and hands it on. Returns how many lost it. */
  lose(name: string): number {
    const lost = this.#of(name);
    for (const { peer, ownerId } of lost) {
      peer.say?.(0n, "lost", { locks: [{ name, ownerId, reason: LostReason.FORCED }] });
    }
    this.#remove(lost);
    return lost.length;
  }

  /** Returns who holds a lock. */
  holders(name: string): TestHolder[] {
    return this.#of(name).map(({ token, peer: { clientName }, value, permits }) => {
      return { token, clientName, value: Buffer.from(value).toString(), permits };
    });
  }

  /** Returns how many requests wait for a lock. */
  waiting(name: string): number {
    return this.#waiters.filter(({ wanted }) => wanted.some((one) => one.name === name)).length;
  }

  /** Stops the coordinator, and ends all streams. */
  async close(): Promise<void> {
    this.#server.forceShutdown();
  }

  readonly [Symbol.asyncDispose] = () => this.close();

  #of(name: string): Grant[] {
    return this.#grants.filter((grant) => grant.name === name);
  }

  #session(stream: Stream): void {
    const peer: Peer = { clientName: "", ttl: TTL, acked: 0n };
    peer.say = (requestId, kind, value) =>
      stream.write({ requestId, response: { case: kind, value } });
    const leave = () => {
      this.#waiters = this.#waiters.filter((waiter) => waiter.peer !== peer);
      this.#remove(this.#grants.filter((grant) => grant.peer === peer));
    };
    stream.on("data", (request: SessionRequest) => {
      this.#heard(peer, request);
      if (request.request.case === "close") {
        leave();
        peer.say?.(request.requestId, "closed", {});
        stream.end();
      }
    });
    stream.on("cancelled", leave);
    stream.on("error", leave);
  }

  #heard(peer: Peer, { requestId, request }: SessionRequest): void {
    switch (request.case) {
      case "open": {
        const { clientName, ttl, resume } = request.value;
        Object.assign(peer, { clientName, ttl: ttl ? fromDuration(ttl) : TTL });
        peer.say?.(requestId, "opened", {
          sessionId: `${NAME}-${++this.#sessions}`,
          coordinator: NAME,
          ttl: toDuration(peer.ttl),
          heartbeatInterval: toDuration(peer.ttl / 3),
          refused: resume.map(({ name, nextOwnerId: ownerId }) => ({ name, ownerId })),
        });
        break;
      }
      case "heartbeat":
        peer.acked = request.value.sequence;
        peer.say?.(requestId, "heartbeat", terms(peer));
        break;
      case "acquire":
        this.#acquire(peer, requestId, request.value);
        break;
      case "cancel": {
        const { acquireRequestId: id } = request.value;
        const cancelled = this.#waiters.find((one) => one.peer === peer && one.id === id);
        this.#leaveQueue(cancelled, AcquireOutcome.CANCELLED);
        break;
      }
      case "release": {
        const released = this.#release(this.#owned(request.value.ownerId));
        peer.say?.(requestId, "released", { released });
        break;
      }
      case "setValue":
      case "downgrade":
      case "reduce": {
        const grant = this.#owned(request.value.ownerId);
        if (grant && request.case === "setValue") {
          grant.value = request.value.value;
        } else if (grant && request.case === "downgrade") {
          grant.mode = LockMode.SHARED;
        } else if (grant && request.case === "reduce") {
          grant.permits = Math.min(grant.permits, request.value.permits);
        }
        this.#serve();
        const kind = { setValue: "valueSet", downgrade: "downgraded", reduce: "reduced" };
        peer.say?.(requestId, kind[request.case], { [kind[request.case]]: grant !== undefined });
        break;
      }
    }
  }

  #acquire(peer: Peer, id: bigint, asked: SessionAcquire): void {
    const names = asked.names.length > 0 ? asked.names : [asked.name];
    const specs = asked.locks.length > 0 ? asked.locks : names.map((name) => ({ ...asked, name }));
    const { value, actor, reentrant: isReentrant, wait } = asked;
    const answer = (granted: Grant[] | AcquireOutcome) => {
      if (typeof granted === "number") {
        const [holding] = this.#of(specs[0]?.name ?? "");
        const holder = { clientName: holding?.peer.clientName ?? "" };
        peer.say?.(id, "notGranted", { outcome: granted, holder });
        return;
      }
      const locks = granted.map((grant) => {
        const { name, ownerId, token: fencingToken, permits } = grant;
        return { name, ownerId, fencingToken, holdCount: ++grant.count, permits };
      });
      peer.say?.(id, "granted", { locks, ...terms(peer) });
    };
    const waiter = { peer, id, wanted: specs.map(wantedOf), value, actor, isReentrant, answer };
    const isOwn = (one: Grant) => one.peer === peer && one.actor === actor;
    if (actor && !isReentrant && specs.some(({ name }) => this.#of(name).some(isOwn))) {
      const message = "the actor holds the lock already";
      const code = grpc.status.FAILED_PRECONDITION;
      peer.say?.(id, "error", { code, reason: "SELF_DEADLOCK", message });
    } else {
      this.#queue(waiter, wait && fromDuration(wait));
    }
  }

  #detached(call: Call<wire.AcquireRequest>, reply: Reply): void {
    const { clientName, value, wait, ttl } = call.request;
    const peer = { clientName, ttl: 0, acked: 0n };
    const answer = (granted: Grant[] | AcquireOutcome) => {
      const [grant] = typeof granted === "number" ? [] : granted;
      if (!grant) {
        reply(null, { outcome: granted });
        return;
      }
      grant.count = 1;
      const { ownerId, token: fencingToken, permits } = grant;
      const lasts = this.#expire(grant, ttl);
      reply(null, { outcome: AcquireOutcome.GRANTED, ownerId, fencingToken, ttl: lasts, permits });
    };
    const wanted = [wantedOf(call.request)];
    const waiter = { peer, id: 0n, wanted, value, actor: 0n, isReentrant: false, answer };
    call.on("cancelled", () => this.#leaveQueue(waiter, AcquireOutcome.CANCELLED));
    this.#queue(waiter, fromDuration(wait));
  }

  #queue(waiter: Waiter, wait: number | undefined): void {
    this.#waiters.push(waiter);
    this.#serve();
    if (wait === 0) {
      this.#leaveQueue(waiter, AcquireOutcome.BUSY);
    } else if (wait && this.#waiters.includes(waiter)) {
      setTimeout(() => this.#leaveQueue(waiter, AcquireOutcome.TIMED_OUT), wait).unref();
    }
  }

  #leaveQueue(waiter: Waiter | undefined, outcome: AcquireOutcome): void {
    if (waiter && this.#waiters.includes(waiter)) {
      this.#waiters = this.#waiters.filter((one) => one !== waiter);
      waiter.answer(outcome);
      this.#serve();
    }
  }

  /** Grants what can be granted, in order: nobody passes a waiter for one of the same names. */
  #serve(): void {
    const blocked = new Set<string>();
    for (const waiter of [...this.#waiters]) {
      const { peer, actor, isReentrant, wanted } = waiter;
      const again = wanted.map(({ name }) => {
        return this.#of(name).find(
          (one) => isReentrant && one.peer === peer && one.actor === actor,
        );
      });
      const isFree = (lock: Wanted) => !blocked.has(lock.name) && this.#room(lock) > 0;
      if (wanted.every((lock, index) => again[index] || isFree(lock))) {
        this.#waiters = this.#waiters.filter((one) => one !== waiter);
        waiter.answer(wanted.map((lock, index) => again[index] ?? this.#grant(waiter, lock)));
        continue;
      }
      for (const { name } of wanted) {
        blocked.add(name);
      }
    }
  }

  /** Returns how many permits can be granted, at least as many as are wanted; 1 for other locks. 0 is none. */
  #room({ name, mode, permits, permitsAtLeast, limit }: Wanted): number {
    const held = this.#of(name);
    if (mode === LockMode.SEMAPHORE) {
      const free = limit - held.reduce((sum, grant) => sum + grant.permits, 0);
      return free >= permitsAtLeast ? Math.min(permits, free) : 0;
    }
    const isShared = mode === LockMode.SHARED && held.every((grant) => grant.mode === mode);
    return held.length === 0 || isShared ? 1 : 0;
  }

  #grant({ peer, actor, value }: Waiter, wanted: Wanted): Grant {
    const { name, mode, limit } = wanted;
    const token = (this.#tokens.get(name) ?? 0n) + 1n;
    this.#tokens.set(name, token);
    const permits = mode === LockMode.SEMAPHORE ? this.#room(wanted) : 0;
    const ownerId = randomBytes(16);
    const made = { peer, name, ownerId, token, actor, limit, mode, permits, value, count: 0 };
    this.#grants.push(made);
    return made;
  }

  #owned(ownerId: Uint8Array): Grant | undefined {
    return this.#grants.find((grant) => toId(grant.ownerId) === toId(ownerId));
  }

  #release(grant: Grant | undefined): boolean {
    if (grant && --grant.count === 0) {
      this.#remove([grant]);
    }
    return grant !== undefined;
  }

  #remove(grants: readonly Grant[]): void {
    this.#grants = this.#grants.filter((grant) => !grants.includes(grant));
    this.#serve();
  }

  /** Lets a detached lock end after its TTL, and returns that. */
  #expire(grant: Grant, ttl = toDuration(TTL)): typeof ttl {
    clearTimeout(grant.timer);
    grant.timer = setTimeout(() => this.#remove([grant]), fromDuration(ttl)).unref();
    return ttl;
  }
}

type Stream = grpc.ServerDuplexStream<SessionRequest, object>;
type Call<Q> = grpc.ServerUnaryCall<Q, object>;
type Reply = grpc.sendUnaryData<object>;

/** Returns until when holds are valid. */
function terms({ ttl, acked }: Peer): object {
  return { validFor: toDuration(ttl * 0.99), ackedHeartbeat: acked };
}

/** Returns the lock of a request, with its defaults. */
function wantedOf({ name, mode, permits, permitsAtLeast, limit }: Wanted): Wanted {
  const most = permits || 1;
  const atLeast = permitsAtLeast || most;
  return { name, mode: mode || LockMode.EXCLUSIVE, permits: most, permitsAtLeast: atLeast, limit };
}

/** The service, as gRPC's server takes it. */
const SERVICE = Object.fromEntries(
  wire.LockService.methods.map(({ name, localName, input, output, methodKind }) => {
    const method = {
      path: `/${wire.LockService.typeName}/${name}`,
      requestStream: methodKind === "bidi_streaming",
      responseStream: methodKind === "bidi_streaming",
      requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
      responseSerialize: (answer: never) => Buffer.from(toBinary(output, create(output, answer))),
    };
    return [localName, method];
  }),
) as unknown as grpc.ServiceDefinition;
