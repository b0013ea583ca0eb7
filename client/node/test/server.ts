/**
 * Coordinators for tests: the program that `make build` makes, or the one that LEASEHOLD_SERVER names.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A coordinator process, with its locks in memory. */
export class Server implements AsyncDisposable {
  private constructor(
    readonly process: ChildProcess,
    readonly url: string,
    readonly adminUrl: string,
  ) {}

  static async start(...args: string[]): Promise<Server> {
    const program = process.env["LEASEHOLD_SERVER"];
    if (!program) {
      throw new Error("LEASEHOLD_SERVER does not name a coordinator");
    }
    const listen = args.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"];
    const all = [...listen, "--admin-listen", "127.0.0.1:0", ...args];
    const child = spawn(program, all, { stdio: ["ignore", "pipe", "ignore"] });
    const lines = createInterface({ input: child.stdout });
    const ended = once(child, "exit").then(() => ["it ended"]);
    const [line] = (await Promise.race([once(lines, "line"), ended])) as [string];
    const address = /grpc=(\S+)/.exec(line)?.[1];
    if (!address) {
      throw new Error(`the coordinator does not say where it listens: ${line}`);
    }
    return new Server(child, `http://${address}`, `http://${/admin=(\S+)/.exec(line)?.[1]}`);
  }

  async stop(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill(signal);
      await once(this.process, "exit");
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
