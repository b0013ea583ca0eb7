/** Calls without a session while the coordinators of one name stop and are killed, one after the other. */

import assert from "node:assert/strict";
import dns from "node:dns/promises";
import { after, before, mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../src/index";
import { HAS_REDIS, Redis } from "./redis";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
const NEEDS_REDIS = { skip: !HAS_REDIS && "redis-server is not installed" };
const FLOWS = 10;
/** Cycles of all flows between two ends of coordinators. */
const CYCLES = 100;

before(() => {
  const all = ["127.0.0.1", "127.0.0.2"].map((address) => ({ address, family: 4 }));
  mock.method(dns, "lookup", (name: string) => {
    return name === "coordinators" ? Promise.resolve(all) : Promise.reject(new Error(name));
  });
});
after(() => mock.restoreAll());

test("each call is made at the other address of a name", NEEDS_REDIS, async () => {
  await using redis = await Redis.start();
  const start = (...listen: string[]) => Server.start("--store", redis.url, ...listen);
  let one = await start();
  const { port } = new URL(one.url);
  const listen = ["127.0.0.1", "127.0.0.2"].map((host) => ["--listen", `${host}:${port}`]);
  let two = await start(...(listen[1] ?? []));
  await using client = new Client(`http://coordinators:${port}`, { logger: QUIET });

  let cycles = 0;
  let isOver = false;
  const failures: unknown[] = [];
  const flow = async (name: string) => {
    while (!isOver) {
      try {
        const lock = await client.detachedLock(name, { ttl: 60_000 }).acquire();
        await lock.renew();
        assert.equal(await lock.release(), true);
      } catch (error) {
        failures.push(error);
        await sleep(5);
      }
      cycles++;
    }
  };
  const names = Array.from({ length: FLOWS }, (_, index) => `n${index}`);
  const flows = names.map(flow);
  const go = async () => {
    for (const end = cycles + CYCLES; cycles < end; ) {
      await sleep(5);
    }
    assert.deepEqual(failures, []);
  };
  try {
    await go();
    for (let round = 0; round < 3; round++) {
      await one.stop("SIGTERM");
      await go();
      one = await start(...(listen[0] ?? []));
      await two.stop();
      await go();
      two = await start(...(listen[1] ?? []));
      await one.stop();
      await go();
      one = await start(...(listen[0] ?? []));
    }
    isOver = true;
    await Promise.all(flows);
    await using looks = new Client(one.url, { logger: QUIET });
    for (const name of names) {
      assert.equal((await looks.admin.getLock(name)).holderCount, 0n, `${name} stays locked`);
    }
  } finally {
    isOver = true;
    await one.stop();
    await two.stop();
  }
});
