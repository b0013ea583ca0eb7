import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "../src/index";
import { Relay } from "./relay";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };

test("a session that is asked to move goes on while it can't, and moves when it can", async () => {
  await using server = await Server.start("--max-stream-size", "65536");
  await using relay = await Relay.before(server.url);
  await using client = await connect(relay.url, { logger: QUIET });
  const { session } = client;
  const lock = await client.lock("held").acquire();
  relay.isRefusing = true;
  const first = session.info?.sessionId;
  // It is asked after 16 of these, and again after as many more.
  const value = Buffer.alloc(4096);
  for (let i = 0; i < 100; i++) {
    await using _ = await client.lock("a").acquire({ value });
    lock.check();
  }
  assert.equal(session.info?.sessionId, first);
  assert.equal(session.drainsIn, undefined);
  relay.isRefusing = false;
  while (session.info?.sessionId === first) {
    await sleep(10);
  }
  lock.check();
  assert.equal((await client.admin.getLock("held")).holders[0]?.token, lock.token);
  assert.equal(await lock.release(), true);
});
