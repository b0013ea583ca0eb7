// Uses the live page in Chromium. Reads the site as JSON from its standard input, and prints a line for each scenario that it went
// through. CHROMIUM is the path of the browser; with PICTURES, a folder, it takes pictures instead.

import { json } from "node:stream/consumers";

import { launch } from "./browser.mjs";
import { findNoFaults } from "./faults.mjs";
import { useKeyboard } from "./keyboard.mjs";
import { followLocks, showOverview } from "./locks.mjs";
import { endSession, followElection, forceRelease, obeyPermissions } from "./operate.mjs";
import { takePictures } from "./pictures.mjs";
import { scroll } from "./scroll.mjs";
import { caller } from "./site.mjs";

/** Scenarios that run beside one another, each list in its order. What is measured runs alone before. */
const FIRST = [scroll];
const LANES = [
  [followLocks, forceRelease, useKeyboard, obeyPermissions],
  [findNoFaults, showOverview, followElection, endSession],
];

const site = await json(process.stdin);
const world = { browser: await launch(), site, api: caller(site.open.allowed[0]) };
if (process.env.PICTURES) {
  await takePictures(world, process.env.PICTURES);
} else {
  await run(FIRST);
  await Promise.all(LANES.map(run));
}
process.exit();

async function run(scenarios) {
  for (const scenario of scenarios) {
    const start = performance.now();
    try {
      await scenario(world);
    } catch (error) {
      throw new Error(`${scenario.name} failed`, { cause: error });
    }
    console.error(`${scenario.name}: ${((performance.now() - start) / 1000).toFixed(1)} s`);
    console.log(scenario.name);
  }
}
