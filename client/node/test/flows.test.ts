/** Flows: what runs inside of work under a lock is one actor, as far as it does one thing after the other. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
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
const isSelfDeadlock = (error: unknown) =>
  error instanceof AcquireError && error.kind === "self_deadlock";

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
