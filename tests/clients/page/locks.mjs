// Locks appear, queue, pass on and vanish, in the list and on the page of one lock.

import { cell, entry, live, open, row, soon, soonGone } from "./browser.mjs";
import { check, until } from "./site.mjs";

export async function followLocks({ browser, site, api }) {
  await browser.use(site.open, async (page) => {
    await live(page);
    await open(page, "Locks");
    await page.getByLabel("Names that begin with").fill("live/");
    const name = "live/orders";

    const first = await api.acquire(name, "first", { value: Buffer.from("10.0.0.7").toString("base64") });
    await soon(cell(row(page, name), "holder", "first"));
    await soon(cell(row(page, name), "token", first.fencingToken));

    const second = api.acquire(name, "second", { wait: "20s" });
    await soon(cell(row(page, name), "waiting", /^1$/));

    await row(page, name).getByRole("link").click();
    await soon(entry(page, "Holders", "10.0.0.7"));
    await soon(entry(page, "Queue", "second"));
    await soon(entry(page, "History", "second waits for it"));

    await api.release(name, first);
    await soon(entry(page, "Holders", "second"));
    await soon(page.getByText("Nobody waits."));
    const granted = await second;
    await soon(entry(page, "History", `second holds it, with token ${granted.fencingToken}`));

    await page.goBack();
    await soon(cell(row(page, name), "holder", "second"));
    await api.release(name, granted);
    await soonGone(row(page, name));

    const readers = [];
    for (const reader of ["reader-1", "reader-2"]) {
      readers.push(await api.acquire("live/shared", reader, { mode: "LOCK_MODE_SHARED" }));
    }
    await soon(cell(row(page, "live/shared"), "holder", /^reader-1 and 1 other$/));
    await api.release("live/shared", readers[0]);
    await soon(cell(row(page, "live/shared"), "holder", /^reader-2$/));
    await api.release("live/shared", readers[1]);

    // One is renewed, and must not be counted down to nothing; the other is not.
    const { ownerId } = await api.acquire("live/renewed", "renewed", { ttl: "10s" });
    await api.acquire("live/short", "short", { ttl: "5s" });
    await soon(row(page, "live/short"));
    await api.call("LockService/Renew", { name: "live/renewed", ownerId, ttl: "300s" });
    await row(page, "live/short").waitFor({ state: "detached" });
    await cell(row(page, "live/renewed"), "left", /^4 m/).waitFor();
    await api.release("live/renewed", { ownerId });
    await page.getByText(/^0 of /).waitFor();
  });
}

/** The overview has both coordinators, rates, waits and hand-offs. */
export async function showOverview({ browser, site, api }) {
  await browser.use(site.open, async (page) => {
    await live(page);
    const serving = page.getByRole("cell", { name: "serving", exact: true });
    await until("two coordinators that serve", () => serving.count(), (found) => found === 2);
    await until("the total of coordinators", () => page.locator(".totals").textContent(), (text) => text.includes("2 of 2"));
    await entry(page, "Locks with the longest queues", "shop/orders").waitFor();

    // Events of other scenarios, which run beside this one, are shown as well.
    const first = await api.acquire("live/handed", "giver");
    const second = api.acquire("live/handed", "taker", { wait: "20s" });
    const queued = entry(page, "Last events", "taker waits for it");
    await soon(queued);
    await api.release("live/handed", first);
    await api.release("live/handed", await second);
    await soon(entry(page, "Last events", "taker has released it"));
    // What rounds to nothing is not shown as nothing.
    const times = await page.evaluate(async () => {
      const { latency } = await import("./format.js");
      return [0, 0.04, 0.06, 12.4].map(latency);
    });
    check(times.join() === "0 ms,< 0.1 ms,0.1 ms,12 ms", "times are shown by other texts", times);
    // The charts show whole seconds.
    const charts = page.getByRole("img");
    await until("grants in the chart", () => charts.nth(0).getAttribute("aria-label"), (label) => /at most [1-9]/.test(label));
    await until("waits in the chart", () => charts.nth(1).getAttribute("aria-label"), (label) => /median (< )?\d+(\.\d)? m?s/.test(label));
    await until("hand-offs in the chart", () => charts.nth(2).getAttribute("aria-label"), (label) => /median (< )?\d+(\.\d)? m?s/.test(label));
  });
}
