import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Client, connect } from "../src/index";
import { verrouStore } from "../src/verrou";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
let server: Server;
let client: Client;
let stores = 0;
before(async () => {
  // The kit's shortest TTL is 400 ms.
  server = await Server.start("--min-ttl", "100ms");
  // The kit leaves locks behind.
  client = await connect(server.url, { closeTimeout: 0, logger: QUIET });
});
after(async () => {
  await client.close();
  await server.stop();
});

/** Makes a store with names of its own: the tests of the kit use one name, and leave it locked. */
function createStore() {
  return verrouStore(client, { prefix: `verrou/${++stores}/` });
}

type Body = (tools: { assert: object }) => Promise<void>;

const ASSERT = {
  isTrue: (value: unknown) => assert.equal(value, true),
  isFalse: (value: unknown) => assert.equal(value, false),
  isString: (value: unknown) => assert.equal(typeof value, "string"),
  equal: assert.equal,
  deepEqual: assert.deepEqual,
  rejects: (work: () => Promise<unknown>, message: string) => assert.rejects(work, { message }),
};

test("the kit of verrou", { concurrency: true }, async (context) => {
  const { registerStoreTestSuite } = await import("@verrou/core/test_suite");
  const kit: { name: string; body: Body; expected?: new () => Error }[] = [];
  // As its own runner registers tests.
  const register = (name: string, body: Body) => {
    const one: (typeof kit)[number] = { name, body };
    kit.push(one);
    return {
      throws: (_message: string, expected: new () => Error) => {
        one.expected = expected;
      },
    };
  };
  registerStoreTestSuite({ test: register as never, createStore });
  assert(kit.length > 20);
  const tests = kit.map(({ name, body, expected }) =>
    context.test(name, async () => {
      const run = body({ assert: ASSERT });
      await (expected ? assert.rejects(run, expected) : run);
    }),
  );
  await Promise.all(tests);
});

test("another process restores a lock, and a stranger can't", async () => {
  const { LockFactory } = await import("@verrou/core");
  const options = { prefix: "verrou/restored/" };
  const [one, other] = [verrouStore(client, options), verrouStore(client, options)];
  const lock = new LockFactory(one).createLock("foo", 5000);
  await lock.acquire();
  const restored = new LockFactory(other).restoreLock(lock.serialize());
  await restored.extend(6000);
  const stranger = new LockFactory(other).createLock("foo", 5000);
  await assert.rejects(stranger.release(), { code: "E_LOCK_NOT_OWNED" });
  assert.equal(await lock.isLocked(), true);
  await restored.release();
  assert.equal(await lock.isLocked(), false);
});

test("a lock is taken also for the flow that has it", async () => {
  const { LockFactory } = await import("@verrou/core");
  const locks = new LockFactory(verrouStore(client, { prefix: "verrou/flow/" }));
  await client.lock("verrou/outer").with(async () => {
    await locks.createLock("foo", null).run(async () => {
      assert.equal(await locks.createLock("foo", null).acquireImmediately(), false);
    });
  });
});

test("a lock without a TTL lasts as long as the session", async () => {
  const { LockFactory } = await import("@verrou/core");
  const other = await connect(server.url, { closeTimeout: 0, logger: QUIET });
  const lock = new LockFactory(verrouStore(other)).createLock("kept", null);
  assert.equal(await lock.acquireImmediately(), true);
  await lock.extend(1000);
  const rival = new LockFactory(verrouStore(client)).createLock("kept", null);
  await assert.rejects(rival.release(), { code: "E_LOCK_NOT_OWNED" });
  assert.equal(await rival.acquireImmediately(), false);
  await other.close();
  assert.equal(await rival.acquireImmediately(), true);
  await rival.release();
});

test("a close waits for no lock that has ended, or that another process releases", async () => {
  const { LockFactory } = await import("@verrou/core");
  const other = await connect(server.url, { closeTimeout: 600_000 });
  const locks = new LockFactory(verrouStore(other, { prefix: "verrou/ended/" }));
  const brief = locks.createLock("brief", 100);
  await brief.acquire();
  const forced = locks.createLock("forced", null);
  await forced.acquire();
  await client.admin.forceRelease("verrou/ended/forced");
  const twice = locks.createLock("twice", 60_000);
  await twice.acquire();
  await client.admin.forceRelease("verrou/ended/twice");
  await twice.acquire();
  await twice.release();
  const passed = new LockFactory(
    verrouStore(other, { prefix: "verrou/passed/", closeWaits: false }),
  );
  const lock = passed.createLock("on", 60_000);
  await lock.acquire();
  while (await brief.isLocked()) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  await other.close();
  const store = verrouStore(client, { prefix: "verrou/passed/" });
  await new LockFactory(store).restoreLock(lock.serialize()).release();
});
