/**
 * Client of the torture run: takes locks in several tasks, writes to their registers, and records what it believes. It takes the arguments
 * of the Rust client torture-client and draws cycles of the same kinds; `tests/checker/HISTORY.md` describes what it writes:
 *
 *     torture.js NAME ENDPOINTS REGISTERS HISTORY SEED TTL_MS GRACE_MS TASKS STORE [CREDENTIALS]
 *
 * A task writes to the register of a lock without a look at its hold: fencing has to stop what comes late.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { existsSync, openSync, writeSync } from "node:fs";
import { connect as dial, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { AcquireError, Client, type ClientOptions, type Hold, HoldError } from "../src/index";

/** Permits of each semaphore. */
const LIMIT = 4;
/** Longest time between two looks at a hold, in milliseconds, as are the next three. */
const LOOK = 40;
/** Pause after an error. */
const PAUSE = 200;
/** Time between two looks for stalls. */
const NAP = 20;
/** Longest time for closing at the end. What the client still has then, it loses with the process. */
const ENDING = 10_000;
/** A deadline that moved by less is not recorded, in microseconds. */
const MOVED = 10_000;
/** A look for stalls that comes later by this much is recorded, in microseconds. */
const LATE = 100_000;

type Fields = Record<string, unknown>;

/** Returns the time in microseconds on the clock that all processes of the machine share. */
function now(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** A file. Each line is written with one system call before the caller goes on. */
class History {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, "ax");
  }

  line(kind: string, fields: Fields, at = now()): void {
    writeSync(this.#file, `${JSON.stringify({ ...fields, at, kind })}\n`);
  }
}

/**
 * Records the times in which the event loop got no processor, so that a busy machine is not mistaken for a broken promise, in a file beside
 * the history.
 */
function watchStalls(name: string, path: string): void {
  const history = new History(path.replace(/\.jsonl$/, ".stalls.jsonl"));
  let since = now();
  setInterval(() => {
    const at = now();
    if (at - since > LATE) {
      history.line("stalled", { process: name, since }, at);
    }
    since = at;
  }, NAP).unref();
}

/** Returns a source of random numbers from 0 to 1 that are the same in each run with this seed. */
function seeded(seed: string): () => number {
  let drawn = 0;
  return () => {
    drawn++;
    return createHash("sha256").update(`${seed} ${drawn}`).digest().readUInt32LE() / 2 ** 32;
  };
}

/** One cycle of a task, with the locks, times and frequencies of the Rust client's (`tests/torture/src/locks.rs`). */
interface Cycle {
  lock: string;
  mode: "exclusive" | "shared" | "permits";
  permits: number;
  /** Longest wait in milliseconds, as are the times below. */
  wait: number | undefined;
  /** Time after which the client gives up by itself. */
  giveUp: number | undefined;
  lockDelay: number;
  hold: number;
  pause: number;
}

/**
 * Returns the first cycle of a client, for a lock of its own: the time that loading and connecting take is no time in a queue.
 */
function firstCycle(client: string): Cycle {
  return {
    lock: `torture/first/${client}`,
    mode: "exclusive",
    permits: 0,
    wait: undefined,
    giveUp: undefined,
    lockDelay: 0,
    hold: 0,
    pause: 0,
  };
}

/** Draws a cycle. A quorum has exclusive locks alone. */
function drawCycle(random: () => number, isQuorum: boolean): Cycle {
  const from = (least: number, most: number) => least + Math.floor(random() * (most - least));
  let mode: Cycle["mode"] = "exclusive";
  let permits = 0;
  let lock: string;
  const kind = from(0, isQuorum ? 5 : 11);
  if (kind < 5) {
    lock = `torture/exclusive/${from(0, 4)}`;
  } else if (kind < 8) {
    lock = `torture/mixed/${from(0, 2)}`;
    mode = random() < 0.7 ? "shared" : mode;
  } else if (kind === 10) {
    lock = `torture/beside/${from(0, 2)}`;
  } else {
    lock = `torture/permits/${from(0, 2)}`;
    mode = "permits";
    permits = from(1, LIMIT);
  }
  const waits = from(0, 10);
  return {
    lock,
    mode,
    permits,
    wait: waits === 0 ? 0 : waits < 4 ? from(50, 20_000) : undefined,
    giveUp: random() < 0.05 ? from(1, 3000) : undefined,
    lockDelay: random() < 0.1 ? from(100, 500) : 0,
    hold: random() < 0.05 ? from(1000, 6000) : from(1, 300),
    pause: from(0, 200),
  };
}

/** Connection of a task to the harness's registers. */
class Registers {
  readonly #address: string;
  readonly #name: string;
  #open: { socket: Socket; answers: AsyncIterator<string> } | undefined;

  constructor(address: string, name: string) {
    this.#address = address;
    this.#name = name;
  }

  /** Writes to the register of a lock, if it has one, and waits for the answer, which only the register records. */
  async write({ lock }: Cycle, token: bigint): Promise<void> {
    // Those that are only ever held exclusively have one.
    if (!lock.startsWith("torture/exclusive/")) {
      return;
    }
    this.#open ??= this.#connect();
    const { socket, answers } = this.#open;
    socket.write(`${this.#name} ${lock} ${token}\n`);
    const isOver = await answers.next().then(
      ({ done }) => done,
      () => true,
    );
    if (isOver) {
      this.close();
    }
  }

  #connect(): { socket: Socket; answers: AsyncIterator<string> } {
    const [host = "", port] = this.#address.split(":");
    const socket = dial(Number(port), host);
    return { socket, answers: createInterface({ input: socket })[Symbol.asyncIterator]() };
  }

  close(): void {
    this.#open?.socket.destroy();
    this.#open = undefined;
  }
}

/** Returns the time until which a hold may be relied on. The clock is read first, so that it is never too late. */
function deadline(hold: Hold): number {
  const at = now();
  return at + Math.floor(hold.validFor * 1000);
}

/** What all tasks share. */
class World {
  #asks = 0;

  constructor(
    readonly client: Client,
    readonly name: string,
    readonly history: History,
    readonly registers: string,
    /** Whether each coordinator has a queue of its own. */
    readonly isQuorum: boolean,
    /** Whether sessions move to other coordinators at any time, to show newer credentials. */
    readonly moves: boolean,
    readonly stop: AbortSignal,
  ) {}

  /** Waits, or until the client is asked to end. */
  async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.stop }).catch(() => undefined);
  }

  /** Runs cycles until the client is asked to end. */
  async live(random: () => number): Promise<void> {
    const registers = new Registers(this.registers, this.name);
    let cycle = firstCycle(this.name);
    while (!this.stop.aborted) {
      await this.#run(cycle, registers);
      await this.pause(cycle.pause);
      cycle = drawCycle(random, this.isQuorum);
    }
    registers.close();
  }

  #queue(): string {
    if (!this.isQuorum) {
      return "";
    }
    const coordinator = this.client.session.info?.coordinator;
    // Where it may join another queue meanwhile, it is in line with nobody.
    return coordinator && !this.moves ? coordinator : `${coordinator} ${now()}`;
  }

  #acquire({ lock, mode, permits, wait, giveUp, lockDelay }: Cycle): Promise<Hold> {
    const signal = giveUp === undefined ? undefined : AbortSignal.timeout(giveUp);
    const options = { wait, signal, lockDelay };
    return mode === "permits"
      ? this.client.semaphore(lock, LIMIT, { permits }).acquire(options)
      : this.client.lock(lock, { shared: mode === "shared" }).acquire(options);
  }

  async #run(cycle: Cycle, registers: Registers): Promise<void> {
    this.#asks++;
    const ask: Fields = { client: this.name, ask: this.#asks };
    const { lock, mode, permits, wait } = cycle;
    this.history.line("asked", {
      ...ask,
      lock,
      mode,
      queue: this.#queue(),
      ...(mode === "permits" && { permits, limit: LIMIT }),
      ...(wait !== undefined && { wait: wait * 1000 }),
    });
    let hold: Hold;
    try {
      hold = await this.#acquire(cycle);
    } catch (error) {
      const { outcome, why = "" } = describe(error);
      this.history.line("ended", { ...ask, outcome, why });
      if (why) {
        await this.pause(PAUSE);
      }
      return;
    }
    await this.#hold(ask, cycle, hold, registers);
  }

  /** Holds a lock for the cycle's time or until it is lost, writes to its register, and records all that the hold says. */
  async #hold(ask: Fields, cycle: Cycle, hold: Hold, registers: Registers): Promise<void> {
    let until = deadline(hold);
    this.history.line("granted", { ...ask, token: Number(hold.token), until });
    const end = now() + cycle.hold * 1000;
    let last = "held";
    for (;;) {
      const { state } = hold;
      if (state === "lost") {
        this.history.line("lost", { ...ask, why: hold.error?.message ?? "" });
        // The late write of a client that does not know better.
        await registers.write(cycle, hold.token);
        return;
      }
      if (state === "suspended") {
        if (last !== state) {
          this.history.line("suspended", ask);
        }
      } else if (last === "suspended") {
        until = deadline(hold);
        this.history.line("resumed", { ...ask, until });
      } else {
        const later = deadline(hold);
        // It may have been lost since.
        if (hold.isHeld && later > until + MOVED) {
          until = later;
          this.history.line("extended", { ...ask, until });
        }
      }
      last = state;
      const left = (end - now()) / 1000;
      if (left <= 0) {
        break;
      }
      await registers.write(cycle, hold.token);
      const signal = AbortSignal.timeout(Math.ceil(Math.min(left, LOOK)));
      await hold.changed(state, { signal }).catch(() => undefined);
    }
    this.history.line("releasing", ask);
    const held = await hold.release().catch((error: unknown) => {
      if (error instanceof HoldError) {
        return false;
      }
      throw error;
    });
    this.history.line("released", { ...ask, held });
  }
}

/** Returns the end of an acquire as the checker reads it. */
function describe(error: unknown): { outcome: string; why?: string } {
  if (!(error instanceof AcquireError)) {
    if (error instanceof DOMException && error.name === "TimeoutError") {
      return { outcome: "cancelled" };
    }
    throw error;
  }
  switch (error.kind) {
    case "timed_out":
    case "busy":
      return { outcome: error.kind };
    case "unauthenticated":
    case "permission_denied":
      return { outcome: "refused", why: error.message };
    default:
      return { outcome: "failed", why: error.message };
  }
}

/** Returns the options of a client that shows the credentials of a folder, whose files the harness replaces. */
function shown(folder: string): ClientOptions {
  const [ca, cert, key] = ["ca.pem", "client.pem", "client.key"].map((file) => join(folder, file));
  const tokenFile = join(folder, "token");
  return {
    tls: { ca, cert, key, serverName: "localhost" },
    ...(existsSync(tokenFile) && { tokenFile }),
  };
}

async function main(): Promise<void> {
  const [name = "", endpoints = "", registers = "", path = "", seed, ttl, grace, tasks, store] =
    process.argv.slice(2);
  const credentials = process.argv[11];
  const history = new History(path);
  watchStalls(name, path);
  const stop = new AbortController();
  process.stdin.resume().on("end", () => stop.abort());
  // Losses are what the run is about: the history has them.
  const quiet = () => undefined;
  const client = new Client(endpoints, {
    clientName: name,
    ttl: Number(ttl),
    grace: Number(grace),
    logger: { debug: quiet, info: quiet, warn: quiet },
    ...(credentials && shown(credentials)),
  });
  const isQuorum = store === "quorum";
  const moves = credentials !== undefined;
  const world = new World(client, name, history, registers, isQuorum, moves, stop.signal);
  const all = Array.from({ length: Number(tasks) }, (_, task) =>
    world.live(seeded(`${seed} ${task}`)),
  );
  await Promise.all(all);
  await Promise.race([client.close(), sleep(ENDING)]);
  history.line("finished", { client: name });
  process.exit();
}

void main();
