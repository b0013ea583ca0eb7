/**
 * Calls of a program that passes anything at all, at random, beside one lock that must survive them. `HOSTILE_SEED` repeats a run, and
 * `HOSTILE_SECONDS` makes it longer.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { Actor, Client, connect, LeaseholdError } from "../src/index";
import { randomFrom } from "./rig";
import { Server } from "./server";

const SECONDS = Number(process.env["HOSTILE_SECONDS"] ?? 5);
const SEED = Number(process.env["HOSTILE_SEED"] ?? 1);
/** Calls side by side. */
const FLOWS = 8;
/** Time after which a call hangs: longer than the rest of what an abandoned call may hold. */
const HANGS = 60_000;
/** TTL of the lock that is kept: a busy machine may stop this process or the coordinator for many seconds, again and again. */
const TTL = 300_000;
const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
const HUGE = "x".repeat(5 << 20);

type Any = ReturnType<typeof JSON.parse>;

class Hostile {
  readonly #random: (below: number) => number;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  one(...of: Any[]): Any {
    return of[this.#random(of.length)];
  }

  /** Returns anything at all. */
  any(): Any {
    return this.one(
      () => this.one(undefined, null, true, false, {}, [], [null], Symbol("s"), () => "f"),
      () =>
        this.one(0, -0, -1, 1, 1.5, 64, Number.NaN, Number.POSITIVE_INFINITY, -1e9, 2 ** 32, 1e300),
      () => this.one(0n, 1n, -1n, 2n ** 63n, 2n ** 64n),
      () =>
        this.one(
          "",
          "a",
          "\0",
          "a\u0085",
          "\ud800",
          "\udc00x",
          "10s",
          "x".repeat(513),
          "é".repeat(300),
        ),
      () =>
        this.one(HUGE, Buffer.alloc(5 << 20), new Uint8Array(16), Buffer.alloc(4097), new Date()),
      () =>
        this.one(Object.create(null), new Map(), new Actor(), AbortSignal.abort(), new Error("e")),
    )();
  }

  /** Returns something good, or anything at all. */
  or(...good: Any[]): Any {
    return this.#random(3) > 0 ? this.one(...good) : this.any();
  }

  name(): string {
    return this.or("a", "b", "c", "d/é");
  }

  options(good: Record<string, () => unknown>): Any {
    if (this.#random(8) === 0) {
      return this.any();
    }
    const options: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(good)) {
      if (this.#random(4) === 0) {
        options[key] = this.#random(2) === 0 ? value() : this.any();
      }
    }
    return options;
  }

  acquireOptions(): Any {
    const options = this.options({
      wait: () => this.one(0, 10, 100),
      value: () => this.one("v", new Uint8Array(3)),
      lockDelay: () => this.one(0, 10),
      maxHold: () => 60_000,
      actor: () => new Actor(),
      reentrant: () => this.one(true, false),
      shared: () => this.one(true, false),
      permits: () => this.one(1, 2),
      atLeast: () => 1,
      limitRevision: () => 1,
    });
    if (typeof options === "object" && options !== null && Object.isExtensible(options)) {
      options.signal ??= AbortSignal.timeout(this.one(1, 20, 50));
    }
    return options;
  }

  sessionOptions(): Any {
    return this.options({
      clientName: () => "c",
      ttl: () => 5000,
      grace: () => 1000,
      metadata: () => ({ k: "v" }),
      connectTimeout: () => 1000,
      backoff: () => ({ least: 10, most: 100 }),
      logger: () => QUIET,
      propagate: () => (carrier: Any) => {
        carrier.traceparent = this.any();
      },
      tls: () => ({}),
      token: () => "t",
      tokenFile: () => undefined,
      allowPlaintextToken: () => true,
    });
  }

  only(): Any {
    return this.or({ token: this.any() }, { waiterNumber: this.any() }, { token: 1n });
  }

  /** Makes one call, and gives back what it brings. */
  async call(client: Client, url: string): Promise<void> {
    const signal = () => ({ signal: this.or(AbortSignal.timeout(50)) });
    const admin = client.admin as Any;
    const used = async (hold: Any) => {
      try {
        await this.one(
          () => hold?.setValue(this.or("v")),
          () => hold?.keep(this.or(1)),
          () => hold?.downgrade(),
          () => hold?.proclaim?.(this.any()),
          () => hold?.check(),
          () => hold?.release(),
        )();
      } catch (error) {
        // Not every hold can do all of this.
        assert(error instanceof LeaseholdError || error instanceof TypeError, inspect(error));
      } finally {
        await hold?.[Symbol.asyncDispose]();
      }
    };
    const requests: (() => Any)[] = [
      () => client.lock(this.name(), this.acquireOptions()),
      () =>
        client.locks(
          this.or(
            ["a", "b"],
            [this.name(), { name: this.name(), shared: this.any() }],
            Array(1001).fill("a"),
          ),
          this.acquireOptions(),
        ),
      () => client.semaphore(this.name(), this.or(1, 2), this.acquireOptions()),
    ];
    const detached = () => {
      const request = client.detachedLock(
        this.name(),
        this.options({
          ttl: () => 5000,
          wait: () => 10,
          value: () => "v",
          clientName: () => "c",
          shared: () => true,
          permits: () => ({ permits: 1, limit: 2 }),
        }),
      );
      return this.one(request, request.withKey(this.or("0123456789abcdef")));
    };
    await this.one(
      async () => used(await this.one(...requests)().acquire(this.acquireOptions())),
      async () => used(await this.one(...requests)().tryAcquire(this.acquireOptions())),
      () =>
        this.one(...requests)().with(
          this.acquireOptions(),
          this.or(() => 1),
        ),
      async () =>
        used(await client.election(this.name(), this.acquireOptions()).campaign(signal())),
      () =>
        client.election(this.name()).run(
          this.or({ signal: AbortSignal.timeout(50) }),
          this.or(() => 1),
        ),
      () => client.election(this.name()).leader(signal()),
      async () => {
        for await (const _ of client.election(this.name()).observe(signal())) {
          break;
        }
      },
      async () => {
        const lock = await detached().acquire(signal());
        await lock.renew({ ttl: this.or(2000) }).catch((error: unknown) => {
          assert(error instanceof LeaseholdError, inspect(error));
        });
        await lock.release();
      },
      async () => (await detached().tryAcquire(signal()))?.release(),
      () => {
        const lock = client.attachDetachedLock(
          this.name(),
          this.or(7n),
          this.or(new Uint8Array(16)),
          { ttl: this.or(1000) },
        );
        return this.one(
          () => lock.renew(),
          () => lock.release(),
        )();
      },
      () => admin.getLock(this.name(), signal()),
      () => admin.forceRelease(this.name(), this.only(), signal()),
      () =>
        admin.requestRelease(
          this.name(),
          this.options({ token: () => 1n, reason: () => "r", within: () => 1000 }) ?? {},
        ),
      () => admin.checkToken(this.name(), this.or(7n), signal()),
      () => admin.endSession(this.or("s"), signal()),
      async () => {
        for await (const _ of admin.listLocks(this.or("", "a"), signal())) {
          break;
        }
      },
      async () => {
        for await (const _ of admin.watch(this.or("", "a"), signal())) {
          break;
        }
      },
      async () => {
        const session = await client.newSession(this.sessionOptions());
        await session.close();
        await this.one(
          () => session.close(),
          () => session.lock("a").acquire(),
        )();
      },
      async () => {
        const endpoints = this.or(url, [url], "", [], [null], "ftp://x", "http://");
        const other = new Client(
          typeof endpoints === "string" && endpoints.length === 1 ? url : endpoints,
          this.sessionOptions(),
        );
        await other.close();
        await this.one(
          () => other.close(),
          () => other.lock("a").acquire(),
          () => other.admin.status(),
          () => other.detachedLock("a").acquire(),
        )();
      },
    )();
  }
}

/** Waits for a call. Returns the error that is none of this library's, or of a signal that was given. */
async function outcome(call: Promise<void>): Promise<unknown> {
  const end = new AbortController();
  const hangs = sleep(HANGS, "it hangs", { signal: end.signal });
  hangs.catch(() => undefined);
  try {
    return await Promise.race([call, hangs]);
  } catch (error) {
    const isOurs = error instanceof LeaseholdError || error instanceof DOMException;
    return isOurs ? undefined : error;
  } finally {
    end.abort();
  }
}

test(`hostile calls cost only themselves, seed ${SEED}`, {
  timeout: (SECONDS + 120) * 1000,
}, async () => {
  await using server = await Server.start();
  const log: string[] = [];
  const note = (line: string) => log.push(`${Math.round(performance.now())} ms: ${line}`);
  await using client = await connect(server.url, {
    ttl: TTL,
    connectTimeout: 60_000,
    logger: { ...QUIET, info: note, warn: note },
  });
  const kept = await client.lock("kept").acquire();
  const hostile = new Hostile(SEED);
  let calls = 0;
  const end = performance.now() + SECONDS * 1000;
  const flow = async () => {
    for (; performance.now() < end; calls++) {
      const fault = await outcome(hostile.call(client, server.url));
      assert.equal(fault, undefined, `call ${calls}: ${inspect(fault)}`);
      assert(kept.isHeld, `${kept.error}: ${inspect(log.slice(-30))}`);
    }
  };
  await Promise.all(Array.from({ length: FLOWS }, flow));
  assert(calls > 20, `only ${calls} calls`);
  assert.equal((await client.admin.getLock("kept")).holders[0]?.token, kept.token);
  assert.equal(await kept.release(), true);
  await using looks = await connect(server.url, { logger: QUIET });
  await client.close();
  // Sessions that were closed at the end may be listed for a moment.
  for (let sessions = 2; sessions > 1; await sleep(5)) {
    sessions = 0;
    for await (const _ of looks.admin.listSessions()) {
      sessions++;
    }
  }
});
