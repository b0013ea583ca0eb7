import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  AcquireError,
  Actor,
  type Client,
  ClosedError,
  ConnectError,
  connect,
  Failure,
  LockLostError,
  LockReleasedError,
  Client as NewClient,
  SettingsError,
  type WatchItem,
} from "../src/index";
import { Server } from "./server";

let server: Server;
let client: Client;
before(async () => {
  server = await Server.start();
  client = await connect(server.url, { clientName: "tests" });
});
after(async () => {
  await client.close();
  await server.stop();
});

let count = 0;
/** Returns a name that no other test uses. */
function fresh(): string {
  return `test/${++count}`;
}

function isKind(kind: string) {
  return (error: unknown) => error instanceof AcquireError && error.kind === kind;
}

/** Waits until the signal is aborted. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve());
    if (signal.aborted) {
      resolve();
    }
  });
}

describe("a lock", () => {
  test("excludes others, and is handed to the next in line", async () => {
    const name = fresh();
    const first = await client.lock(name).acquire();
    assert(first.isHeld && first.validFor > 0 && first.count === 1);
    assert.equal(await client.lock(name).tryAcquire(), null);
    await assert.rejects(client.lock(name).acquire({ wait: 20 }), (error) => {
      assert(isKind("timed_out")(error));
      assert.equal((error as AcquireError).holder?.clientName, "tests");
      return true;
    });
    const waits = client.lock(name).acquire();
    assert.equal(await first.release(), true);
    const second = await waits;
    assert(second.token > first.token);
    assert.throws(() => first.check(), LockReleasedError);
    assert.equal(await second.release(), true);
    assert.equal(await second.release(), true, "released again");
  });

  test("is released at the end of a block, also when that throws", async () => {
    const name = fresh();
    await assert.rejects(async () => {
      await using lock = await client.lock(name).acquire();
      lock.check();
      throw new RangeError("of the block");
    }, RangeError);
    await using again = await client.lock(name).tryAcquire();
    assert(again);
  });

  test("is released after the work, whose result or error comes back", async () => {
    const name = fresh();
    assert.equal(await client.lock(name).with(() => 5), 5);
    const work = client.lock(name).with(async () => {
      throw new RangeError("of the work");
    });
    await assert.rejects(work, RangeError);
    const lock = await client.lock(name).tryAcquire();
    assert(lock);
    await lock.release();
  });

  test("that is lost stops the work, and is released only after it", async () => {
    const name = fresh();
    let hasEnded = false;
    const work = client.lock(name).with(async (lock, signal) => {
      assert(await client.admin.forceRelease(name));
      await aborted(signal);
      assert(signal.reason instanceof LockLostError && lock.signal.aborted);
      assert.throws(() => lock.check(), LockLostError);
      hasEnded = true;
      throw new RangeError("of the work");
    });
    await assert.rejects(work, (error) => {
      assert(error instanceof LockLostError && error.reason === "forced" && hasEnded);
      assert(error.cause instanceof RangeError);
      return true;
    });
  });

  test("is shared, downgraded, and given a value", async () => {
    const name = fresh();
    await using one = await client.lock(name).acquire({ value: "before" });
    await one.setValue("after");
    await one.downgrade();
    await using other = await client.lock(name, { shared: true }).tryAcquire();
    assert(other);
    const view = await client.admin.getLock(name);
    assert.equal(view.mode, "shared");
    assert.deepEqual(view.holders.map(({ value }) => Buffer.from(value).toString()).sort(), [
      "",
      "after",
    ]);
  });

  test("is reentrant for its actor only", async () => {
    const name = fresh();
    const actor = new Actor();
    const one = await client.lock(name).acquire({ actor });
    await assert.rejects(client.lock(name).acquire({ actor }), isKind("self_deadlock"));
    const two = await client.lock(name).acquire({ actor, reentrant: true });
    assert.deepEqual([two.count, two.token], [2, one.token]);
    await one.release();
    assert.equal(await client.lock(name).tryAcquire(), null);
    await two.release();
  });

  test("ends at its bound", async () => {
    const lock = await client.lock(fresh()).acquire({ maxHold: 1000 });
    assert(lock.endsIn !== undefined && lock.endsIn <= 1000);
    assert.equal(await lock.changed("held"), "lost");
    assert(lock.error instanceof LockLostError && lock.error.reason === "max_hold");
    assert.equal(await lock.release(), false);
  });

  test("tells an operator's request to release it", async () => {
    const name = fresh();
    await using lock = await client.lock(name).acquire();
    const asked = lock.releaseRequested();
    assert.equal(
      await client.admin.requestRelease(name, { reason: "maintenance", within: 60_000 }),
      1,
    );
    const request = await asked;
    assert.equal(request?.reason, "maintenance");
    assert((request?.timeLeft ?? 0) > 30_000);
  });
});

describe("a wait", () => {
  test("ends with its signal, and gives a grant that crosses it back", async () => {
    const name = fresh();
    await using lock = await client.lock(name).acquire();
    const stop = new AbortController();
    const waits = client.lock(name).acquire({ signal: stop.signal });
    stop.abort(new RangeError("stop"));
    await assert.rejects(waits, RangeError);
    await lock.release();
    await using next = await client.lock(name).acquire();
    assert(next.isHeld);
  });

  test("is refused for what is out of bounds", async () => {
    await assert.rejects(client.lock("").acquire(), isKind("invalid"));
    await assert.rejects(client.semaphore(fresh(), 3).acquire({ permits: 0 }), isKind("invalid"));
  });

  test("for locks in a circle ends one of them", async () => {
    const [a, b] = [fresh(), fresh()];
    const [one, other] = [new Actor(), new Actor()];
    await using first = await client.lock(a).acquire({ actor: one });
    await using second = await client.lock(b).acquire({ actor: other });
    const stop = new AbortController();
    const waits = [
      client.lock(b).acquire({ actor: one, signal: stop.signal }),
      client.lock(a).acquire({ actor: other, signal: stop.signal }),
    ];
    await assert.rejects(Promise.race(waits), isKind("deadlock"));
    stop.abort();
    await Promise.allSettled(waits);
    assert(first.isHeld && second.isHeld);
  });
});

test("permits of a semaphore are counted, reduced, and have one limit", async () => {
  const name = fresh();
  await using some = await client.semaphore(name, 4).acquire({ permits: 3 });
  assert.equal(some.permits, 3);
  await using rest = await client.semaphore(name, 4).acquire({ permits: 4, atLeast: 1 });
  assert.equal(rest.permits, 1);
  assert.equal(await client.semaphore(name, 4).tryAcquire(), null);
  await some.keep(1);
  await using freed = await client.semaphore(name, 4).tryAcquire({ permits: 2 });
  assert(freed);
  await assert.rejects(client.semaphore(name, 5).acquire(), (error) => {
    assert(error instanceof AcquireError && error.limit === 4);
    return isKind("limit_mismatch")(error);
  });
});

test("several locks are granted together or not at all", async () => {
  const [a, b] = [fresh(), fresh()];
  const locks = client.locks([a, { name: b, shared: true }]);
  await using both = await locks.acquire();
  both.check();
  assert.equal(both.get(b)?.name, b);
  assert.equal(await client.locks([fresh(), a]).tryAcquire(), null);
  assert.equal(await both.release(), true);
  assert.equal(await locks.with(({ all }) => all.length), 2);
});

describe("an election", () => {
  test("is led again after a loss, and resigned at the end", async () => {
    const name = fresh();
    const election = client.election(name, { value: "me" });
    const stop = new AbortController();
    const tokens: bigint[] = [];
    await election.run({ signal: stop.signal }, async (term, signal) => {
      tokens.push(term.token);
      if (tokens.length === 1) {
        await client.admin.forceRelease(name);
        await aborted(signal);
        return;
      }
      assert.equal((await election.leader())?.token, term.token);
      await assert.rejects(election.campaign(), isKind("already_candidate"));
      stop.abort();
    });
    assert.equal(tokens.length, 2);
    assert.equal(await election.leader(), undefined);
  });

  test("is observed from the present leader on", async () => {
    const election = client.election(fresh(), { value: "one" });
    const seen: (string | undefined)[] = [];
    const term = await election.campaign();
    for await (const { leader } of election.observe()) {
      seen.push(leader && Buffer.from(leader.value).toString());
      if (seen.length === 1) {
        await term.proclaim("two");
      } else if (seen.length === 2) {
        await term.resign();
      } else {
        break;
      }
    }
    assert.deepEqual(seen, ["one", "two", undefined]);
  });

  test("ends its observers with their signal", async () => {
    const stop = new AbortController();
    const observes = (async () => {
      for await (const _ of client.election(fresh()).observe({ signal: stop.signal })) {
        stop.abort(new RangeError("stop"));
      }
    })();
    await assert.rejects(observes, RangeError);
  });
});

test("a detached lock is renewed, passed on, and released once", async () => {
  const name = fresh();
  const lock = await client.detachedLock(name, { ttl: 20_000, clientName: "cron" }).acquire();
  assert(lock.isHeld && lock.validFor <= 20_000);
  assert.equal(await client.detachedLock(name).tryAcquire(), null);
  const same = client.attachDetachedLock(name, lock.token, lock.ownerId);
  assert(!same.isHeld);
  await same.renew({ ttl: 50_000 });
  assert(same.validFor > 20_000);
  assert.equal(await same.release(), true);
  assert.equal(await lock.release(), false);
  await assert.rejects(lock.renew(), LockLostError);
});

test("watchers see a snapshot, and then events", async () => {
  const name = fresh();
  const seen: string[] = [];
  for await (const item of client.admin.watch(name)) {
    seen.push(word(item));
    if (item.kind === "ready") {
      await client.lock(name).with(() => undefined);
    }
    if (seen.length === 3) {
      break;
    }
  }
  assert.deepEqual(seen, ["ready", "granted", "released"]);
});

function word(item: WatchItem): string {
  return item.kind === "event" ? item.event.kind : item.kind;
}

describe("a client", () => {
  test("is listed by its name, with its session", async () => {
    const sessions = [];
    for await (const session of client.admin.listSessions()) {
      sessions.push(session);
    }
    assert(sessions.some(({ sessionId }) => sessionId === client.session.info?.sessionId));
    const status = await client.admin.status();
    assert(status.isServing && status.isStoreUp && !status.isDraining && status.time !== undefined);
    assert(status.minTtl < status.defaultTtl && status.defaultTtl < status.maxTtl);
    assert.deepEqual(
      status.permissions.map(({ permission }) => permission),
      ["acquire", "inspect", "administer"],
    );
    assert(status.limits.some(({ name }) => name === "max-sessions"));
    assert.deepEqual(status.certificates, []);
    assert.equal((await client.admin.checkToken(fresh(), 1n)).newest, 0n);
  });

  test("that is closed loses its locks, and refuses everything", async () => {
    const name = fresh();
    const other = await connect(server.url);
    const lock = await other.lock(name).acquire();
    const waits = client.lock(name).acquire();
    await other.close();
    assert(lock.error instanceof LockLostError && lock.error.reason === "session_closed");
    await (await waits).release();
    await assert.rejects(other.lock(name).acquire(), isKind("closed"));
    assert.throws(() => other.session, ClosedError);
    await assert.rejects(other.admin.status(), ClosedError);
    await other.close();
  });

  test("says at once that nobody is there", async () => {
    await assert.rejects(connect("http://127.0.0.1:1"), (error) => {
      assert(error instanceof ConnectError && error.isRetryable, String(error));
      assert.match(error.message, /ECONNREFUSED/);
      return true;
    });
    await using lazy = new NewClient("http://127.0.0.1:1");
    await assert.rejects(lazy.lock("a").tryAcquire(), isKind("unavailable"));
    await assert.rejects(lazy.admin.status(), Failure);
  });

  test("refuses settings that can't be used", () => {
    const paths = ["http://host/path", "host:7420?query", "http://host/#fragment"];
    for (const url of ["ftp://host", "http://", "http://user@host", "", "host:0", ...paths]) {
      assert.throws(() => new NewClient(url), SettingsError, url);
    }
    assert.throws(() => new NewClient("http://example.com", { token: "secret" }), SettingsError);
    assert.throws(() => new NewClient("https://a", { tls: { cert: "a" } }), SettingsError);
  });

  test("has a connection of its own for each further session", async () => {
    await using session = await client.newSession({ ttl: 3000, clientName: "further" });
    assert.equal(session.info?.ttl, 3000);
    const name = fresh();
    await using lock = await session.lock(name).acquire();
    assert(lock.isHeld);
    assert.equal(await client.lock(name).tryAcquire(), null);
  });
});
