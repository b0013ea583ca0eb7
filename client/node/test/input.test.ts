/**
 * What programs may do wrong: numbers that the wire can't carry, hooks that throw, files that can't be read, signals that are aborted at the
 * wrong moment. Nothing of it may cost a session its locks.
 */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AcquireError,
  type Client,
  connect,
  HoldError,
  LockLostError,
  Client as NewClient,
  SettingsError,
} from "../src/index";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };

let server: Server;
let client: Client;
before(async () => {
  server = await Server.start();
  client = await connect(server.url, { logger: QUIET });
});
after(async () => {
  await client.close();
  await server.stop();
});

function isKind(kind: string) {
  return (error: unknown) => error instanceof AcquireError && error.kind === kind;
}

test("what the wire can't carry is refused at once, and the session stays", async () => {
  const kept = await client.lock("kept").acquire();
  const session = client.session.info?.sessionId;
  const invalid = isKind("invalid");
  for (const permits of [1.5, -1, Number.NaN, 2 ** 32, 0]) {
    await assert.rejects(client.semaphore("s", 3).acquire({ permits }), invalid);
    await assert.rejects(client.semaphore("s", 3).acquire({ atLeast: permits }), invalid);
    await assert.rejects(client.semaphore("s", permits).acquire(), invalid);
  }
  for (const options of [{ wait: Number.NaN }, { lockDelay: Number.NaN }]) {
    await assert.rejects(client.lock("x").acquire(options), invalid);
  }
  await assert.rejects(client.lock(5 as unknown as string).acquire(), invalid);
  await assert.rejects(client.lock("x").acquire({ value: 5 as unknown as string }), invalid);
  const permits = await client.semaphore("s", 3).acquire({ permits: 2 });
  await assert.rejects(permits.keep(1.5), (error) => {
    return error instanceof HoldError && error.kind === "invalid";
  });
  assert.equal(await permits.release(), true);
  kept.check();
  assert.equal(client.session.info?.sessionId, session);
  assert.equal(await kept.release(), true);
});

test("what is out of bounds is refused at once, and names the option", async () => {
  const kept = await client.lock("kept").acquire();
  const any = (value: unknown) => value as never;
  const faults: [string, () => Promise<unknown>][] = [
    ["name", () => client.lock("").acquire()],
    ["name", () => client.lock("x".repeat(513)).acquire()],
    ["name", () => client.lock("a\u0007").acquire()],
    ["name", () => client.lock("\ud800").acquire()],
    ["name", () => client.lock(any(null)).tryAcquire()],
    ["options", () => client.lock("a").acquire(any("5s"))],
    ["wait", () => client.lock("a").acquire({ wait: -1 })],
    ["wait", () => client.lock("a").acquire({ wait: Number.POSITIVE_INFINITY })],
    ["wait", () => client.lock("a").acquire({ wait: any("10s") })],
    ["maxHold", () => client.lock("a").acquire({ maxHold: 0 })],
    ["lockDelay", () => client.lock("a").acquire({ lockDelay: -1 })],
    ["value", () => client.lock("a").acquire({ value: "x".repeat(5 << 20) })],
    ["actor", () => client.lock("a").acquire({ actor: any({ number: 1n }) })],
    ["shared", () => client.lock("a").acquire({ shared: any("no") })],
    ["signal", () => client.lock("a").acquire({ signal: any({}) })],
    ["work", () => client.lock("a").with({}, any(undefined))],
    ["locks", () => client.locks([]).acquire()],
    ["locks", () => client.locks(any(null)).acquire()],
    ["locks", () => client.locks(["a", "a"]).acquire()],
    ["locks", () => client.locks(Array.from({ length: 1001 }, (_, i) => `${i}`)).acquire()],
    ["limit", () => client.semaphore("s", 1_000_001).acquire()],
    ["election", () => client.election("").campaign()],
    ["ttl", () => client.detachedLock("a", { ttl: 0 }).acquire()],
    ["key", () => client.detachedLock("a").withKey("short").acquire()],
  ];
  for (const [field, call] of faults) {
    await assert.rejects(call, (error) => {
      assert(error instanceof AcquireError && error.kind === "invalid", `${field}: ${error}`);
      assert.equal(error.failure?.violations[0]?.field, field);
      assert(error.message.length < 1500, "a message that can be read");
      return true;
    });
  }
  const isInvalid = (error: unknown) => error instanceof HoldError && error.kind === "invalid";
  await assert.rejects(kept.setValue("x".repeat(4097)), isInvalid);
  assert.throws(() => client.attachDetachedLock("a", 1n, any(undefined)), isInvalid);
  kept.check();
  assert.equal(await kept.release(), true);
});

test("a wrong setting is an error of the constructor", async () => {
  const wrong: Record<string, unknown>[] = [
    { ttl: "10s" },
    { ttl: 0 },
    { ttl: -5 },
    { ttl: Number.NaN },
    { grace: -1 },
    { clientName: "x".repeat(257) },
    { metadata: { "": "v" } },
    { connectTimeout: 0 },
    { backoff: { least: 1 } },
    { propagate: "yes" },
    { tls: { ca: "/ca.pem" } },
    { token: 5 },
  ];
  for (const options of wrong) {
    assert.throws(() => new NewClient(server.url, options as object), SettingsError);
    await assert.rejects(connect(server.url, options as object), SettingsError);
  }
  assert.throws(() => new NewClient(undefined as unknown as string), SettingsError);
  await assert.rejects(client.newSession({ ttl: 0 }), SettingsError);
});

test("errors have literal names, and the stack of the caller", async () => {
  const held = await client.lock("stack").acquire();
  async function theCaller() {
    await client.lock("stack").acquire({ wait: 0 });
  }
  await assert.rejects(theCaller, (error) => {
    assert(error instanceof AcquireError);
    // A bundler changes the names of classes.
    Object.defineProperty(AcquireError, "name", { value: "a" });
    assert.equal(error.name, "AcquireError");
    assert.match(error.stack ?? "", /theCaller/);
    return true;
  });
  await held.release();
});

test("one signal stops many flows without a warning", async () => {
  const warned: Error[] = [];
  const note = (warning: Error) => warned.push(warning);
  process.on("warning", note);
  const { signal } = new AbortController();
  const names = Array.from({ length: 12 }, (_, index) => `many/${index}`);
  await Promise.all(names.map((name) => client.lock(name).with({ signal }, () => sleep(1))));
  await sleep(0);
  process.off("warning", note);
  assert.deepEqual(warned, []);
});

test("a hook for traces that throws costs no release", async () => {
  let throws = false;
  const propagate = (carrier: Record<string, string>) => {
    if (throws) {
      throw new RangeError("no trace");
    }
    carrier["traceparent"] = 1 as unknown as string;
  };
  await using traced = await connect(server.url, { propagate, logger: QUIET });
  const lock = await traced.lock("traced").acquire();
  throws = true;
  assert.equal(await lock.release(), true);
  await (await client.lock("traced").acquire({ wait: 0 })).release();
  assert.equal((await traced.admin.status()).isServing, true);
});

test("a token file that can't be looked at leaves the session as it is", async () => {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-"));
  try {
    const tokenFile = join(folder, "token");
    await writeFile(tokenFile, "abc");
    await using known = await connect(server.url, { tokenFile, logger: QUIET });
    const lock = await known.lock("filed").acquire();
    // A link to itself, in one step.
    const loop = join(folder, "loop");
    await symlink("token", loop);
    await rename(loop, tokenFile);
    // Files are looked at once a second.
    await sleep(1500);
    lock.check();
    assert.equal(await lock.release(), true);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a signal ends a call that still connects", async () => {
  // It accepts connections, and says nothing.
  const sockets: Socket[] = [];
  const mute = createServer((socket) => sockets.push(socket)).listen(0, "127.0.0.1");
  await once(mute, "listening");
  const { port } = mute.address() as AddressInfo;
  const away = new NewClient(`http://127.0.0.1:${port}`, { logger: QUIET });
  try {
    const began = performance.now();
    const signal = AbortSignal.timeout(100);
    const waits = away.detachedLock("m", { wait: 3_600_000 }).acquire({ signal });
    await assert.rejects(waits, (error) => (error as Error).name === "TimeoutError");
    // A connection is given up after 10 s.
    assert(performance.now() - began < 5000);
  } finally {
    await away.close();
    for (const socket of sockets) {
      socket.destroy();
    }
    mute.close();
  }
});

test("a detached lock that was waited for is held for a whole TTL", async () => {
  const first = await client.lock("late").acquire();
  const waits = client.detachedLock("late", { ttl: 4000, wait: 20_000 }).acquire();
  await sleep(4500);
  assert.equal(await first.release(), true);
  const lock = await waits;
  assert(lock.isHeld && lock.validFor > 1000, `valid for ${lock.validFor} ms`);
  assert.equal(await lock.release(), true);
});

test("a detached lock is acquired where the permissions bound holds", async () => {
  const folder = await mkdtemp(join(tmpdir(), "leasehold-"));
  try {
    const token = `lh_${"A".repeat(43)}`;
    const hash = createHash("sha256").update(token).digest("hex");
    const tokens = join(folder, "tokens");
    await writeFile(tokens, `ci sha256:${hash}\n`, { mode: 0o600 });
    const file = join(folder, "leasehold.toml");
    const rule = ['identities = ["token:*"]', 'allow = ["acquire"]', 'locks = [""]'];
    const lines = [`token-file = "${tokens}"`, "[[permission]]", ...rule, 'max-hold = "5s"', ""];
    await writeFile(file, lines.join("\n"), { mode: 0o600 });
    await using bounded = await Server.start("--config", file);
    await using bound = new NewClient(bounded.url, { token, logger: QUIET });
    const lock = await bound.detachedLock("m", { ttl: 10_000 }).acquire();
    assert(lock.isHeld && lock.validFor <= 5000);
    assert.equal(await lock.release(), true);
    const keyed = bound.detachedLock("m").withKey("0123456789abcdef").acquire();
    await assert.rejects(keyed, isKind("permission_denied"));
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("a leader that loses another lock ends with that", async () => {
  const other = await connect(server.url, { logger: QUIET });
  const leads = client.election("leads").run({ signal: new AbortController().signal }, async () => {
    const lock = await other.lock("other").acquire();
    await client.admin.forceRelease("other");
    await lock.changed("held");
    lock.check();
  });
  await assert.rejects(leads, (error) => error instanceof LockLostError && error.lock === "other");
  await other.close();
});
