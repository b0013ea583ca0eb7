import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const PACKAGE = process.env["LEASEHOLD_NODE"] ?? "";
const FOLDER = "src/generated/leasehold/v1";
const hasBuf = existsSync(join(PACKAGE, "../../target/tools/node_modules/.bin/buf"));

test("the generated code is what proto/ says", { skip: !hasBuf && "run `make buf`" }, () => {
  const out = mkdtempSync(join(tmpdir(), "leasehold-generated-"));
  execFileSync(join(PACKAGE, "generate"), [out]);
  const files = readdirSync(join(out, FOLDER));
  assert.deepEqual(readdirSync(join(PACKAGE, FOLDER)), files);
  for (const file of files) {
    const isCurrent = readFileSync(join(out, FOLDER, file)).equals(
      readFileSync(join(PACKAGE, FOLDER, file)),
    );
    assert(isCurrent, `${file} is not what proto/ says: run \`make proto-node\``);
  }
  rmSync(out, { recursive: true });
});
