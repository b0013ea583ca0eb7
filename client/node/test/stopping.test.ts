/** Processes that get a SIGTERM in the middle of work, with a framework that stops them. */

import "reflect-metadata";
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, connect } from "../src/index";
import { heldLock, LeaseholdModule, WithLock } from "../src/nestjs";
import { runCoordinator } from "../src/node-cron";
import { Server } from "./server";

/** Processes of each framework; STOPPING_ROUNDS=100 starts more. */
const ROUNDS = Number(process.env["STOPPING_ROUNDS"] ?? 5);

/** Works until it is told to stop, and says when it begins, with the slot that it runs, and ends. */
async function work(signal: AbortSignal, slot = ""): Promise<void> {
  const say = (what: string) =>
    process.stdout.write(`${what} ${process.hrtime.bigint()} ${slot}\n`);
  say("begin");
  if (!signal.aborted) {
    await once(signal, "abort");
  }
  await sleep(20);
  say("end");
}

class Jobs {
  async sweep(): Promise<void> {
    await work(heldLock().signal);
  }
}
const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, "sweep");
WithLock("stopped")(Jobs.prototype, "sweep", descriptor as never);
Object.defineProperty(Jobs.prototype, "sweep", descriptor as never);

async function nestjs(endpoints: string): Promise<void> {
  const { NestFactory } = await import("@nestjs/core");
  const leasehold = LeaseholdModule.forRoot({ endpoints });
  const root = { module: class App {}, imports: [leasehold], providers: [Jobs] };
  const app = await NestFactory.createApplicationContext(root, { logger: false });
  app.enableShutdownHooks();
  await app.get(Jobs).sweep();
}

async function nodeCron(url: string): Promise<void> {
  const { schedule } = await import("node-cron");
  const client = await connect(url);
  const run = ({ date }: { date: Date }) => work(client.closing, date.toISOString());
  const runs = runCoordinator(client);
  const task = schedule("* * * * * *", run, {
    name: "stopped",
    distributed: true,
    runCoordinator: runs,
  });
  process.once("SIGTERM", async () => {
    await task.destroy();
    await client.close();
    process.exit();
  });
}

const [, , role, framework, url = ""] = process.argv;
if (role === "replica") {
  void (framework === "nestjs" ? nestjs(url) : nodeCron(url));
} else {
  tests();
}

function tests(): void {
  let server: Server;
  let rival: Client;
  before(async () => {
    server = await Server.start();
    rival = await connect(server.url);
  });
  after(async () => {
    await rival.close();
    await server.stop();
  });

  /** Starts a replica. Returns when its work has begun, with what it says then and at the end. */
  async function begun(framework: string) {
    const args = [__filename, "replica", framework, server.url];
    const replica: ChildProcess = spawn(process.execPath, args, {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(replica, "close");
    assert(replica.stdout);
    const lines = createInterface({ input: replica.stdout })[Symbol.asyncIterator]();
    const said = async () => {
      const { value = "nothing" } = await lines.next();
      const [what, at = "0", slot = ""] = String(value).split(" ");
      return { what, at: BigInt(at), slot };
    };
    const { what, slot } = await said();
    assert.equal(what, "begin");
    return { replica, ended, said, slot };
  }

  test("a SIGTERM in the middle of a method of NestJS never lets two work at once", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { replica, ended, said } = await begun("nestjs");
      const next = rival.lock("stopped").with(() => process.hrtime.bigint());
      while ((await rival.admin.getLock("stopped")).waiterCount === 0n) {
        await sleep(1);
      }
      replica.kill("SIGTERM");
      const { what, at } = await said();
      assert.equal(what, "end");
      assert((await next) > at, "two at once");
      // NestJS ends the process by the signal that it has handled.
      assert.deepEqual(await ended, [null, "SIGTERM"]);
    }
  });

  test("a SIGTERM in the middle of a run of node-cron lets it end, and nobody else run its slot", async () => {
    const others = runCoordinator(rival);
    for (let round = 0; round < ROUNDS; round++) {
      const { replica, ended, said, slot } = await begun("node-cron");
      const key = `stopped:${slot}`;
      assert.equal(await others.shouldRun(key, 1000), false);
      replica.kill("SIGTERM");
      let hasEnded = false;
      const end = ended.then(() => {
        hasEnded = true;
      });
      while (!hasEnded) {
        assert.equal(await others.shouldRun(key, 1000), false);
      }
      await end;
      assert.equal((await said()).what, "end");
      assert.equal(replica.exitCode, 0);
      assert.equal(await others.shouldRun(key, 1000), false);
    }
  });
}
