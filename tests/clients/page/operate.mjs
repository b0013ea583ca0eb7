// Force releases, ends of sessions and requests to release, with and without the permission.

import { entry, live, open, row } from "./browser.mjs";
import { check, until } from "./site.mjs";

/** What the page says when it asks for a token by itself. */
const ASKED = "The coordinator answers callers with a token only.";

const dialog = (page) => page.getByRole("dialog");

export async function forceRelease({ browser, site, api }) {
  await browser.use(site.open, async (page) => {
    const name = "live/forced";
    const [first, second] = [await api.acquire(name, "first"), api.acquire(name, "second", { wait: "20s" })];
    await live(page);
    await page.goto(`${site.open.admin}/page/#/lock/${encodeURIComponent(name)}`);
    await entry(page, "Queue", "second").waitFor();

    // Another thought.
    await page.getByRole("button", { name: "Force release: first" }).click();
    await dialog(page).getByText(`Take ${name} from first?`).waitFor();
    await dialog(page).getByText(first.fencingToken).waitFor();
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({ state: "detached" });
    check(await api.holder(name) === "first", "a dialog that was left does nothing");

    await page.getByRole("button", { name: "Force release: first" }).click();
    await dialog(page).getByRole("button", { name: "Force release" }).click();
    await page.getByText(`${name} was taken from first.`).waitFor();
    await entry(page, "Holders", "second").waitFor();
    await entry(page, "History", "an operator took it from first").waitFor();

    // The one that the dialog names, and nobody who has followed.
    await page.getByRole("button", { name: "Force release: second" }).click();
    await api.release(name, await second);
    const third = await api.acquire(name, "third");
    await dialog(page).getByRole("button", { name: "Force release" }).click();
    await page.getByText(`second did not hold ${name} any more.`).waitFor();
    check(await api.holder(name) === "third", "the next holder keeps the lock");

    const fourth = api.acquire(name, "fourth", { wait: "20s" }).catch((error) => error);
    await page.getByRole("button", { name: "End the wait: fourth" }).click();
    await dialog(page).getByRole("button", { name: "End the wait" }).click();
    await page.getByText("The wait of fourth was ended.").waitFor();
    check(`${await fourth}`.includes("FORCE_RELEASED"), "the wait has failed", `${await fourth}`);
    await api.release(name, third);
  });
}

/** The holder is asked, and a session is ended with all that it has. */
export async function endSession({ browser, site, api }) {
  await browser.use(site.open, async (page) => {
    await live(page);
    await open(page, "Sessions");
    await page.getByLabel("Clients, identities or ids that begin with").fill("doomed");
    await row(page, "doomed").getByRole("link").click();
    await entry(page, "Locks that it holds", "doomed/lock").getByRole("link", { name: "doomed/lock" }).click();
    await page.getByRole("button", { name: "Ask to release" }).click();
    await dialog(page).getByLabel("Reason, for the holders").fill("maintenance");
    await dialog(page).getByRole("button", { name: "Ask" }).click();
    await page.getByText("1 holder asked to release doomed/lock.").waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "End the session" }).click();
    await dialog(page).getByText("End the session of doomed?").waitFor();
    await dialog(page).getByRole("button", { name: "End the session" }).click();
    // It takes about a second.
    await page.getByText("The session was ended, and 1 lock with it.").waitFor({ timeout: 5000 });
    check(await api.holder("doomed/lock") === undefined, "its lock is free");
  });
}

export async function followElection({ browser, site, api }) {
  await browser.use(site.open, async (page) => {
    await live(page);
    await open(page, "Elections");
    await row(page, "captain").getByRole("link").click();
    await entry(page, "Candidates", "node-2").waitFor();
    await entry(page, "Leaders since this page was opened", "node-1").waitFor();
    await page.getByRole("button", { name: "Force release" }).click();
    await dialog(page).getByText("Take captain from node-1?").waitFor();
    await dialog(page).getByRole("button", { name: "Force release" }).click();
    await entry(page, "Leaders since this page was opened", "node-2").waitFor();
    const next = await until("the next leader", () => api.holder("captain"), (holder) => holder === "node-2");
    check(next === "node-2", "the next candidate leads");
  });
}

/** Permissions are the API's: without a token nothing is shown, and one that may only inspect releases nothing. */
export async function obeyPermissions({ browser, site, api }) {
  const name = "live/kept";
  const held = await api.acquire(name, "keeper");
  await browser.use({ ...site.secured, refusals: [401, 403] }, async (page) => {
    const use = async (token, prefix) => {
      await dialog(page).getByLabel("Bearer token").fill(token);
      await dialog(page).getByLabel("Watch only locks").fill(prefix);
      await dialog(page).getByRole("button", { name: "Use" }).click();
    };
    // It asks by itself.
    await dialog(page).getByText(ASKED).waitFor();
    await use(site.viewer, "");
    await live(page);
    await page.goto(`${site.secured.admin}/page/#/lock/${encodeURIComponent(name)}`);
    const release = page.getByRole("button", { name: "Force release: keeper" });
    await release.click();
    await dialog(page).getByRole("button", { name: "Force release" }).click();
    await dialog(page).getByText(/^Refused: .*administer/).waitFor();
    check(await api.holder(name) === "keeper", "a refused release changes nothing");
    await page.keyboard.press("Escape");

    // The tab keeps the token over a reload, and no other tab has it.
    await page.reload();
    await live(page);
    const other = await page.context().newPage();
    // Whichever call is refused first, it says why it asks.
    await other.route(/WatchLocks/, (route) => setTimeout(() => route.continue(), 500));
    await other.goto(page.url());
    await dialog(other).getByText(ASKED).waitFor();
    await other.close();
    const kept = await page.evaluate(() => [document.cookie, localStorage.length]);
    check(kept[0] === "" && kept[1] === 0, "the token is kept for the tab alone", kept);

    // One that may inspect some locks only.
    await page.getByRole("button", { name: "Access" }).click();
    await use(site.partial, "");
    await page.getByText(/A token that may inspect some locks only needs their prefix/).waitFor();
    await page.getByRole("button", { name: "Access" }).click();
    await use(site.partial, "live/");
    await live(page);

    await page.getByRole("button", { name: "Access" }).click();
    await use(site.operator, "");
    await live(page);
    await release.click();
    await dialog(page).getByRole("button", { name: "Force release" }).click();
    await page.getByText(`${name} was taken from keeper.`).waitFor();
    check(await api.holder(name) === undefined, "the lock is free");
  });
  const { released } = await api.release(name, held);
  check(!released, "the former holder has nothing to release");
}
