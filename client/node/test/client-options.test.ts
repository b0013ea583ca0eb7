/** Options and looks of clients: events, waits by default, skips, consoles, texts in place of files, and timers that a test replaces. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { rootCertificates } from "node:tls";
import { inspect } from "node:util";
import {
  AcquireError,
  type Client,
  connect,
  HoldError,
  Client as NewClient,
  SettingsError,
} from "../src/index";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
const realTimeout = setTimeout;

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

let names = 0;
const fresh = () => `options/${++names}`;
const isKind = (kind: string) => (error: unknown) =>
  error instanceof AcquireError && error.kind === kind;

test("the events of a client tell of connections and locks", async () => {
  await using own = await Server.start("--min-ttl", "100ms");
  const warned: string[] = [];
  const logger = { ...QUIET, warn: (line: string) => warned.push(line) };
  const watched = new NewClient(own.url, { logger, grace: 2000, ttl: 4000 });
  const seen: string[] = [];
  const { events } = watched;
  events.on("connected", ({ endpoint }) => seen.push(`connected ${endpoint === own.url}`));
  events.on("disconnected", ({ sessionId }) => seen.push(`disconnected ${sessionId !== ""}`));
  events.on("acquired", ({ lock, waited }) => seen.push(`acquired ${lock} ${waited >= 0}`));
  events.on("failed", ({ lock, kind }) => seen.push(`failed ${lock} ${kind}`));
  events.on("suspended", ({ lock }) => seen.push(`suspended ${lock}`));
  events.on("released", ({ lock, held }) => seen.push(`released ${lock} ${held >= 0}`));
  events.on("lost", ({ lock, reason }) => seen.push(`lost ${lock} ${reason}`));
  events.on("released", () => {
    throw new RangeError("of the listener");
  });
  await watched.lock("a").with(() => undefined);
  const held = await watched.lock("b").acquire();
  await assert.rejects(watched.lock("b").acquire({ wait: 0 }), isKind("busy"));
  const signal = AbortSignal.abort();
  await assert.rejects(watched.lock("b").acquire({ signal }));
  const stop = new AbortController();
  const waits = watched.lock("b").acquire({ signal: stop.signal });
  await sleep(20);
  stop.abort();
  await assert.rejects(waits);
  await own.stop();
  await held.changed("held");
  assert.equal(await held.changed("suspended"), "lost");
  await sleep(0);
  await watched.close();
  assert.deepEqual(seen, [
    "connected true",
    "acquired a true",
    "released a true",
    "acquired b true",
    "failed b busy",
    "failed b cancelled",
    "disconnected true",
    "suspended b",
    "lost b session_ended",
  ]);
  assert.match(warned.join("\n"), /a listener of the event released failed: of the listener/);
});

test("work is skipped if the lock is busy, and its own errors are not", async () => {
  const name = fresh();
  const rival = await client.lock(name).acquire();
  assert.equal(await client.lock(name).with({ ifBusy: "skip" }, () => 1), undefined);
  assert.equal(await client.lock(name).with({ ifBusy: "skip", wait: 20 }, () => 1), undefined);
  await rival.release();
  assert.equal(await client.lock(name).with({ ifBusy: "skip" }, () => 1), 1);
  const failing = client.lock(name).with({ ifBusy: "skip" }, async () => {
    throw new AcquireError("of the work", { kind: "busy" });
  });
  await assert.rejects(failing, /of the work/);
  const refused = client.lock("").with({ ifBusy: "skip" }, () => 1);
  await assert.rejects(refused, isKind("invalid"));
  const wrong = { ifBusy: "wait" } as unknown as { ifBusy: "skip" };
  await assert.rejects(
    client.lock(name).with(wrong, () => 1),
    /ifBusy/,
  );
});

test("a client has a wait for requests that give none", async () => {
  const name = fresh();
  await using lock = await client.lock(name).acquire();
  await using bounded = await connect(server.url, { wait: 30, logger: QUIET });
  await assert.rejects(bounded.lock(name).acquire(), isKind("timed_out"));
  await assert.rejects(
    bounded.lock(name).with(() => 1),
    isKind("timed_out"),
  );
  await assert.rejects(bounded.lock(name).acquire({ wait: 0 }), isKind("busy"));
  const waits = bounded.lock(name).acquire({ wait: 60_000 });
  await sleep(60);
  await lock.release();
  await (await waits).release();
});

test("a console shows a hold in one line, and JSON can have it", async () => {
  const name = fresh();
  const hold = await client.lock(name).acquire();
  assert.equal(inspect(hold), `lock "${name}" (token ${hold.token}, held)`);
  assert.equal(`${hold}`, inspect(hold));
  assert.deepEqual(JSON.parse(JSON.stringify({ hold })).hold, {
    lock: name,
    token: `${hold.token}`,
    state: "held",
  });
  await hold.release();
  await using several = await client.locks([name, fresh()]).acquire();
  const detached = await client.detachedLock(fresh()).acquire();
  const shown = { several, detached, client, lock: client.lock(name), session: client.session };
  for (const [what, value] of Object.entries(shown)) {
    const text = inspect(value, { depth: 10 });
    assert(text.length < 250, `${what}: ${text}`);
  }
  assert(!JSON.stringify(detached).includes(detached.serialize().ownerId));
  await detached.release();
});

test("a detached lock is passed on as text", async () => {
  const lock = await client.detachedLock(fresh()).acquire();
  const text = JSON.stringify(lock.serialize());
  const { name, token, ownerId } = JSON.parse(text);
  const same = client.attachDetachedLock(name, token, ownerId);
  assert.equal(same.token, lock.token);
  await same.renew();
  assert.equal(await same.release(), true);
  for (const wrong of [
    () => client.attachDetachedLock(name, "7n", ownerId),
    () => client.attachDetachedLock(name, token, "short"),
    () => client.attachDetachedLock(name, "99999999999999999999", ownerId),
  ]) {
    assert.throws(wrong, HoldError);
  }
});

test("certificates are given as text or as paths", async () => {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-"));
  try {
    const [ca = ""] = rootCertificates;
    const file = join(folder, "ca.pem");
    writeFileSync(file, ca);
    for (const given of [ca, file]) {
      await new NewClient("https://localhost:1", { tls: { ca: given } }).close();
    }
    const wrong = { ca, cert: "-----BEGIN CERTIFICATE-----", key: file };
    assert.throws(() => new NewClient("https://localhost:1", { tls: wrong }), SettingsError);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("one signal for many requests of every kind prints no warning", async () => {
  const warned: Error[] = [];
  const note = (warning: Error) => warned.push(warning);
  process.on("warning", note);
  const stop = new AbortController();
  const { signal } = stop;
  const taken = await client.detachedLock(fresh()).acquire();
  const hold = await client.lock(fresh()).acquire();
  const flows = Array.from({ length: 12 }, (_, index) => [
    client.lock(hold.name).acquire({ signal }),
    client.detachedLock(taken.name, { wait: 60_000 }).acquire({ signal }),
    client.election(`${hold.name}/${index}`).run({ signal }, async () => once(signal, "abort")),
    hold.changed("held", { signal }),
    (async () => {
      for await (const _ of client.election(hold.name).observe({ signal })) {
      }
    })(),
  ]).flat();
  const ends = Promise.allSettled(flows);
  await sleep(100);
  stop.abort();
  await ends;
  await sleep(0);
  process.off("warning", note);
  assert.deepEqual(warned, []);
  await Promise.all([taken.release(), hold.release()]);
});

test("errors of a connection have the caller's stack, and name the URL once", async () => {
  async function theCaller() {
    await connect("http://127.0.0.1:1", { logger: QUIET });
  }
  await assert.rejects(theCaller, (error: Error) => {
    assert.match(error.stack ?? "", /theCaller/);
    assert.equal(error.message.split("127.0.0.1:1:").length, 2, error.message);
    return true;
  });
});

test("timers and clocks that a test framework replaces cost no lock", async () => {
  await using own = await Server.start("--min-ttl", "100ms");
  await using kept = await connect(own.url, { ttl: 2000, logger: QUIET });
  const lock = await kept.lock("kept").acquire();
  const { hrtime } = process;
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "setImmediate", "Date"], now: 0 });
  mock.method(performance, "now", () => 0);
  mock.method(globalThis, "queueMicrotask", () => undefined);
  mock.method(process, "hrtime", () => [0, 0]);
  try {
    await new Promise((resolve) => realTimeout(resolve, 4500));
    lock.check();
    const next = await kept.lock("next").acquire();
    assert.equal(await next.release(), true);
  } finally {
    mock.timers.reset();
    mock.restoreAll();
    assert.equal(process.hrtime, hrtime);
  }
  assert.equal(await lock.release(), true);
});
