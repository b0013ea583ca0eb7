import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Server } from "./server";

/** Folder of the package. */
const PACKAGE = process.env["LEASEHOLD_NODE"] ?? "";
const examples = readFileSync(join(PACKAGE, "README.md"), "utf8").match(/(?<=```js\n).*?(?=```)/gs);

const run = promisify(execFile);
let server: Server;
const project = mkdtempSync(join(tmpdir(), "leasehold-readme-"));
before(async () => {
  server = await Server.start();
  // What npm packs, in a project that has all that it needs.
  const checkout = join(project, "checkout");
  cpSync(PACKAGE, checkout, {
    recursive: true,
    filter: (path) => !["node_modules", "dist", "benchmark"].includes(basename(path)),
  });
  symlinkSync(join(PACKAGE, "node_modules"), join(checkout, "node_modules"));
  await run("npm", ["pack", "--silent", "--offline", "--pack-destination", project], {
    cwd: checkout,
  });
  const packages = join(project, "node_modules");
  mkdirSync(join(packages, "leasehold"), { recursive: true });
  const [packed = ""] = readdirSync(project).filter((name) => name.endsWith(".tgz"));
  const into = ["--directory", join(packages, "leasehold"), "--strip-components=1"];
  await run("tar", ["--extract", "--file", join(project, packed), ...into]);
  for (const name of readdirSync(join(PACKAGE, "node_modules"))) {
    symlinkSync(join(PACKAGE, "node_modules", name), join(packages, name));
  }
});
after(async () => {
  await server.stop();
  rmSync(project, { recursive: true });
});

assert(examples && examples.length >= 6);
for (const [index, example] of examples.entries()) {
  test(`example ${index + 1} of the README runs`, async () => {
    const file = join(project, `example${index}.mjs`);
    writeFileSync(file, example.replaceAll("http://127.0.0.1:7420", server.url));
    await run(process.execPath, [file]);
  });
}

test("import and require give the same package", async () => {
  const file = join(project, "both.mjs");
  const both = `
    import { createRequire } from "node:module";
    import { AcquireError, connect } from "leasehold";
    import { SessionOpenSchema } from "leasehold/v1";
    const required = createRequire(import.meta.url)("leasehold");
    if (required.connect !== connect || required.AcquireError !== AcquireError || !SessionOpenSchema) {
      throw new Error("they differ");
    }`;
  writeFileSync(file, both);
  await run(process.execPath, [file]);
});

test("the types are there for both kinds of modules", async () => {
  const program = `
    import { connect, type Hold } from "leasehold";
    import { runCoordinator } from "leasehold/node-cron";
    import { type SessionOpen } from "leasehold/v1";
    import { verrouStore } from "leasehold/verrou";
    export async function work(open: SessionOpen): Promise<[bigint, unknown]> {
      const client = await connect("http://127.0.0.1:7420", { ttl: Number(open.ttl?.seconds) });
      const hold: Hold | null = await client.lock("a").tryAcquire();
      return [hold?.token ?? 0n, [runCoordinator(client), verrouStore(client)]];
    }`;
  const files = ["types.mts", "types.cts"].map((name) => join(project, name));
  for (const file of files) {
    writeFileSync(file, program);
  }
  const compiler = join(PACKAGE, "node_modules/.bin/tsc");
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "node20"];
  const types = ["--target", "es2022", "--types", "node", "--typeRoots"];
  await run(compiler, [...options, ...types, join(PACKAGE, "node_modules/@types"), ...files], {
    cwd: project,
  });
});
