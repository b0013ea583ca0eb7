// Faults that axe finds in each view and dialog, light and dark, on a screen and on a phone.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

import { live } from "./browser.mjs";
import { check } from "./site.mjs";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const SERIOUS = ["serious", "critical"];
/** Options of the page, and the rules that can differ then from the first look, which all are for. */
const LOOKS = [
  [{}],
  [{ colorScheme: "dark" }, ["color-contrast"]],
  [{ isPhone: true }, ["color-contrast", "aria-required-children", "scrollable-region-focusable", "target-size"]],
];

export async function findNoFaults({ browser, site, api }) {
  const source = await readFile(AXE, "utf8");
  const { lock } = await api.call("AdminService/GetLock", { name: "shop/orders" });
  const session = lock.holders[0].sessionId;
  const views = ["", "locks", "lock/shop%2Forders", "sessions", `session/${session}`, "elections", "election/captain", "events"];
  for (const [look, rules] of LOOKS) {
    await browser.use({ ...site.open, ...look }, async (page) => {
      await live(page);
      await api.release("live/event", await api.acquire("live/event", "somebody"));
      await page.evaluate(source);
      const findNone = async (where) => {
        const { violations } = await page.evaluate(
          (rules) => globalThis.axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) }),
          rules,
        );
        const serious = violations.filter(({ impact }) => SERIOUS.includes(impact));
        const found = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`);
        check(serious.length === 0, `axe finds serious faults in ${where} ${JSON.stringify(look)}`, found);
        const isWide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        check(!isWide, `${where} is wider than the window`);
      };
      for (const view of views) {
        await page.evaluate((view) => { location.hash = `#/${view}`; }, view);
        await page.locator(".none:visible, .rows .row, tbody tr").first().waitFor();
        await findNone(`#/${view}`);
      }
      await page.getByRole("button", { name: "Access" }).click();
      await findNone("the dialog of access");
      await page.keyboard.press("Escape");
      await page.evaluate(() => { location.hash = "#/lock/shop%2Forders"; });
      await page.getByRole("button", { name: /^Force release: / }).click();
      await findNone("the dialog of a release");
    });
  }
}
