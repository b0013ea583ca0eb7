/** Words and rules of errors that come from elsewhere. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type Client, connect, Failure } from "../src/index";
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

test("a failure may pass or not as the documentation says", () => {
  const page = join(process.env["LEASEHOLD_NODE"] ?? ".", "../../docs/errors.md");
  const rows = [...readFileSync(page, "utf8").matchAll(/^\| `([A-Z_]+)` \| `[A-Z_]+` \| (\w+)/gm)];
  assert(rows.length > 30);
  for (const [, reason = "", retry] of rows) {
    const { isRetryable } = new Failure({ code: 2, reason, message: "" });
    assert.equal(isRetryable, retry === "yes" || retry === "elsewhere", reason);
  }
});

test("a refusal names the option of this library", async () => {
  const refused: [string, RegExp, () => Promise<unknown>][] = [
    ["ttl", /\bttl\b/, () => connect(server.url, { ttl: 86_400_000, logger: QUIET })],
    ["grace", /\bgrace\b/, () => connect(server.url, { grace: 86_400_000, logger: QUIET })],
    ["lockDelay", /\blockDelay\b/, () => client.lock("a").acquire({ lockDelay: 1e9 })],
    ["atLeast", /\batLeast\b/, () => client.semaphore("s", 2).acquire({ permits: 1, atLeast: 2 })],
  ];
  for (const [option, words, call] of refused) {
    await assert.rejects(call, (error: Error) => {
      assert.match(error.message, words, option);
      assert.doesNotMatch(error.message, /[a-z]_[a-z]|\bacquire\.|\bopen\./);
      return true;
    });
  }
});
