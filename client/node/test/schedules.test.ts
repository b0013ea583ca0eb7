/**
 * Two replicas of a program with jobs, under each adapter, over two coordinators of one store, which are restarted one after the other, and
 * then are both away.
 */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { HAS_REDIS, Redis } from "./redis";
import { Server } from "./server";

const NEEDS_REDIS = { skip: !HAS_REDIS && "redis-server is not installed", timeout: 300_000 };
const AWAY = 5000;
/** Runs of each job that are waited for, each time. */
const RUNS = 3;

/** What the replicas have said. */
class Said {
  readonly #replicas: ChildProcess[] = [];
  /** How often each slot was won, of those that were asked for. */
  readonly slots = new Map<string, number>();
  readonly skipped = new Set<string>();
  readonly late = new Set<string>();
  readonly runs = { verrou: [] as Span[], nest: [] as Span[] };
  readonly faults: string[] = [];
  slotRuns = 0;

  start(...endpoints: string[]): void {
    const program = join(__dirname, "schedules-replica.js");
    const stdio = ["ignore", "pipe", "ignore"] as const;
    const replica = spawn(process.execPath, [program, ...endpoints], { stdio: [...stdio] });
    this.#replicas.push(replica);
    createInterface({ input: replica.stdout as NodeJS.ReadableStream }).on("line", (line) => {
      this.#note(line);
    });
  }

  #note(line: string): void {
    const [what, which = "", from, to] = line.split(" ");
    switch (what) {
      case "asked":
        this.slots.set(which, this.slots.get(which) ?? 0);
        break;
      case "won":
        this.slots.set(which, (this.slots.get(which) ?? 0) + 1);
        break;
      case "skipped":
        this.skipped.add(which);
        break;
      case "late":
        this.late.add(which);
        break;
      case "slot":
        this.slotRuns++;
        break;
      case "ran":
        this.runs[which as "verrou" | "nest"].push({ from: Number(from), to: Number(to) });
        break;
      default:
        this.faults.push(line);
    }
  }

  get #counts(): number[] {
    return [this.slotRuns, this.runs.verrou.length, this.runs.nest.length];
  }

  /** Waits until each job has run several times more. */
  async more(): Promise<void> {
    const before = this.#counts;
    while (this.#counts.some((count, index) => count < (before[index] ?? 0) + RUNS)) {
      const hasEnded = this.#replicas.some(({ exitCode }) => exitCode !== null);
      assert(!hasEnded, "a replica has ended");
      await sleep(10);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const replica of this.#replicas) {
      if (replica.kill("SIGKILL")) {
        await once(replica, "exit");
      }
    }
  }
}

interface Span {
  from: number;
  to: number;
}

/** Checks that each began only when the one before had ended. */
function assertApart(job: string, spans: readonly Span[]): void {
  const sorted = [...spans].sort((one, other) => one.from - other.from);
  for (const [index, { from }] of sorted.entries()) {
    const before = sorted[index - 1];
    assert(!before || from >= before.to, `${job} ran twice at once: ${JSON.stringify(sorted)}`);
  }
}

test("jobs run once while coordinators are restarted or away", NEEDS_REDIS, async () => {
  await using redis = await Redis.start();
  const store = ["--store", redis.url];
  const servers = [await Server.start(...store), await Server.start(...store)];
  const again = async (index: number) => {
    const listen = ["--listen", new URL(servers[index]?.url ?? "").host];
    servers[index] = await Server.start(...store, ...listen);
  };
  try {
    await using said = new Said();
    for (const _ of ["one", "two"]) {
      said.start(...servers.map(({ url }) => url));
    }
    await said.more();
    for (const index of servers.keys()) {
      await servers[index]?.stop("SIGTERM");
      await said.more();
      await again(index);
      await said.more();
    }
    assert.deepEqual(said.faults, []);
    assert.deepEqual([...said.skipped], []);
    for (const server of servers) {
      await server.stop();
    }
    await sleep(AWAY);
    for (const index of servers.keys()) {
      await again(index);
    }
    await said.more();
    await said.more();
    // One slot of each replica may be on its way.
    const open = [...said.slots.keys()].slice(-2);
    for (const [slot, wins] of said.slots) {
      const isOpen = open.includes(slot) || said.skipped.has(slot) || said.late.has(slot);
      assert(wins === 1 || (wins === 0 && isOpen), `slot ${slot} was won ${wins} times`);
    }
    for (const [job, spans] of Object.entries(said.runs)) {
      assertApart(job, spans);
    }
    console.error(
      said.slots.size,
      "slots",
      said.slotRuns,
      "ran",
      said.skipped.size,
      "skipped",
      said.runs.verrou.length,
      said.runs.nest.length,
      said.faults,
    );
  } finally {
    for (const server of servers) {
      await server.stop();
    }
  }
});
