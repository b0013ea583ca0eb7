import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEndpoints } from "../src/endpoints";
import { Route } from "../src/route";
import { randomFrom } from "./rig";

const CANDIDATES = parseEndpoints("a,b,c").map((endpoint) => ({ endpoint, address: "::1" }));

/** Returns a route whose order is the same for each seed. */
function seeded(seed: number): Route {
  const random = randomFrom(seed);
  return new Route(1, () => random(2 ** 32) / 2 ** 32);
}

/** Returns the hosts of a round, and notes that one has failed before it. */
function round(route: Route, now: number, failed?: string): string {
  for (const candidate of CANDIDATES.filter(({ endpoint }) => endpoint.host === failed)) {
    route.failed(candidate, now);
  }
  return route
    .round(CANDIDATES, now)
    .map(({ endpoint }) => endpoint.host)
    .join("");
}

test("what failed lately comes last", () => {
  const route = seeded(1);
  round(route, 1000, "a");
  round(route, 2000, "b");
  for (let again = 0; again < 10; again++) {
    assert.equal(round(route, 3000), "cab");
  }
  // The first of the two has been long enough ago.
  assert.match(round(route, 11_000), /b$/);
  assert.equal([...round(route, 30_000)].sort().join(""), "abc");
  assert(route.isSeveral);
});

test("clients of a coordinator that goes away spread over the others", () => {
  const moves = new Map<string, number>();
  for (let seed = 0; seed < 600; seed++) {
    const route = seeded(seed);
    const left = round(route, 0).slice(0, 1);
    const order = round(route, 1000, left);
    assert.equal(order.slice(2), left);
    const move = left + order.slice(0, 1);
    moves.set(move, (moves.get(move) ?? 0) + 1);
  }
  const counts = [...moves.values()];
  assert.equal(counts.length, 6);
  assert(Math.max(...counts) < 2 * Math.min(...counts), `${counts}`);
});
