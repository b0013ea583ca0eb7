import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultClientName, nameOf } from "../src/client-name";

test("default names are bounded and have no control characters", () => {
  assert.equal(nameOf("billing", "vm", 7), "billing@vm/7");
  assert.equal(nameOf("b\n\x7f\x85ill", "", 7), "bill@unknown/7");
  const long = nameOf("é".repeat(300), "h".repeat(300), 7);
  assert.equal(long, `${"é".repeat(16)}@${"h".repeat(64)}/7`);
  assert(defaultClientName().endsWith(`/${process.pid}`));
});
