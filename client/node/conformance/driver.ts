/**
 * Driver for the conformance runner: carries out what the runner asks for on stdin, by the library's public interface, and reports on stdout
 * what the library says. docs/conformance.md describes the lines. It contains no rule of its own.
 *
 * @module
 */

import { writeSync } from "node:fs";
import { uptime } from "node:os";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { now as libraryClock, skew } from "../src/clock";
import {
  AcquireError,
  type AcquireOptions,
  Actor,
  type Client,
  ClosedError,
  ConnectError,
  connect,
  Failure,
  type Held,
  Hold,
  HoldError,
  type Holds,
  type Lock,
  LockLostError,
  LockReleasedError,
  LockSuspendedError,
  Locks,
  Semaphore,
  type Term,
  VERSION,
} from "../src/index";

/** One line of the runner. */
interface Request {
  id: number;
  op: string;
  as?: string;
  on?: string;
  h?: string;
  of?: number;
  ms?: number;
  value?: string;
  message?: string;
  election?: string;
  names?: string[];
  mode?: string;
  permits?: number | null;
  limit?: number | null;
  wait_ms?: number | null;
  lock_delay_ms?: number;
  actor?: string;
  reentrant?: boolean;
  cleanup_ms?: number;
  fail_with?: string;
  endpoints?: string[];
  client_name?: string;
  ttl_ms?: number;
  grace_ms?: number;
  connect_timeout_ms?: number;
  backoff_min_ms?: number;
  backoff_max_ms?: number;
  tls?: { ca?: string; cert?: string; key?: string; server_name?: string };
  token_file?: string;
}

type Answer = Record<string, unknown>;

/** What the runner calls by a name: holds, a leadership, or a body. */
interface Handle {
  members: readonly Held[];
  holds?: Hold | Holds;
  term?: Term;
  /** Tells a body that runs to end: with nothing, or its own error. */
  done?: (error?: Error) => void;
}

/** A body's own error. */
class BodyError extends Error {}

/** A fault of the driver, or what it can't do. */
class Fault extends Error {
  constructor(
    readonly kind: "internal" | "unsupported",
    message: string,
  ) {
    super(message);
  }
}

/** The runner's cancel, as the reason of signals. */
const CANCELLED = new DOMException("cancelled by the runner", "AbortError");

const CAPABILITIES = [
  "cancel",
  "cancel_body",
  "suspended_event",
  "cleanup",
  "fail_with",
  "backoff",
  "tls",
  "clock",
  "skew_clock",
  "block",
];

const clients = new Map<string, Client>();
const handles = new Map<string, Handle>();
const actors = new Map<string, Actor>();
const cancels = new Map<number, AbortController>();

/** Nanoseconds that CLOCK_BOOTTIME is ahead of the fine clock, found at a step of the stepwise one. */
const AHEAD = (() => {
  // Read in this order, their sum is never ahead, even if this process has to wait in between; right after a step it is hardly behind.
  let [ahead, last] = [-(2n ** 63n), Number.NaN];
  for (let steps = 0; steps < 4; ) {
    const step = uptime();
    const fine = process.hrtime.bigint();
    const found = BigInt(Math.round(step * 100)) * 10_000_000n - fine;
    ahead = found > ahead ? found : ahead;
    steps += step === last ? 0 : 1;
    last = step;
  }
  return ahead;
})();

/** Returns the driver's own reading of the clock. */
function boot(): string {
  return `${process.hrtime.bigint() + AHEAD}`;
}

function write(line: Answer): void {
  let rest = Buffer.from(`${JSON.stringify(line)}\n`);
  while (rest.length > 0) {
    rest = rest.subarray(writeSync(1, rest));
  }
}

const SLOW = new Set([
  "connect",
  "acquire",
  "release",
  "set_value",
  "downgrade",
  "body",
  "campaign",
  "proclaim",
  "resign",
  "lead",
  "observe",
  "close",
]);

/** Begins a request. Those that end at once are carried out before the next line is read. */
function begin(request: Request): void {
  if (!SLOW.has(request.op)) {
    try {
      write({ id: request.id, ok: atOnce(request) });
    } catch (error) {
      write({ id: request.id, err: describe(error) });
    }
    return;
  }
  const cancel = new AbortController();
  cancels.set(request.id, cancel);
  carryOut(request, cancel.signal)
    .then(
      (ok) => ok && write({ id: request.id, ok }),
      (error) => write({ id: request.id, err: describe(error) }),
    )
    .finally(() => {
      cancels.delete(request.id);
      watchStates(request);
    });
}

function atOnce(request: Request): Answer {
  switch (request.op) {
    case "hello":
      return { protocol: 1, library: "node", version: VERSION, capabilities: CAPABILITIES };
    case "cancel":
      cancels.get(request.of ?? 0)?.abort(CANCELLED);
      return {};
    case "clock":
      return { clock_ns: `${BigInt(Math.round(libraryClock() * 1e6))}` };
    case "skew_clock":
      skew(request.ms ?? 0);
      return {};
    case "finish":
      handle(request).done?.();
      return {};
    case "fail":
      handle(request).done?.(new BodyError(request.message));
      return {};
    case "state":
      return stateNow(handle(request));
    case "block_ms": {
      const blocked = handle(request);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, request.ms);
      return stateNow(blocked);
    }
    default:
      throw new Fault("unsupported", `unknown op ${request.op}`);
  }
}

async function carryOut(request: Request, signal: AbortSignal): Promise<Answer | undefined> {
  switch (request.op) {
    case "connect":
      return await open(request);
    case "acquire": {
      const options = { ...acquireOptions(request), signal };
      const held = await asked(request).acquire(options);
      const boot_ns = boot();
      const members = held instanceof Hold ? [held] : held.all;
      handles.set(request.as ?? "", { members, holds: held });
      const holds = members.map(({ name, token, count }) => ({ name, token: `${token}`, count }));
      return { holds, boot_ns };
    }
    case "body":
      return await body(request, signal);
    case "campaign": {
      const { value = "", wait_ms } = request;
      const election = client(request).election(request.election ?? "", {
        value,
        wait: wait_ms ?? undefined,
      });
      const term = await election.campaign({ signal });
      const boot_ns = boot();
      handles.set(request.as ?? "", { members: [term], term });
      return { holds: [{ name: term.name, token: `${term.token}`, count: 1 }], boot_ns };
    }
    case "lead":
      return await lead(request, signal);
    case "observe":
      write({ id: request.id, ok: {} });
      await observe(request, signal);
      return undefined;
    case "close":
      await client(request).close();
      return {};
    case "release":
    case "resign": {
      const { holds, term, members } = handle(request);
      const isReleased = await (term ? term.resign() : holds?.release());
      if (isReleased === false) {
        const lost = members.map(({ error }) => error).find((error) => error !== undefined);
        throw lost instanceof LockLostError
          ? lost
          : new LockLostError(members[0]?.name ?? "", 0n, "unknown");
      }
      return {};
    }
    case "set_value":
      await only(request).setValue(request.value ?? "");
      return {};
    case "downgrade":
      await only(request).downgrade();
      return {};
    case "proclaim":
      await handle(request).term?.proclaim(request.value ?? "");
      return {};
    default:
      throw new Fault("unsupported", `unknown op ${request.op}`);
  }
}

async function open(request: Request): Promise<Answer> {
  const { backoff_min_ms: least, backoff_max_ms: most, tls } = request;
  const opened = await connect(request.endpoints ?? [], {
    clientName: request.client_name,
    ttl: request.ttl_ms,
    grace: request.grace_ms,
    connectTimeout: request.connect_timeout_ms,
    backoff: least && most ? { least, most } : undefined,
    tls: tls && { ca: tls.ca, cert: tls.cert, key: tls.key, serverName: tls.server_name },
    tokenFile: request.token_file,
    allowPlaintextToken: true,
    logger: { debug: console.error, info: console.error, warn: console.error },
  });
  clients.set(request.as ?? "", opened);
  return { session_id: opened.session.info?.sessionId };
}

function client({ on }: Request): Client {
  const found = clients.get(on ?? "");
  if (!found) {
    throw new Fault("internal", `there is no client ${on}`);
  }
  return found;
}

function handle({ h }: Request): Handle {
  const found = handles.get(h ?? "");
  if (!found) {
    throw new Fault("internal", `there is no handle ${h}`);
  }
  return found;
}

function only(request: Request): Hold {
  const [hold] = handle(request).members;
  if (!(hold instanceof Hold)) {
    throw new Fault("internal", "it is no hold");
  }
  return hold;
}

function actor(name: string): Actor {
  const known = actors.get(name) ?? new Actor();
  actors.set(name, known);
  return known;
}

function acquireOptions(request: Request): AcquireOptions {
  return {
    wait: request.wait_ms ?? undefined,
    value: request.value,
    lockDelay: request.lock_delay_ms,
    actor: request.actor ? actor(request.actor) : undefined,
    reentrant: request.reentrant,
  };
}

/** Returns the requests for one lock, for permits, or for several locks. */
function asked(request: Request): Lock | Locks | Semaphore {
  const { names = [], permits, limit, mode } = request;
  const on = client(request);
  const isSemaphore = typeof permits === "number" && typeof limit === "number";
  const [name = ""] = names;
  if (names.length > 1) {
    return on.locks(
      names.map((one) =>
        isSemaphore ? { name: one, permits, limit } : { name: one, shared: mode === "shared" },
      ),
    );
  }
  return isSemaphore
    ? on.semaphore(name, limit, { permits })
    : on.lock(name, { shared: mode === "shared" });
}

async function body(request: Request, signal: AbortSignal): Promise<Answer> {
  const options = { ...acquireOptions(request), signal };
  const requests = asked(request);
  const under = (hold: Hold, stop: AbortSignal) => run(request, { members: [hold] }, stop);
  if (requests instanceof Locks) {
    await requests.with(options, ({ all }, stop) => run(request, { members: all }, stop));
  } else if (requests instanceof Semaphore) {
    await requests.with(options, under);
  } else {
    await requests.with(options, under);
  }
  return {};
}

async function lead(request: Request, signal: AbortSignal): Promise<Answer> {
  const finish = new AbortController();
  const either = AbortSignal.any([signal, finish.signal]);
  const { value = "", election = "" } = request;
  await client(request)
    .election(election, { value })
    .run({ signal: either }, async (term, stop) => {
      await run(request, { members: [term] }, stop);
      // It campaigns no further.
      finish.abort();
    });
  if (signal.aborted) {
    throw CANCELLED;
  }
  return {};
}

/** Body of `body` and `lead`. */
async function run(request: Request, running: Handle, stop: AbortSignal): Promise<void> {
  const h = request.as ?? "";
  const told = new Promise<void>((resolve, reject) => {
    running.done = (error) => (error ? reject(error) : resolve());
  });
  handles.set(h, running);
  const say = (what: string, more: Answer = {}) =>
    write({ ev: "body", h, what, boot_ns: boot(), ...more });
  say("started", { token: `${running.members[0]?.token}` });
  try {
    const stopped = new Promise<"stopped">((resolve) => {
      stop.addEventListener("abort", () => resolve("stopped"));
      if (stop.aborted) {
        resolve("stopped");
      }
    });
    if ((await Promise.race([told, stopped])) !== "stopped") {
      return;
    }
    say("cancelled");
    await sleep(request.cleanup_ms ?? 0);
    if (request.fail_with) {
      throw new BodyError(request.fail_with);
    }
    throw stop.reason;
  } finally {
    say("ended");
  }
}

async function observe(request: Request, signal: AbortSignal): Promise<void> {
  const o = request.as ?? "";
  try {
    const election = client(request).election(request.election ?? "");
    for await (const { leader, isAfterSkipped } of election.observe({ signal })) {
      const seen = leader && {
        value: Buffer.from(leader.value).toString("utf8"),
        ...(leader.token !== 0n && { token: `${leader.token}` }),
      };
      const boot_ns = boot();
      write({ ev: "leader", o, leader: seen ?? null, skipped: isAfterSkipped, boot_ns });
    }
  } catch (error) {
    if (!signal.aborted) {
      write({ ev: "observe_failed", o, err: describe(error) });
    }
  }
}

/** Reports the changes of a handle's state, once its reply is written. */
function watchStates(request: Request): void {
  const watched = handles.get(request.as ?? "");
  if ((request.op !== "acquire" && request.op !== "campaign") || !watched) {
    return;
  }
  let last: unknown = "held";
  const report = () => {
    const { state, ...rest } = stateNow(watched);
    if (state !== last && last !== "lost" && state !== "released") {
      write({ ...rest, ev: "state", h: request.as, state, boot_ns: boot() });
      last = state;
    }
  };
  // What changes at once is reported once.
  let isDue = false;
  const soon = () => {
    if (!isDue) {
      isDue = true;
      queueMicrotask(() => {
        isDue = false;
        report();
      });
    }
  };
  for (const member of watched.members) {
    void (async () => {
      let state = await member.changed("held");
      while (state !== "lost" && state !== "released") {
        soon();
        state = await member.changed(state);
      }
      soon();
    })();
  }
}

/** Asks the library's check. */
function stateNow({ members }: Handle): Answer {
  const boot_ns = boot();
  let state = "held";
  for (const member of members) {
    try {
      member.check();
    } catch (error) {
      if (error instanceof LockLostError) {
        return { state: "lost", reason: error.reason, name: error.lock, boot_ns };
      }
      if (error instanceof LockReleasedError) {
        state = "released";
      } else if (error instanceof LockSuspendedError && state === "held") {
        state = "suspended";
      }
    }
  }
  return { state, boot_ns };
}

/** Returns an error as the runner reads it. */
function describe(error: unknown): Answer {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof Fault) {
    return { kind: error.kind, message };
  }
  if (error === CANCELLED) {
    return { kind: "cancelled", message };
  }
  if (error instanceof LockLostError) {
    const body = error.cause instanceof BodyError ? { body: error.cause.message } : {};
    return { kind: "lost", reason: error.reason, name: error.lock, message, ...body };
  }
  if (error instanceof LockReleasedError) {
    return { kind: "lost", reason: "released", message };
  }
  if (error instanceof BodyError) {
    return { kind: "body", body: error.message, message };
  }
  if (error instanceof ClosedError) {
    return { kind: "closed", message };
  }
  const kind = kindOf(error);
  const failure =
    error instanceof Failure
      ? error
      : error instanceof AcquireError || error instanceof HoldError || error instanceof ConnectError
        ? error.failure
        : undefined;
  return {
    kind: kind === "timed_out" && error instanceof AcquireError ? "timeout" : kind,
    message,
    ...(failure?.reason && { reason: failure.reason }),
    ...(failure?.retryAfter && { retry_after_ms: Math.round(failure.retryAfter) }),
    ...(error instanceof AcquireError && error.limit !== undefined && { limit: error.limit }),
  };
}

function kindOf(error: unknown): string {
  if (error instanceof AcquireError || error instanceof HoldError || error instanceof Failure) {
    return error.kind;
  }
  if (error instanceof ConnectError) {
    return error.failure?.kind ?? "unavailable";
  }
  return "internal";
}

createInterface({ input: process.stdin })
  .on("line", (line) => begin(JSON.parse(line) as Request))
  .on("close", () => process.exit(0));
