/**
 * Silence of a connection or a process, for less than the TTL. It lasts for longer than probes of HTTP/2; the tests run beside one another.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "../src/index";
import { Relay } from "./relay";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
const SILENCE = 25_000;
const STOP = 15_000;

describe("silence", { concurrency: true, timeout: 120_000 }, () => {
  test("of a connection costs no lock", { timeout: 120_000 }, async () => {
    await using server = await Server.start();
    await using relay = await Relay.before(server.url);
    await using client = await connect(relay.url, { ttl: 45_000, logger: QUIET });
    await using other = await connect(server.url, { logger: QUIET });
    const lock = await client.lock("a").acquire();
    const { token } = lock;
    let isGranted = false;
    const rival = other.lock("a").acquire();
    rival.then(
      () => {
        isGranted = true;
      },
      () => undefined,
    );
    relay.fallSilent();
    for (const end = performance.now() + SILENCE; performance.now() < end; ) {
      lock.check();
      await sleep(50);
    }
    relay.speak();
    // It is renewed when answers come again.
    for (const before = lock.validFor; lock.validFor <= before; ) {
      lock.check();
      await sleep(50);
    }
    assert.equal(lock.token, token);
    assert.equal((await other.admin.getLock("a")).holders[0]?.token, token);
    assert(!isGranted);
    assert.equal(await lock.release(), true);
    await (await rival).release();
  });

  test("of a stopped process costs no lock", { timeout: 120_000 }, async () => {
    await using server = await Server.start();
    await using other = await connect(server.url, { logger: QUIET });
    const program = join(__dirname, "silence-holder.js");
    const holder = spawn(process.execPath, [program, server.url], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    try {
      const lines = createInterface({ input: holder.stdout })[Symbol.asyncIterator]();
      const { value: token } = await lines.next();
      let isGranted = false;
      const rival = other.lock("a").acquire();
      rival.then(
        () => {
          isGranted = true;
        },
        () => undefined,
      );
      holder.kill("SIGSTOP");
      await sleep(STOP);
      holder.kill("SIGCONT");
      holder.stdin.write("\n");
      assert.equal((await lines.next()).value, `held ${token}`);
      assert(!isGranted);
      holder.stdin.end();
      await (await rival).release();
    } finally {
      holder.kill("SIGKILL");
    }
  });
});
