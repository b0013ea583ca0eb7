// Tables of one lock: its holders, its queue and its history.

import { ofSession } from "../address.js";
import { storeNow } from "../clock.js";
import { h, say } from "../dom.js";
import { clock, number, or, span, value, who, word } from "../format.js";
import { table } from "../table.js";
import { kind, sentence } from "../words.js";

const session = ({ sessionId }) => sessionId && ofSession(sessionId);
const shortId = ({ sessionId }) => or(sessionId.slice(0, 8));

/** Returns the table of holders, each with a button that calls `release(holder)`. */
export function holdersTable(label, release) {
  return table({
    label,
    key: ({ token, foreign }) => (foreign ? "foreign" : token),
    none: "Nobody.",
    columns: [
      { title: "client", text: who },
      { title: "session", text: shortId, link: session },
      { title: "coordinator", text: ({ coordinator }) => or(coordinator) },
      { title: "token", text: ({ token, foreign }) => or(!foreign && token) },
      { title: "held for", text: ({ acquiredAt }) => span(acquiredAt === null ? null : storeNow() - acquiredAt) },
      { title: "time left", text: ({ expires }) => span(expires === null ? null : expires - performance.now()) },
      { title: "permits", text: ({ permits }) => or(permits && number(permits)) },
      { title: "value", text: (holder) => value(holder.value) },
      { title: "operation", isUntitled: true, ...button("Force release", release, (holder) => `Force release: ${who(holder)}`) },
    ],
  });
}

/** Returns the table of waiters, each with a button that calls `end(waiter)`. */
export function queueTable(label, end) {
  return table({
    label,
    key: ({ number }) => number,
    none: "Nobody waits.",
    columns: [
      { title: "place", text: ({ position }) => position },
      { title: "client", text: who },
      { title: "session", text: shortId, link: session },
      { title: "coordinator", text: ({ coordinator }) => or(coordinator) },
      { title: "waiting for", text: ({ waitingSince }) => span(waitingSince === null ? null : storeNow() - waitingSince) },
      { title: "wants", text: ({ mode, permits }) => `${word("LOCK_MODE_", mode)}${permits ? ` (${number(permits)})` : ""}` },
      { title: "operation", isUntitled: true, ...button("End the wait", end, (waiter) => `End the wait: ${who(waiter)}`) },
    ],
  });
}

/** Returns the table of a lock's events. */
export function historyTable(label) {
  return table({
    label,
    key: ({ id }) => id,
    none: "Nothing since the page was opened.",
    columns: [
      { title: "time", text: ({ time }) => clock(time) },
      { title: "event", text: kind },
      { title: "what happened", text: sentence },
      { title: "waiting after it", text: ({ waiterCount }) => number(waiterCount) },
    ],
  });
}

/** Returns a column with a button for the row's item as it is when the button is used. */
function button(title, act, label) {
  const items = new WeakMap();
  return {
    node: () => h("button", { type: "button", onclick: ({ currentTarget }) => act(items.get(currentTarget)) }, title),
    fill: (cell, item) => {
      const element = cell.firstElementChild;
      items.set(element, item);
      element.ariaLabel = label(item);
    },
  };
}

/** Returns a region that says what came of an operation. */
export function notice() {
  const element = h("p", { class: "notice", role: "status" });
  return { element, show: async (result) => say(element, (await result) ?? "") };
}
