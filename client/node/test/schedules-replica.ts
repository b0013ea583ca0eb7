/**
 * Replica of a program with jobs: one of node-cron at every second, and at an interval one under a lock of verrou and one under a lock of
 * NestJS. Says, one a line, which slots it asked for and won, when the other jobs began and ended by the machine's wall clock, if they had
 * their locks until then, and which attempts failed.
 *
 * @module
 */

import "reflect-metadata";
import { setTimeout as sleep } from "node:timers/promises";
import { AcquireError, Client, LockLostError } from "../src/index";
import { LeaseholdModule, WithLock } from "../src/nestjs";
import { runCoordinator } from "../src/node-cron";
import { verrouStore } from "../src/verrou";

const INTERVAL = 200;
const WORK = 100;
/** Less than any limit of a call or of an attempt to connect: what fails later, a busy machine may be the reason of. */
const PATIENCE = 4000;

function say(...words: (string | number)[]): void {
  console.log(words.join(" "));
}

/** Works, and says so if `isDone`, which ends the job, does not fail. */
async function work(job: string, end: () => Promise<void> = async () => undefined): Promise<void> {
  const begun = Date.now();
  await sleep(WORK);
  const ended = Date.now();
  await end();
  say("ran", job, begun, ended);
}

function isBusy(error: unknown): boolean {
  return error instanceof AcquireError && error.kind === "busy";
}

/** Makes attempts of a job, for ever. */
async function repeat(job: string, attempt: () => Promise<void>): Promise<never> {
  for (;;) {
    const begun = performance.now();
    try {
      await attempt();
    } catch (error) {
      if (error instanceof LockLostError) {
        say("lost", job);
      } else if (!isBusy(error) && performance.now() - begun < PATIENCE) {
        say("failed", job, String(error));
      }
    }
    await sleep(INTERVAL);
  }
}

class Jobs {
  async sweep(): Promise<{ begun: number; ended: number }> {
    const begun = Date.now();
    await sleep(WORK);
    return { begun, ended: Date.now() };
  }
}
// As `@WithLock("nest", { wait: 0 })` does it.
const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, "sweep");
WithLock("nest", { wait: 0 })(Jobs.prototype, "sweep", descriptor as never);
Object.defineProperty(Jobs.prototype, "sweep", descriptor as never);

async function main(): Promise<void> {
  const [, , ...endpoints] = process.argv;
  const { schedule } = await import("node-cron");
  const { LockFactory } = await import("@verrou/core");
  const { NestFactory } = await import("@nestjs/core");
  // For a busy machine, with which the locks of what was killed stay for as long: the session resumes its own.
  const leasehold = LeaseholdModule.forRoot({ endpoints, ttl: 30_000, grace: 30_000 });
  const root = { module: class App {}, imports: [leasehold], providers: [Jobs] };
  const app = await NestFactory.createApplicationContext(root, { logger: false });
  const client = app.get(Client);

  const slots = runCoordinator(client);
  schedule("* * * * * *", ({ dateLocalIso }) => say("slot", dateLocalIso), {
    name: "cron",
    distributed: true,
    runCoordinator: {
      async shouldRun(key, ttl) {
        say("asked", key);
        const begun = performance.now();
        try {
          const isWon = await slots.shouldRun(key, ttl);
          if (isWon) {
            say("won", key);
          }
          return isWon;
        } catch (error) {
          say(performance.now() - begun < PATIENCE ? "skipped" : "late", key);
          throw error;
        }
      },
    },
  });

  const locks = new LockFactory(verrouStore(client));
  void repeat("verrou", async () => {
    const lock = locks.createLock("sweep", "30s");
    if (await lock.acquireImmediately()) {
      await work("verrou", () => lock.release());
    }
  });

  void repeat("nest", async () => {
    const { begun, ended } = await app.get(Jobs).sweep();
    say("ran", "nest", begun, ended);
  });
}

void main();
