import assert from "node:assert/strict";
import { uptime } from "node:os";
import { test } from "node:test";
import { CLOCK_ERROR, now, skew } from "../src/clock";

test("the clock is the one that counts suspension, and never ahead of it", {
  skip: process.platform !== "linux" && "on Linux the clock is that of the uptime",
}, () => {
  for (let i = 0; i < 1000; i++) {
    const before = uptime() * 1000;
    const clock = now();
    const after = uptime() * 1000;
    // The uptime has steps of 10 ms, rounded down.
    assert(clock >= before - CLOCK_ERROR, `${clock} is behind ${before}`);
    assert(clock <= after + 10.1, `${clock} is ahead of ${after}`);
  }
});

test("the clock never goes back, and can be moved", () => {
  let last = now();
  for (let i = 0; i < 10_000; i++) {
    const next = now();
    assert(next >= last);
    last = next;
  }
  skew(3_600_000);
  assert(now() - last >= 3_600_000);
  skew(-3_600_000);
});
