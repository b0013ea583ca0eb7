// Ten thousand locks, scrolled through, and gone through by keyboard.

import { live, open } from "./browser.mjs";
import { check } from "./site.mjs";

/** Fewest frames a second. */
const FEWEST = 30;
/** Runs of which the best counts: the machine has other work. */
const RUNS = 3;

export async function scroll({ browser, site }) {
  await browser.use(site.crowded, async (page) => {
    await live(page);
    await open(page, "Locks");
    await page.getByText(/^10,000 locks$/).waitFor();
    const runs = [];
    for (let run = 0; run < RUNS && (runs.at(-1)?.rate ?? 0) < FEWEST; run += 1) {
      runs.push(await page.evaluate(scrollDown));
    }
    const { rate, gaps, elements } = runs.at(-1);
    check(rate >= FEWEST, "too few frames a second", runs);
    check(gaps === 0, "frames showed no row where one was due", runs);
    check(elements < 200, "the list has an element for each lock", runs);
    // From any row to the last, and back to the first.
    await page.locator('.rows a[tabindex="0"]').focus();
    const steps = [["End", "crowd/09999"], ["ArrowUp", "crowd/09998"], ["Home", "crowd/00000"], ["PageDown", /crowd\/000[12]\d/]];
    for (const [key, name] of steps) {
      await page.keyboard.press(key);
      await page.locator(".rows a:focus", { hasText: name }).waitFor();
    }
    console.error(`scrolled at ${rate} frames a second, with ${elements} rows`);
  });
}

/** Scrolls for two seconds, in the page. Returns the rate of frames, and how many showed no row in the middle of the list. */
function scrollDown() {
  const viewport = document.querySelector(".viewport");
  const { left, top, height } = viewport.getBoundingClientRect();
  const start = performance.now();
  let [frames, gaps, elements] = [0, 0, 0];
  return new Promise((resolve) => {
    // Once a frame was shown, and before the next one.
    const step = () => {
      frames += 1;
      gaps += document.elementFromPoint(left + 30, top + height / 2)?.closest(".rows .row") ? 0 : 1;
      elements = Math.max(elements, document.querySelectorAll(".rows .row").length);
      const passed = performance.now() - start;
      if (passed >= 2000) {
        resolve({ rate: Math.round(frames / (passed / 1000)), gaps, elements });
        return;
      }
      const isAtEnd = viewport.scrollTop + viewport.clientHeight >= viewport.scrollHeight - 1;
      viewport.scrollTop = isAtEnd ? 0 : viewport.scrollTop + 900;
      requestAnimationFrame(() => setTimeout(step));
    };
    step();
  });
}
