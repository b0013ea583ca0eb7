/** Process that holds a lock, prints its token, and after each line of its input whether it has it. */

import { createInterface } from "node:readline";
import { connect } from "../src/index";

async function main([url = ""]: readonly string[]): Promise<void> {
  const client = await connect(url, { ttl: 60_000 });
  const lock = await client.lock("a").acquire();
  console.log(`${lock.token}`);
  for await (const _ of createInterface({ input: process.stdin })) {
    lock.check();
    // The coordinator answers this only if the hold is there.
    await lock.setValue("held");
    console.log(`held ${lock.token}`);
  }
  await lock.release();
  await client.close();
}

void main(process.argv.slice(2));
