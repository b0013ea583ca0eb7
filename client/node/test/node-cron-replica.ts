/**
 * Replica of a program with a schedule, whose clock differs by the milliseconds of its second argument. Says the slots that it ran, one a
 * line, until stdin ends.
 *
 * @module
 */

const [, , url = "", skew = "0"] = process.argv;
const clock = Date.now;
globalThis.Date = class extends Date {
  constructor(...time: [] | [number]) {
    super(...((time.length === 0 ? [clock() + Number(skew)] : time) as [number]));
  }

  static override now(): number {
    return clock() + Number(skew);
  }
} as DateConstructor;

import { connect } from "../src/index";
import { runCoordinator } from "../src/node-cron";

async function main(): Promise<void> {
  const { schedule } = await import("node-cron");
  const client = await connect(url);
  schedule("* * * * * *", ({ date }) => console.log(date.toISOString()), {
    name: "report",
    distributed: true,
    runCoordinator: runCoordinator(client),
  });
  console.log("ready");
  process.stdin.resume().on("end", () => process.exit());
}

void main();
