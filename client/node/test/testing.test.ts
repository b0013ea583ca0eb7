import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { AcquireError, type Client, connect, LockLostError } from "../src/index";
import { TestCoordinator } from "../src/testing";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };

let coordinator: TestCoordinator;
let client: Client;
before(async () => {
  coordinator = await TestCoordinator.start();
  client = await connect(coordinator.url, { clientName: "tests", logger: QUIET });
});
after(async () => {
  await client.close();
  await coordinator.close();
});

const isKind = (kind: string) => (error: unknown) =>
  error instanceof AcquireError && error.kind === kind;

async function queued(name: string, waiting: number): Promise<void> {
  while (coordinator.waiting(name) !== waiting) {
    await sleep(1);
  }
}

test("locks exclude, in the order of the queue, with rising tokens", async () => {
  const order: number[] = [];
  const first = await client.lock("a", { value: "v" }).acquire();
  assert.deepEqual(coordinator.holders("a"), [
    { token: first.token, clientName: "tests", value: "v", permits: 0 },
  ]);
  assert.equal(await client.lock("a").tryAcquire(), null);
  await assert.rejects(client.lock("a").acquire({ wait: 10 }), (error) => {
    return isKind("timed_out")(error) && (error as AcquireError).holder?.clientName === "tests";
  });
  const works: Promise<void>[] = [];
  for (const number of [1, 2, 3]) {
    works.push(
      client.lock("a").with((lock) => {
        assert(lock.token > first.token);
        order.push(number);
      }),
    );
    await queued("a", number);
  }
  const stop = new AbortController();
  const cancelled = client.lock("a").acquire({ signal: stop.signal });
  await queued("a", 4);
  stop.abort();
  await assert.rejects(cancelled);
  await first.setValue("w");
  assert.equal(coordinator.holders("a")[0]?.value, "w");
  assert.equal(await first.release(), true);
  await Promise.all(works);
  assert.deepEqual(order, [1, 2, 3]);
});

test("shared locks, semaphores and several names", async () => {
  const shared = client.lock("s", { shared: true });
  const [one, two] = [await shared.acquire(), await shared.acquire()];
  assert.equal(await client.lock("s").tryAcquire(), null);
  const writer = client.lock("s").acquire();
  await queued("s", 1);
  assert.equal(await shared.tryAcquire(), null);
  await Promise.all([one.release(), two.release()]);
  const held = await writer;
  await held.downgrade();
  await (await shared.acquire()).release();
  await held.release();

  const pool = client.semaphore("pool", 3);
  const most = await pool.acquire({ permits: 2 });
  assert.equal(await pool.tryAcquire({ permits: 2 }), null);
  const rest = await pool.acquire({ permits: 2, atLeast: 1 });
  assert.deepEqual([most.permits, rest.permits], [2, 1]);
  await most.keep(1);
  await Promise.all([(await pool.acquire()).release(), most.release(), rest.release()]);

  const both = await client.locks(["x", { name: "y", shared: true }]).acquire();
  assert.equal(await client.lock("x").tryAcquire(), null);
  await both.release();
});

test("a lock is lost on demand, and released at a disconnect", async () => {
  const work = client.lock("lost").with(async (_lock, signal) => {
    assert.equal(coordinator.lose("lost"), 1);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  });
  await assert.rejects(
    work,
    (error) => error instanceof LockLostError && error.reason === "forced",
  );
  assert.equal(coordinator.lose("lost"), 0);
  const other = await connect(coordinator.url, { logger: QUIET });
  await other.lock("gone").acquire();
  const waits = client.lock("gone").acquire();
  await other.close();
  await (await waits).release();
});

test("a flow, an election and a detached lock", async () => {
  await client.lock("flow").with(async () => {
    await assert.rejects(client.lock("flow").acquire(), isKind("self_deadlock"));
    await client.lock("flow").with({ reentrant: true }, ({ count }) => assert.equal(count, 2));
    assert.equal(coordinator.holders("flow").length, 1);
  });
  assert.deepEqual(coordinator.holders("flow"), []);
  const term = await client.election("leads", { value: "me" }).campaign();
  assert.equal(coordinator.holders("leads")[0]?.value, "me");
  await term.resign();
  const slot = await client.detachedLock("slot", { ttl: 200 }).acquire();
  assert.equal(await client.detachedLock("slot").tryAcquire(), null);
  await slot.renew();
  const next = await client.detachedLock("slot", { wait: 5000 }).acquire();
  assert(next.token > slot.token);
  await next.release();
});
