import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AcquireError,
  type Client,
  connect,
  LockLostError,
  LockSuspendedError,
} from "../src/index";
import { freePort, HAS_REDIS, Redis } from "./redis";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
const NEEDS_REDIS = { skip: !HAS_REDIS && "redis-server is not installed" };

/** Waits until there are so many waiters. */
async function waiters(client: Client, name: string, count: bigint): Promise<void> {
  while ((await client.admin.getLock(name)).waiterCount !== count) {
    await sleep(10);
  }
}

/** Returns the coordinator that has the client's session, and the other one. */
async function serving(client: Client, servers: readonly [Server, Server]) {
  for (const [index, server] of servers.entries()) {
    await using looks = await connect(server.url, { logger: QUIET });
    for await (const { sessionId } of looks.admin.listSessions()) {
      if (sessionId === client.session.info?.sessionId) {
        return { has: server, other: servers[1 - index] as Server };
      }
    }
  }
  throw new Error("no coordinator has the session");
}

test("a kill without a grace loses the lock, and waiters wait on", async () => {
  const listen = ["--listen", `127.0.0.1:${await freePort()}`];
  const server = await Server.start(...listen);
  await using client = await connect(server.url, { logger: QUIET });
  const lock = await client.lock("a").acquire();
  const { signal } = lock;
  const waits = client.lock("a").acquire();
  await waiters(client, "a", 1n);
  await server.stop();
  assert.equal(await lock.changed("held"), "lost");
  assert(signal.reason instanceof LockLostError && signal.reason.reason === "session_ended");
  assert.equal(await lock.release(), false);
  await assert.rejects(client.lock("b").tryAcquire(), (error) => {
    return error instanceof AcquireError && error.kind === "unavailable";
  });
  await using _ = await Server.start(...listen);
  assert.equal(await (await waits).release(), true);
});

test("a kill with a grace suspends the lock until it is resumed", NEEDS_REDIS, async () => {
  await using redis = await Redis.start();
  await using one = await Server.start("--store", redis.url);
  await using two = await Server.start("--store", redis.url);
  await using client = await connect([one.url, two.url], { grace: 10_000, logger: QUIET });
  const { has, other } = await serving(client, [one, two]);
  const lock = await client.lock("a").acquire();
  // It takes up the session only when the suspension has been seen.
  other.process.kill("SIGSTOP");
  await has.stop();
  assert.equal(await lock.changed("held"), "suspended");
  assert.throws(() => lock.check(), LockSuspendedError);
  assert(lock.validFor === 0 && lock.lostIn > 0 && lock.error === undefined);
  other.process.kill("SIGCONT");
  assert.equal(await lock.changed("suspended"), "held");
  assert(!lock.signal.aborted);
  assert.equal((await client.admin.getLock("a")).holders[0]?.token, lock.token);
  assert.equal(await lock.release(), true);
});

test("a coordinator that stops answering loses the lock at its deadline", async () => {
  await using server = await Server.start();
  await using client = await connect(server.url, { ttl: 1000, logger: QUIET });
  const lock = await client.lock("a").acquire();
  server.process.kill("SIGSTOP");
  const begun = performance.now();
  const work = new Promise((resolve) => lock.signal.addEventListener("abort", resolve));
  await work;
  // Answers that were under way may have moved the deadline.
  assert(performance.now() - begun < 1500);
  assert(lock.error instanceof LockLostError && lock.error.reason === "expired");
  server.process.kill("SIGCONT");
});

test("a drain moves the session, and its lock is held throughout", NEEDS_REDIS, async () => {
  await using redis = await Redis.start();
  await using one = await Server.start("--store", redis.url);
  await using two = await Server.start("--store", redis.url);
  await using client = await connect([one.url, two.url], { logger: QUIET });
  const { has } = await serving(client, [one, two]);
  const lock = await client.lock("a").acquire();
  const before = client.session.info?.sessionId;
  const stopped = has.stop("SIGTERM");
  while (!client.session.info || client.session.info.sessionId === before) {
    lock.check();
    await sleep(5);
  }
  await stopped;
  lock.check();
  assert.equal(await lock.release(), true);
});

test("checks are right while the event loop is blocked, and locks outlive a short block", async () => {
  await using server = await Server.start();
  await using client = await connect(server.url, { ttl: 2000, logger: QUIET });
  const lock = await client.lock("a").acquire();
  const block = (time: number) =>
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, time);
  for (let i = 0; i < 3; i++) {
    block(1200);
    lock.check();
    // It is renewed as soon as the loop goes on.
    for (const before = lock.validFor; lock.validFor <= before; ) {
      await sleep(5);
    }
  }
  const { signal } = lock;
  block(2100);
  assert.throws(() => lock.check(), LockLostError);
  assert.equal(lock.validFor, 0);
  await sleep(0);
  assert(signal.aborted);
});
