/**
 * Redis servers for tests, where redis-server is installed.
 *
 * @module
 */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const HAS_REDIS = spawnSync("redis-server", ["--version"]).status === 0;

/** Returns a port that is free at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** A Redis server, on a port of its own. */
export class Redis implements AsyncDisposable {
  private constructor(
    readonly process: ChildProcess,
    readonly folder: string,
    /** URL for coordinators. */
    readonly url: string,
  ) {}

  static async start(): Promise<Redis> {
    const folder = mkdtempSync(join(tmpdir(), "leasehold-redis-"));
    const port = await freePort();
    const args = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder];
    const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] });
    for await (const line of child.stdout.setEncoding("utf8")) {
      if (/ready to accept/i.test(line)) {
        break;
      }
    }
    return new Redis(child, folder, `redis://127.0.0.1:${port}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await once(this.process, "exit");
    rmSync(this.folder, { recursive: true });
  }
}
