import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { connect } from "../src/index";
import { runCoordinator } from "../src/node-cron";
import { Server } from "./server";

test("three replicas with different clocks run each slot once", async () => {
  await using server = await Server.start();
  const slots: string[] = [];
  let enough: () => void = () => undefined;
  const seen = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const replicas = ["-400", "0", "400"].map((skew) => {
    const program = join(__dirname, "node-cron-replica.js");
    const stdio = ["pipe", "pipe", "inherit"] as const;
    const replica = spawn(process.execPath, [program, server.url, skew], { stdio: [...stdio] });
    const ready = new Promise<void>((resolve) => {
      createInterface({ input: replica.stdout as NodeJS.ReadableStream }).on("line", (line) => {
        if (line === "ready") {
          resolve();
        } else {
          slots.push(line);
        }
        if (slots.length >= 4) {
          enough();
        }
      });
    });
    return { replica, ready };
  });
  await Promise.all(replicas.map(({ ready }) => ready));
  await seen;
  const ended = replicas.map(
    ({ replica }) => new Promise((resolve) => replica.on("close", resolve)),
  );
  for (const { replica } of replicas) {
    replica.stdin?.end();
  }
  await Promise.all(ended);
  assert.equal(new Set(slots).size, slots.length, `a slot ran twice: ${slots}`);
  // None was left out in between.
  const times = slots.map((slot) => Date.parse(slot)).sort();
  assert.equal((times.at(-1) ?? 0) - (times[0] ?? 0), (times.length - 1) * 1000, `${slots}`);
});

test("a slot stays taken when its run is over, and says so when nobody can be asked", async () => {
  await using server = await Server.start();
  await using client = await connect(server.url);
  const [one, other] = [runCoordinator(client), runCoordinator(client, { prefix: "cron/" })];
  assert.equal(await one.shouldRun("report:12:00", 10), true);
  assert.equal(await other.shouldRun("report:12:00", 10), false);
  assert.equal(await other.shouldRun("report:12:01", 10), true);
  const view = await client.admin.getLock("cron/report:12:00");
  assert((view.holders[0]?.ttl ?? 0) > 50_000);
  one.onComplete("report:12:00");
  other.onComplete("report:12:01");
  await server.stop();
  await assert.rejects(one.shouldRun("report:12:02", 10));
});

test("a close in the middle of a run waits for it, and its slot stays taken", async () => {
  await using server = await Server.start();
  await using rival = await connect(server.url);
  const others = runCoordinator(rival);
  for (let round = 0; round < 100; round++) {
    const client = await connect(server.url, { closeTimeout: 600_000 });
    const slots = runCoordinator(client);
    const key = `report:${round}`;
    // As node-cron does it.
    assert.equal(await slots.shouldRun(key, 10), true);
    let hasEnded = false;
    client.closing.addEventListener("abort", async () => {
      assert.equal(await others.shouldRun(key, 10), false);
      hasEnded = true;
      slots.onComplete(key);
    });
    await client.close();
    assert(hasEnded);
    assert.equal(await others.shouldRun(key, 10), false);
    await assert.rejects(slots.shouldRun(`${key}/next`, 10), /closed/);
  }
});
