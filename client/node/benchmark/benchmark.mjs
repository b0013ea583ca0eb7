/**
 * Measures this library, and node-redlock beside it, for the benchmark "libraries" of the repository.
 *
 *     benchmark.mjs LIBRARY WORK ENDPOINT CLIENTS SECONDS
 *
 * LIBRARY is leasehold or redlock; ENDPOINT is the URL of what it talks to. With the WORK cycles, each of the CLIENTS tasks acquires and
 * releases a lock of its own; with handoff, all want one lock. They share one client. After half a second of warm-up it measures for so
 * many SECONDS, and prints one JSON array: the times of all cycles in microseconds, or [token, granted, releasing] of each hold, in
 * microseconds of CLOCK_MONOTONIC.
 *
 * @module
 */

import { Redis } from "ioredis";
import Redlock from "redlock";
import { AcquireError, connect } from "../index.mjs";

/** In microseconds. */
const WARM_UP = 500_000;
/** Longer than any run, in milliseconds, so that no renewal is among what is measured. */
const TTL = 300_000;

/** Returns the time in microseconds on the clock that all processes of the machine share. */
function now() {
  return Math.floor(Number(process.hrtime.bigint()) / 1000);
}

/** Opens a library. Its `acquire` waits for no longer than the given milliseconds, and returns null if they have passed. */
async function open(library, endpoint) {
  if (library === "leasehold") {
    const client = await connect(endpoint, { ttl: TTL });
    const acquire = async (name, wait) => {
      try {
        const hold = await client.lock(name).acquire({ wait });
        return { token: Number(hold.token), release: () => hold.release() };
      } catch (error) {
        if (error instanceof AcquireError && error.kind === "timed_out") {
          return null;
        }
        throw error;
      }
    };
    return { acquire, close: () => client.close() };
  }
  const redis = new Redis(endpoint);
  // It pauses for 0.2 s between attempts, and by default gives up after ten.
  const locks = new Redlock([redis], { retryCount: -1 });
  const acquire = async (name) => {
    const lock = await locks.acquire([name], TTL);
    return { token: 0, release: () => lock.release() };
  };
  return { acquire, close: () => redis.quit() };
}

/** Measures acquires with their releases on a lock of its own. Returns their times. */
async function cycles({ acquire }, client, from, until) {
  const name = `bench/${process.pid}/${client}`;
  const times = [];
  for (;;) {
    const began = now();
    const { release } = await acquire(name);
    await release();
    const ended = now();
    if (ended >= until) {
      return times;
    }
    if (ended >= from) {
      times.push(ended - began);
    }
  }
}

/** Wants one lock with the others. Returns the token of each hold, when it was granted, and when its release began. */
async function handOffs({ acquire }, _client, from, until) {
  const holds = [];
  for (let left = until - now(); left > 0; left = until - now()) {
    const hold = await acquire("bench/contended", Math.ceil(left / 1000));
    if (!hold) {
      break;
    }
    const granted = now();
    await hold.release();
    if (granted >= from) {
      holds.push([hold.token, granted, granted]);
    }
  }
  return holds;
}

const [library, work, endpoint, clients, seconds] = process.argv.slice(2);
const use = await open(library, endpoint);
const from = now() + WARM_UP;
const until = from + Number(seconds) * 1e6;
const measure = work === "cycles" ? cycles : handOffs;
const parts = await Promise.all(
  Array.from({ length: Number(clients) }, (_, client) => measure(use, client, from, until)),
);
await use.close();
process.stdout.write(JSON.stringify(parts.flat()));
