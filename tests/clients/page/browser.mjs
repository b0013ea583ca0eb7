// Chromium, with a watch on all that a page asks for and complains of.

import { chromium } from "playwright-core";

import { check, PATIENCE, SOON } from "./site.mjs";

export const PHONE = { width: 390, height: 844 };
export const SCREEN = { width: 1280, height: 800 };

export async function launch() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, headless: true, args: ["--no-sandbox"] });
  return {
    /** Opens the live page at an admin port, uses it, and checks that it has called `allowed` alone and had nothing to complain of. */
    async use({ admin, allowed, refusals = [], ...options }, scenario) {
      const context = await browser.newContext({ viewport: options.isPhone ? PHONE : SCREEN, ...options });
      try {
        context.setDefaultTimeout(PATIENCE);
        const page = await context.newPage();
        const complaints = watch(page, refusals);
        const strangers = new Set();
        // Those of frames, workers and preflights too.
        const network = await context.newCDPSession(page);
        network.on("Network.requestWillBeSent", ({ request }) => {
          const { origin, protocol } = new URL(request.url);
          if (protocol !== "data:" && ![admin, ...allowed].includes(origin)) {
            strangers.add(request.url);
          }
        });
        await network.send("Network.enable");
        await page.goto(`${admin}/`);
        await scenario(page);
        check(complaints.length === 0, "the console has complaints", complaints);
        check(strangers.size === 0, "the page called other hosts", [...strangers]);
      } finally {
        await context.close();
      }
    },
    close: () => browser.close(),
  };
}

/** Collects errors and warnings of a page. Chromium logs an error for each answer with a status of HTTP that is one. */
function watch(page, refusals) {
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => {
    const isExpected = refusals.some((status) => message.text().includes(`the server responded with a status of ${status} `));
    if (["error", "warning"].includes(message.type()) && !isExpected) {
      complaints.push(`${message.text()} ${message.location().url}`);
    }
  });
  return complaints;
}

/** Waits until the page is live. */
export const live = (page) => page.locator("#state", { hasText: /^live$/ }).waitFor();

/** Opens a view by its link in the navigation. */
export const open = (page, view) => page.getByRole("navigation").getByRole("link", { name: view, exact: true }).click();

/** Returns the row of a list that begins with a link of this name. */
export const row = (page, name) => page.locator(".rows .row", { has: page.getByRole("link", { name, exact: true }) });

/** Returns a cell with a text. Its column is a class in lists, and a title in tables. */
export const cell = (row, column, text) => row.locator(`.${column}, [data-title="${column}"]`, { hasText: text });

/** Returns the row of a table that has this text in a cell of its own. */
export function entry(page, label, text) {
  const table = page.getByRole("region", { name: label, exact: true });
  return table.getByRole("row").filter({ has: page.getByRole("cell", { name: text, exact: true }) });
}

/** Waits until an element is there, as soon as the page must show a change of a lock. */
export const soon = (locator) => locator.waitFor({ timeout: SOON });

/** Waits until an element is gone, as soon. */
export const soonGone = (locator) => locator.waitFor({ state: "detached", timeout: SOON });

/** Presses Tab until the element with the focus has this name, and fails if none has. */
export async function tabTo(page, name, { back = false } = {}) {
  const seen = [];
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press(back ? "Shift+Tab" : "Tab");
    const found = await page.evaluate(() => {
      const element = document.activeElement;
      return element.ariaLabel ?? element.labels?.[0]?.textContent ?? element.textContent;
    });
    if (found === name) {
      return;
    }
    seen.push(found.slice(0, 40));
  }
  check(false, `Tab does not lead to ${name}`, seen);
}
