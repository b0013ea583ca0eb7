// Recipes, which the documentation quotes. `test/readme.test.ts` runs them.
import assert from "node:assert/strict";
import { AcquireError, connect } from "leasehold";
import { TestCoordinator } from "leasehold/testing";

// recipe: lock
export async function charge(client, order, work) {
  await client.lock(`orders/${order}`).with(async (lock, signal) => {
    await work({ token: lock.token, signal }); // the signal is aborted if the lock is lost
  });
}
// end recipe

// recipe: try
export async function reportIfNobodyDoes(client, work) {
  await client.lock("report").with({ ifBusy: "skip" }, work);
}
// end recipe

// recipe: wait
export async function chargeSoon(client, order, work) {
  try {
    await client.lock(`orders/${order}`).with({ wait: 5000 }, work);
  } catch (error) {
    if (!(error instanceof AcquireError && error.kind === "timed_out")) {
      throw error;
    }
    console.log("still held by", error.holder?.clientName);
  }
}
// end recipe

// recipe: shared
export async function read(client, work) {
  await client.lock("catalogue", { shared: true }).with(work); // readers, together
}

export async function write(client, work) {
  await client.lock("catalogue").with(work); // a writer, alone
}
// end recipe

// recipe: semaphore
export async function callApi(client, work) {
  await client.semaphore("api", 10).with({ permits: 2 }, work); // 2 of the 10 that there are for all processes
}
// end recipe

// recipe: several
export async function transfer(client, from, to, work) {
  await client.locks([`accounts/${from}`, `accounts/${to}`]).with(work); // both or none, in any order
}
// end recipe

// recipe: election
export async function schedule(client, stop, lead) {
  const election = client.election("scheduler", { value: "10.0.0.7:8080" });
  await election.run({ signal: stop }, async (term, signal) => {
    await lead({ token: term.token, signal }); // until the signal is aborted; elected again after a loss
  });
}
// end recipe

// recipe: once-per-period
export async function oncePerHour(client, work) {
  const slot = await client.detachedLock("hourly/report", { ttl: 3_600_000 }).tryAcquire();
  if (!slot) {
    return; // somebody did it within the last hour
  }
  try {
    await work(); // the lock stays taken for the rest of the hour, also if this process ends
  } catch (error) {
    await slot.release(); // it failed: the next attempt may come at once
    throw error;
  }
}
// end recipe

// recipe: fencing
export async function save(client, database, row) {
  await client.lock(`rows/${row.id}`).with(async ({ token }) => {
    // Refuses a token that is smaller than the largest that it has seen for this row.
    const changed = await database.query(
      "UPDATE rows SET data = $1, token = $2 WHERE id = $3 AND token <= $2",
      [row.data, token, row.id],
    );
    if (changed === 0) {
      throw new Error("a later holder has written already");
    }
  });
}
// end recipe

// recipe: stop
export function stopOn(signalName, client) {
  process.once(signalName, async () => {
    await client.close(); // tells running work to stop, waits for it, and then hands its locks on
    process.exit(0);
  });
}
// end recipe

// recipe: unit-test
export async function testThatOrdersAreChargedOneByOne() {
  const coordinator = await TestCoordinator.start(); // in this process, with its locks in memory
  const client = await connect(coordinator.url);
  try {
    await charge(client, 42, async ({ signal }) => {
      assert.equal(coordinator.holders("orders/42").length, 1);
      coordinator.lose("orders/42");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }).then(assert.fail, (error) => assert.equal(error.reason, "forced"));
  } finally {
    await client.close();
    await coordinator.close();
  }
}
// end recipe
