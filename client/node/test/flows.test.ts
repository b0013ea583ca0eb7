/** Flows: what runs inside of work under a lock is one actor, as far as it does one thing after the other. */

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { AcquireError, Actor, type Client, connect } from "../src/index";
import { Server } from "./server";

let server: Server;
let client: Client;
before(async () => {
  server = await Server.start();
  client = await connect(server.url);
});
after(async () => {
  await client.close();
  await server.stop();
});

let names = 0;
const fresh = () => `flow/${++names}`;
const isKind = (kind: string) => (error: unknown) =>
  error instanceof AcquireError && error.kind === kind;
const isSelfDeadlock = isKind("self_deadlock");
/** What threads say once they have the lock. */
const threads: Promise<unknown[]>[] = [];

test("a flow that asks for what it holds is refused at once", async () => {
  const [outer, inner] = [fresh(), fresh()];
  await client.lock(outer).with(() =>
    client.lock(inner).with(async () => {
      for (const name of [outer, inner]) {
        await assert.rejects(client.lock(name).acquire(), isSelfDeadlock);
        await assert.rejects(
          client.lock(name).with(() => undefined),
          isSelfDeadlock,
        );
        await assert.rejects(client.locks([fresh(), name]).acquire(), isSelfDeadlock);
      }
      const plain = await client.lock(fresh()).acquire();
      await assert.rejects(client.lock(plain.name).acquire(), isSelfDeadlock);
      await plain.release();
    }),
  );
  await client.semaphore(outer, 2).with(async () => {
    await assert.rejects(client.semaphore(outer, 2).acquire(), isSelfDeadlock);
  });
});

test("a flow holds its lock once more if it asks for that", async () => {
  const name = fresh();
  await client.lock(name).with(async (first) => {
    const counts = await client.lock(name).with({ reentrant: true }, async (second) => {
      assert.equal(second.token, first.token);
      return [first.count, second.count];
    });
    assert.deepEqual(counts, [1, 2]);
    first.check();
    assert.equal(await client.lock(name).tryAcquire({ actor: new Actor() }), null);
  });
});

test("flows side by side inside of work wait for one another", async () => {
  const [outer, shared] = [fresh(), fresh()];
  let inside = 0;
  await client.lock(outer).with(async () => {
    const one = () =>
      client.lock(shared).with(async () => {
        assert.equal(++inside, 1);
        await sleep(5);
        inside--;
      });
    const other = async () => {
      const lock = await client.lock(shared).acquire();
      assert.equal(++inside, 1);
      await sleep(5);
      inside--;
      await lock.release();
    };
    const own = () => client.lock(outer).with(() => undefined);
    await Promise.all([one(), one(), other(), one(), assert.rejects(own, isSelfDeadlock)]);
  });
});

test("work that outlives its lock, and what a leader starts, contends as others do", async () => {
  const [name, shared, election] = [fresh(), fresh(), fresh()];
  const late: Promise<number>[] = [];
  await client.lock(name).with(() => {
    for (const number of [1, 2]) {
      late.push(sleep(20).then(() => client.lock(name).with(() => number)));
    }
  });
  const holder = await client.lock(name).acquire();
  await sleep(40);
  await holder.release();
  assert.deepEqual(await Promise.all(late), [1, 2]);

  const stop = new AbortController();
  await client.election(election).run({ signal: stop.signal }, async () => {
    const first = await client.lock(shared).acquire();
    const second = client.lock(shared).acquire();
    await first.release();
    await (await second).release();
    await assert.rejects(client.lock(election).acquire(), isSelfDeadlock);
    stop.abort();
  });
});

test("actors in a circle are found without being named", async () => {
  const [a, b] = [fresh(), fresh()];
  let inside = 0;
  const both = (first: string, second: string) =>
    client.lock(first).with(async () => {
      inside++;
      while (inside < 2) {
        await sleep(1);
      }
      return await client.lock(second).with(() => "both");
    });
  const ends = await Promise.allSettled([both(a, b), both(b, a)]);
  assert.deepEqual(ends.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  const failed = ends.find((end) => end.status === "rejected");
  assert(failed?.reason instanceof AcquireError && failed.reason.kind === "deadlock");
});

test("what is held outside of work, by another session or detached is of no flow", async () => {
  const [plain, detached, elsewhere] = [fresh(), fresh(), fresh()];
  const first = await client.lock(plain).acquire();
  assert.equal(await client.lock(plain).tryAcquire(), null);
  await assert.rejects(client.lock(plain).acquire({ reentrant: true }), isKind("invalid"));
  const waits = client.lock(plain).with(() => "had it");
  await first.release();
  assert.equal(await waits, "had it");

  const session = await client.newSession();
  await client.lock(elsewhere).with(async () => {
    assert.equal(await session.lock(elsewhere).tryAcquire(), null);
    await session.lock(fresh()).with(async () => {
      await assert.rejects(client.lock(elsewhere).acquire(), isSelfDeadlock);
    });
    const lock = await client.detachedLock(detached).acquire();
    assert.equal(await client.detachedLock(detached).tryAcquire(), null);
    await assert.rejects(client.lock(detached).acquire({ wait: 0 }), isKind("busy"));
    await assert.rejects(client.detachedLock(elsewhere).acquire(), isKind("busy"));
    await lock.release();
  });
  await session.close();
});

test("an actor that is given is that of the request, and of the work under it", async () => {
  const [outer, inner, actor] = [fresh(), fresh(), new Actor()];
  await client.lock(outer, { actor }).with(async () => {
    assert.equal(await client.lock(outer).with({ reentrant: true }, ({ count }) => count), 2);
    assert.equal(await client.lock(outer).tryAcquire({ actor: new Actor() }), null);
    const held = await client.lock(inner).acquire();
    const same = await client.lock(inner).acquire({ actor, reentrant: true });
    assert.deepEqual([held.count, same.count], [1, 2]);
    await Promise.all([held.release(), same.release()]);
  });
  const held = await client.lock(inner).acquire({ actor });
  await assert.rejects(client.lock(inner).acquire({ actor }), isSelfDeadlock);
  await held.release();
});

test("work of a timer, of an event or of another thread", async () => {
  const [name, emitter] = [fresh(), new EventEmitter()];
  const outside = new Promise((resolve, reject) => {
    // It was registered outside of the work, and yet the work emits it: that is the flow of the work.
    emitter.once("asks", () => client.lock(name).acquire().then(reject, resolve));
  });
  await client.lock(name).with(async () => {
    emitter.emit("asks");
    assert(isSelfDeadlock(await outside));
    const timed = new Promise((resolve, reject) => {
      setTimeout(() => client.lock(name).acquire().then(reject, resolve), 1);
    });
    assert(isSelfDeadlock(await timed));
    const thread = new Worker(
      `const { parentPort, workerData } = require("node:worker_threads");
      require(workerData.client).connect(workerData.url).then(async (client) => {
        parentPort.postMessage(await client.lock(workerData.name).tryAcquire());
        await client.lock(workerData.name).with(() => parentPort.postMessage("had it"));
        await client.close();
      });`,
      {
        eval: true,
        workerData: { client: require.resolve("../src/index"), url: server.url, name },
      },
    );
    assert.deepEqual(await once(thread, "message"), [null]);
    threads.push(once(thread, "message"));
  });
  assert.deepEqual(await Promise.all(threads), [["had it"]]);
});
