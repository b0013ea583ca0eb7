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

test("the example of NestJS compiles, and runs a method under its lock", async () => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const [example = ""] = readme.match(/(?<=```ts\n).*?(?=```)/s) ?? [];
  const main = `
    import { NestFactory } from "@nestjs/core";
    const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
    await app.get(Orders).pay(42);
    await app.get(Orders).report();
    await app.close();`;
  const file = join(project, "nest.mts");
  writeFileSync(file, example.replaceAll("http://127.0.0.1:7420", server.url) + main);
  const charge = "exports.charge = (id, token) => console.log('charged', id, token > 0n);";
  writeFileSync(join(project, "charge.js"), charge);
  const declared = "export function charge(id: number, token: bigint, options: object): void;";
  writeFileSync(join(project, "charge.d.ts"), declared);
  await compile("--experimentalDecorators", "--outDir", project, file);
  const { stdout } = await run(process.execPath, [join(project, "nest.mjs")]);
  assert.equal(stdout, "charged 42 true\n");
});

/** Compiles in the project, as strictly as can be. */
async function compile(...args: string[]): Promise<void> {
  const compiler = join(PACKAGE, "node_modules/.bin/tsc");
  const options = ["--strict", "--skipLibCheck", "--module", "node20", "--target", "es2022"];
  const types = ["--types", "node", "--typeRoots", join(PACKAGE, "node_modules/@types")];
  await run(compiler, [...options, ...types, ...args], { cwd: project });
}

test("the recipes do what they say", async () => {
  cpSync(join(PACKAGE, "examples"), join(project, "examples"), { recursive: true });
  // What the program imports, too: there is one class of each error.
  const file = join(project, "recipes-run.mjs");
  const url = JSON.stringify(server.url);
  const program = `
    import assert from "node:assert/strict";
    import { connect } from "leasehold";
    import * as recipes from "./examples/recipes.mjs";
    const [client, rival] = [await connect(${url}), await connect(${url})];
    const ran = [];
    const work = (name) => async () => void ran.push(name);
    await recipes.charge(client, 1, async ({ token, signal }) => {
      assert(token > 0n && !signal.aborted);
      ran.push("lock");
    });
    const busy = await rival.lock("report").acquire();
    await recipes.reportIfNobodyDoes(client, assert.fail);
    await busy.release();
    await recipes.reportIfNobodyDoes(client, work("try"));
    await recipes.chargeSoon(client, 2, work("wait"));
    await recipes.read(client, () => recipes.read(rival, work("shared")));
    await recipes.write(client, work("alone"));
    await recipes.callApi(client, work("semaphore"));
    await recipes.transfer(client, 7, 9, work("several"));
    const stop = new AbortController();
    await recipes.schedule(client, stop.signal, async ({ token, signal }) => {
      assert(token > 0n && !signal.aborted);
      ran.push("election");
      stop.abort();
    });
    await assert.rejects(
      recipes.oncePerHour(client, async () => {
        throw new RangeError("of the work");
      }),
      RangeError,
    );
    await recipes.oncePerHour(client, work("once"));
    await recipes.oncePerHour(rival, assert.fail);
    const written = [];
    const database = { query: async (_sql, [, token]) => written.push(token) };
    await recipes.save(client, database, { id: 1, data: "d" });
    assert.equal(written.length, 1);
    await assert.rejects(recipes.save(client, { query: async () => 0 }, { id: 1 }), /a later holder/);
    await recipes.testThatOrdersAreChargedOneByOne();
    assert.deepEqual(ran, [
      "lock", "try", "wait", "shared", "alone", "semaphore", "several", "election", "once",
    ]);
    recipes.stopOn("SIGTERM", client);
    await rival.close();
    await client.lock("stopped").with(async (_lock, signal) => {
      process.kill(process.pid, "SIGTERM");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      console.log("stopped");
    });`;
  writeFileSync(file, program);
  const { stdout } = await run(process.execPath, [file]);
  assert.equal(stdout, "stopped\n");
});

test("a lock is taken by fetch", async () => {
  const example = readFileSync(join(PACKAGE, "examples/fetch.mjs"), "utf8");
  const file = join(project, "fetch.mjs");
  writeFileSync(file, example.replaceAll("http://127.0.0.1:7420", server.url));
  const { stdout } = await run(process.execPath, [file]);
  assert.match(stdout, /^held for 30 s from .* token \d+\nheld for 30 s more\n$/);
});

test("the package has its licences, and says what it is", async () => {
  const packed = join(project, "node_modules/leasehold");
  for (const licence of ["LICENSE-MIT", "LICENSE-APACHE"]) {
    // The same as in the repository, where this is a part of it.
    const root = join(PACKAGE, "../..", licence);
    assert.equal(readFileSync(join(packed, licence), "utf8"), readFileSync(root, "utf8"));
  }
  const names = ["leasehold/package.json", "leasehold/testing", "leasehold/nestjs"];
  const program = names.map((name) => `console.log(require.resolve("${name}"));`).join("\n");
  writeFileSync(join(project, "resolve.cjs"), program);
  await run(process.execPath, [join(project, "resolve.cjs")]);
  // What an older resolver of types finds.
  const { typesVersions, exports } = JSON.parse(readFileSync(join(packed, "package.json"), "utf8"));
  for (const [name, [file]] of Object.entries<[string]>(typesVersions["*"])) {
    assert.equal(file, exports[`./${name}`].require.types);
    readFileSync(join(packed, file));
  }
});

test("no link of the README leads out of the package", () => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  assert.deepEqual(readme.match(/\]\((?!https?:|#)[^)]*\)/g), null);
});

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
    import { TestCoordinator } from "leasehold/testing";
    export async function work(open: SessionOpen): Promise<[bigint, unknown]> {
      const client = await connect("http://127.0.0.1:7420", { ttl: Number(open.ttl?.seconds) });
      const hold: Hold | null = await client.lock("a").tryAcquire();
      const ran: number = await client.lock("a").with(() => 1);
      const maybe: number | undefined = await client.lock("a").with({ ifBusy: "skip" }, () => ran);
      client.events.on("lost", ({ lock, reason }) => console.log(lock, reason, maybe));
      return [hold?.token ?? 0n, [runCoordinator(client), verrouStore(client), TestCoordinator]];
    }`;
  const files = ["types.mts", "types.cts"].map((name) => join(project, name));
  for (const file of files) {
    writeFileSync(file, program);
  }
  await compile("--noEmit", ...files);
});
