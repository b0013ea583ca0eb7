// Everything by keyboard alone.

import { entry, live, tabTo } from "./browser.mjs";
import { check } from "./site.mjs";

const focused = (page) => page.evaluate(() => document.activeElement.textContent);

export async function useKeyboard({ browser, site, api }) {
  const names = ["a", "b", "c"].map((letter) => `keys/${letter}`);
  await Promise.all(names.map((name) => api.acquire(name, `client of ${name}`)));
  await browser.use(site.open, async (page) => {
    const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    await live(page);
    // Past the navigation, by the first stop.
    await tabTo(page, "Skip to the content");
    await press("Enter");
    check(await page.evaluate(() => document.activeElement.id === "main"), "the link skips to the content");

    await tabTo(page, "Locks", { back: true });
    await press("Enter");
    await page.getByRole("heading", { name: "Locks", exact: true }).waitFor();
    check(await focused(page) === "Locks", "the focus is on the heading of the new view", await focused(page));
    await tabTo(page, "Names that begin with");
    await page.keyboard.type("keys/");
    await page.getByText(/^3 of /).waitFor();
    await tabTo(page, "waiting");
    await press("Enter");
    await page.getByRole("columnheader", { name: "waiting" }).and(page.locator('[aria-sort="descending"]')).waitFor();
    await tabTo(page, "lock", { back: true });
    await press("Enter");
    await page.getByRole("columnheader", { name: "lock" }).and(page.locator('[aria-sort="ascending"]')).waitFor();

    // One stop for the list, and arrows within it.
    await tabTo(page, "keys/a");
    await press("ArrowDown", "ArrowDown");
    check(await focused(page) === "keys/c", "arrows move in the list", await focused(page));
    await press("Home", "ArrowDown");
    check(await focused(page) === "keys/b", "Home leads to the first row", await focused(page));
    await press("Enter");
    await entry(page, "Holders", "client of keys/b").waitFor();
    await tabTo(page, "Force release: client of keys/b");
    await press("Enter");
    await page.getByRole("dialog").waitFor();
    check(await focused(page) === "Cancel", "the dialog begins with the harmless button", await focused(page));
    await tabTo(page, "Force release", { back: true });
    await press("Enter");
    await page.getByText("keys/b was taken from client of keys/b.").waitFor();
    check(await api.holder("keys/b") === undefined, "the lock is free");
  });
}
