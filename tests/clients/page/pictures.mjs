// Pictures of the page for its documentation, written where PICTURES says.

import { join } from "node:path";

import { live, open, PHONE, row, SCREEN } from "./browser.mjs";

const LOOKS = [
  ["light", { colorScheme: "light" }, SCREEN],
  ["dark", { colorScheme: "dark" }, SCREEN],
  ["phone", { colorScheme: "light" }, PHONE],
];

/** Time until the charts are full, in milliseconds. */
const TRAFFIC = 180_000;

export async function takePictures({ browser, site, api }, folder) {
  await browser.use(site.open, async (page) => {
    await live(page);
    const stop = busy(api);
    await page.waitForTimeout(TRAFFIC);
    const shoot = async (name) => {
      for (const [look, options, size] of LOOKS) {
        await page.emulateMedia(options);
        await page.setViewportSize(size);
        // Until what is looked up is there.
        await page.waitForTimeout(1500);
        await page.screenshot({ path: join(folder, `${name}-${look}.png`) });
      }
      await page.setViewportSize(SCREEN);
    };
    await shoot("overview");
    for (const view of ["Locks", "Sessions", "Events"]) {
      await open(page, view);
      await shoot(view.toLowerCase());
    }
    await open(page, "Elections");
    await shoot("elections");
    await row(page, "captain").getByRole("link").click();
    await shoot("election");
    await open(page, "Locks");
    await row(page, "shop/stock-1").getByRole("link").click();
    await shoot("lock");
    await open(page, "Locks");
    await row(page, "shop/orders").getByRole("link").click();
    await page.getByRole("button", { name: "Force release: checkout-1" }).click();
    await shoot("release");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Access" }).click();
    await shoot("access");
    await stop();
  });
}

/** Lets clients take and hand on some locks, until the returned function is called. */
function busy(api) {
  let isOver = false;
  const client = async (number) => {
    while (!isOver) {
      const name = `shop/stock-${number % 3}`;
      const granted = await api.acquire(name, `seller-${number}`, { wait: "20s" });
      await new Promise((resolve) => setTimeout(resolve, 20 + 60 * Math.random()));
      await api.release(name, granted);
      await new Promise((resolve) => setTimeout(resolve, 100 * Math.random()));
    }
  };
  const clients = Array.from({ length: 12 }, (_, number) => client(number));
  return () => {
    isOver = true;
    return Promise.all(clients);
  };
}
