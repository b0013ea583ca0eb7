/** Closes: nobody else gets a lock while work still runs under it, unless that takes longer than the bound. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AcquireError,
  type Client,
  type ClientOptions,
  ClosedError,
  connect,
  type Hold,
  LockLostError,
} from "../src/index";
import { verrouStore } from "../src/verrou";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };

/** Resolves when the signal is aborted. */
async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) {
    await once(signal, "abort");
  }
}

/** Returns a promise, and what resolves it. */
function beginning(): { promise: Promise<void>; begun: () => void } {
  let begun = () => {};
  const promise = new Promise<void>((resolve) => {
    begun = resolve;
  });
  return { promise, begun };
}

/** Times that each way of working is closed in the middle of it, and gets a SIGTERM. */
const ROUNDS = Number(process.env["CLOSING_ROUNDS"] ?? 100);

type Work = (signal: AbortSignal) => Promise<void>;

async function byVerrou(client: Client, ttl: number | null, work: Work): Promise<void> {
  const { LockFactory } = await import("@verrou/core");
  const store = verrouStore(client, { prefix: "" });
  const lock = new LockFactory(store, { retry: { delay: 5 } }).createLock("rolled", ttl);
  await lock.run(() => work(client.closing));
}

/** What has work under the lock "rolled", and ends with it. */
const WAYS: Record<string, (client: Client, work: Work) => Promise<unknown>> = {
  with: (client, work) => client.lock("rolled").with((_lock, signal) => work(signal)),
  "with several": (client, work) => {
    return client.locks(["rolled", "rolled/too"]).with((_locks, signal) => work(signal));
  },
  "run of an election": (client, work) => {
    const { signal } = new AbortController();
    const run = client.election("rolled").run({ signal }, (_term, stop) => work(stop));
    return assert.rejects(run, isClosed);
  },
  "run of verrou": (client, work) => byVerrou(client, null, work),
  "run of verrou with a TTL": (client, work) => byVerrou(client, 30_000, work),
};

function isClosed(error: unknown): boolean {
  return error instanceof AcquireError && error.kind === "closed";
}

/** Process that works under one lock, and closes its client at each SIGTERM; after so many of them it ends. */
async function worker(url: string, way: string, rounds: number): Promise<void> {
  const say = (what: string) => process.stdout.write(`${what} ${process.hrtime.bigint()}\n`);
  for (let round = 0; round < rounds; round++) {
    const client = await connect(url, { logger: QUIET });
    const closed = once(process, "SIGTERM").then(() => client.close());
    await WAYS[way]?.(client, async (signal) => {
      say("begin");
      await aborted(signal);
      await sleep(5);
      say("end");
    });
    await closed;
  }
}

if (process.argv[2] === "worker") {
  const [, , , url = "", way = "", rounds] = process.argv;
  void worker(url, way, Number(rounds));
} else {
  tests();
}

function tests(): void {
  let server: Server;
  let rival: Client;
  before(async () => {
    server = await Server.start();
    rival = await connect(server.url, { logger: QUIET });
  });
  after(async () => {
    await rival.close();
    await server.stop();
  });

  let names = 0;
  const fresh = () => `closing/${++names}`;
  const open = (options: ClientOptions = {}) => connect(server.url, { logger: QUIET, ...options });
  /** Waits until somebody waits for the lock. */
  const queued = async () => {
    while ((await rival.admin.getLock("rolled")).waiterCount === 0n) {
      await sleep(1);
    }
  };

  for (const [way, run] of Object.entries(WAYS)) {
    test(`a close in the middle of ${way} never lets two work at once`, async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const client = await open({ closeTimeout: 600_000 });
        let isInside = false;
        const { promise, begun } = beginning();
        const work = run(client, async (signal) => {
          isInside = true;
          begun();
          await aborted(signal);
          assert(signal.reason instanceof ClosedError);
          await sleep(2);
          isInside = false;
        });
        await promise;
        const next = rival.lock("rolled").with(() => assert(!isInside));
        await queued();
        await client.close();
        assert(!isInside);
        await Promise.all([work, next]);
      }
    });

    test(`a SIGTERM in the middle of ${way} never lets two work at once`, () => terminate(way));
  }

  const terminate = async (way: string) => {
    const args = [__filename, "worker", server.url, way, `${ROUNDS}`];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const ended = once(child, "exit");
    const spans: { by: string; from: bigint; to: bigint }[] = [];
    let waits: Promise<void> | undefined;
    let from = 0n;
    for await (const line of createInterface({ input: child.stdout })) {
      const [what, at = "0"] = line.split(" ");
      if (what === "begin") {
        from = BigInt(at);
        const before = waits;
        waits = rival.lock("rolled").with(async () => {
          const began = process.hrtime.bigint();
          await sleep(1);
          spans.push({ by: "rival", from: began, to: process.hrtime.bigint() });
        });
        await before;
        await queued();
        child.kill("SIGTERM");
      } else {
        spans.push({ by: "worker", from, to: BigInt(at) });
      }
    }
    await waits;
    assert.deepEqual(await ended, [0, null]);
    assert.equal(spans.length, 2 * ROUNDS);
    spans.sort((one, other) => Number(one.from - other.from));
    for (const [index, { from }] of spans.entries()) {
      const former = spans[index - 1];
      assert(!former || former.to <= from, `two at once in span ${index}`);
    }
  };

  test("a close tells work to stop, and waits for it", async () => {
    const name = fresh();
    const client = await open({ ttl: 1000, closeTimeout: 600_000 });
    let waits: Promise<Hold> | undefined;
    let next: Promise<Hold> | undefined;
    let hasEnded = false;
    const plain = await client.lock(`${name}/plain`).acquire();
    const work = client.lock(name).with(async (lock, signal) => {
      waits = rival.lock(name).acquire();
      next = client.lock(`${name}/plain`).acquire();
      next.catch(() => undefined);
      const closed = client.close();
      const again = client.close();
      await assert.rejects(client.lock("other").acquire(), isClosed);
      // It does not wait for the work that calls it.
      await Promise.all([closed, again]);
      assert(signal.aborted && lock.error instanceof LockLostError);
    });
    await assert.rejects(work, LockLostError);
    await (await waits)?.release();
    assert(next && plain.error);
    await assert.rejects(next, isClosed);

    const second = await open({ ttl: 2500 });
    let rivals: Promise<Hold> | undefined;
    const { promise, begun } = beginning();
    const working = second.lock(name).with(async (lock, signal) => {
      begun();
      rivals = rival.lock(name).acquire();
      await aborted(signal);
      assert(signal.reason instanceof ClosedError);
      // Longer than the TTL: it is renewed meanwhile.
      await sleep(3000);
      lock.check();
      hasEnded = true;
      return "done";
    });
    const held = await second.lock("elsewhere").acquire();
    await promise;
    const queued = second.lock("elsewhere").acquire();
    const [closing, twice] = [second.close(), second.close()];
    await assert.rejects(queued, isClosed);
    await assert.rejects(second.lock("other").acquire(), isClosed);
    await assert.rejects(second.detachedLock("other").acquire(), isClosed);
    held.check();
    assert.equal(await working, "done");
    await Promise.all([closing, twice]);
    assert(hasEnded && held.error instanceof LockLostError);
    assert.equal(held.error.reason, "session_closed");
    await (await rivals)?.release();
  });

  test("work that only says that it was stopped rejects as closed", async () => {
    const client = await open();
    const began = [beginning(), beginning()];
    const work = client.lock(fresh()).with(async (_lock, signal) => {
      began[0]?.begun();
      await sleep(60_000, undefined, { signal });
    });
    const failing = client.lock(fresh()).with(async (_lock, signal) => {
      began[1]?.begun();
      await aborted(signal);
      throw new RangeError("of the work");
    });
    const rejected = Promise.all([
      assert.rejects(work, ClosedError),
      assert.rejects(failing, RangeError),
    ]);
    await Promise.all(began.map(({ promise }) => promise));
    await client.close();
    await rejected;
  });

  test("a close gives work up after its bound, and names the locks", async () => {
    const warned: string[] = [];
    const logger = { ...QUIET, warn: (line: string) => warned.push(line) };
    const client = await open({ logger, closeTimeout: 60_000 });
    const [name, stop] = [fresh(), new AbortController()];
    const { promise, begun } = beginning();
    const work = client.lock(name).with(() => {
      begun();
      return aborted(stop.signal);
    });
    await promise;
    await client.close({ timeout: 20 });
    assert.match(warned.join("\n"), new RegExp(`still ran .*"${name}"`));
    await rival.lock(name).with(() => undefined);
    stop.abort();
    await assert.rejects(work, (error) => {
      return error instanceof LockLostError && error.reason === "session_closed";
    });
    assert.throws(() => client.session, ClosedError);
    await assert.rejects(client.close({ timeout: -1 }), /timeout/);
  });

  test("a close ends a leadership after its work", async () => {
    const client = await open();
    const name = fresh();
    const { promise, begun } = beginning();
    let hasEnded = false;
    const leads = client
      .election(name)
      .run({ signal: new AbortController().signal }, async (term, signal) => {
        begun();
        await aborted(signal);
        assert(signal.reason instanceof ClosedError);
        term.check();
        hasEnded = true;
      });
    await promise;
    const next = rival
      .election(name)
      .campaign()
      .then(async (term) => {
        assert(hasEnded);
        await term.resign();
      });
    await Promise.all([client.close(), assert.rejects(leads, isClosed)]);
    await next;
  });
}
