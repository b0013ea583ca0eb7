// Overview: totals, rates, coordinators, the locks that most clients wait for, and the last events.

import { ofLock } from "../address.js";
import { chart } from "../chart.js";
import { h, say, set } from "../dom.js";
import { clock, latency, number, or, span } from "../format.js";
import { quantile } from "../rates.js";
import { table } from "../table.js";
import { holders, kind, sentence } from "../words.js";

const BUSIEST = 5;
const EVENTS = 8;
const MARKS = { serving: "good", "not serving": "bad", "out of reach": "bad", refused: "bad" };
const STORE_STATES = { STORE_STATE_UP: "up", STORE_STATE_DOWN: "down" };

export function overview({ live, coordinators }) {
  const totals = ["locks", "waiting", "sessions", "coordinators"].map((name) => {
    const value = h("b");
    return { value, element: h("li", {}, value, h("span", {}, name)) };
  });
  const rate = (value) => (value === null ? or("") : `${number(value)}/s`);
  const grants = chart({ title: "Grants and waits", lines: ["granted", "queued"], format: rate });
  const waits = chart({ title: "Time waited until the grant", lines: ["median", "99 %"], format: latency });
  const handoffs = chart({ title: "Hand-off: end of a hold to next grant", lines: ["median", "99 %"], format: latency });
  const known = table({
    label: "Coordinators",
    key: ({ url }) => url,
    none: "None.",
    columns: [
      { title: "coordinator", text: ({ id, url }) => id || url },
      { title: "state", text: ({ state }) => state ?? "asking", fill: (cell, { state }) => set(cell, "class", MARKS[state]) },
      { title: "store", text: ({ store }) => or(store) },
      { title: "store is", text: ({ storeState }) => or(STORE_STATES[storeState]) },
      { title: "answers in", text: ({ answeredIn }) => latency(answeredIn ?? null) },
      { title: "sessions", text: ({ sessions }) => or(sessions && number(sessions)) },
      { title: "holds", text: ({ holds }) => or(holds && number(holds)) },
      { title: "waiting", text: ({ waiters }) => or(waiters && number(waiters)) },
      { title: "up for", text: ({ uptime }) => span(uptime ?? null) },
      { title: "version", text: ({ version }) => or(version) },
      { title: "remark", text: (one) => or(one.reason || one.error?.message) },
    ],
  });
  const others = h("p", { class: "note" });
  const busiest = table({
    label: "Locks with the longest queues",
    key: ({ name }) => name,
    none: "Nobody waits.",
    columns: [
      { title: "lock", text: ({ name }) => name, link: ({ name }) => ofLock(name) },
      { title: "holder", text: holders },
      { title: "waiting", text: ({ waiterCount }) => number(waiterCount) },
    ],
  });
  const events = table({
    label: "Last events",
    key: ({ id }) => id,
    none: "Nothing has happened since the page was opened.",
    columns: [
      { title: "time", text: ({ time }) => clock(time) },
      { title: "event", text: kind },
      { title: "lock", text: ({ name }) => name, link: ({ name }) => ofLock(name) },
      { title: "what happened", text: sentence },
    ],
  });
  const element = h(
    "div",
    { class: "page" },
    h("h1", { tabindex: -1 }, "Overview"),
    h("ul", { class: "totals" }, totals.map((total) => total.element)),
    h("div", { class: "charts" }, grants.element, waits.element, handoffs.element),
    h("h2", {}, "Coordinators"),
    known.element,
    others,
    h("h2", {}, "Locks with the longest queues"),
    busiest.element,
    h("h2", {}, "Last events"),
    events.element,
  );
  const update = () => {
    const list = coordinators.list;
    const locks = [...live.mirror.values()];
    const waiting = locks.reduce((sum, { waiterCount }) => sum + waiterCount, 0);
    const sessions = list.reduce((sum, { sessions = 0 }) => sum + Number(sessions), 0);
    const serving = list.filter(({ state }) => state === "serving").length;
    [number(live.mirror.size), number(waiting), number(sessions), `${serving} of ${list.length}`].forEach((text, place) => {
      say(totals[place].value, text);
    });
    known.show(list);
    say(others, strangers(locks, list));
    const queued = locks.filter(({ waiterCount }) => waiterCount > 0);
    busiest.show(queued.sort((one, other) => other.waiterCount - one.waiterCount).slice(0, BUSIEST));
    events.show(live.history.newest(EVENTS));
  };
  const tick = () => {
    const { rates } = live;
    grants.update([rates.series(({ grants }) => grants), rates.series(({ queued }) => queued)]);
    for (const [drawn, name] of [[waits, "waits"], [handoffs, "handoffs"]]) {
      drawn.update([0.5, 0.99].map((share) => rates.series((second) => quantile(second[name], share))));
    }
  };
  return { title: "Overview", element, update, tick };
}

/** Returns a sentence about coordinators that have locks, but that the page does not know how to reach. */
function strangers(locks, list) {
  const ids = new Set(locks.flatMap((lock) => lock.holders.map(({ coordinator }) => coordinator)));
  const unknown = [...ids].filter((id) => id && !list.some((one) => one.id === id));
  if (unknown.length === 0 || list.some(({ id }) => id === undefined)) {
    return "";
  }
  const shown = unknown.sort().slice(0, BUSIEST).join(", ") + (unknown.length > BUSIEST ? " and others" : "");
  return `Locks were also granted by ${shown}. To see them here, name all in page-coordinators.`;
}
