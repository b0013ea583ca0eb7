// One lock: how it is held, by whom, who waits, and what has happened since the page was opened.

import { ofElection } from "../address.js";
import { h, say } from "../dom.js";
import { facts } from "../facts.js";
import { number, or, span } from "../format.js";
import { look } from "../look.js";
import { askToRelease, endWait, releaseAll, releaseHolder } from "../operate.js";
import { state } from "../words.js";
import { historyTable, holdersTable, notice, queueTable } from "./parts.js";

export function lock(app, name) {
  const { live, api } = app;
  let seen = null;
  const told = notice();
  const holders = holdersTable("Holders", (holder) => told.show(releaseHolder(api(), seen, holder)));
  const queue = queueTable("Queue", (waiter) => told.show(endWait(api(), seen, waiter)));
  const past = historyTable("History");
  const about = facts();
  const failure = h("p", { class: "failure", role: "alert" });
  const more = h("p", { class: "note" });
  const all = h("button", { type: "button", hidden: true, onclick: () => told.show(releaseAll(api(), seen)) }, "Force release of all");
  const ask = h("button", { type: "button", hidden: true, onclick: () => told.show(askToRelease(api(), seen)) }, "Ask to release");
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "way" }, h("a", { href: "#/locks" }, "Locks")),
    h("h1", { tabindex: -1 }, name),
    failure,
    told.element,
    about.element,
    h("div", { class: "heading" }, h("h2", {}, "Holders"), ask, all),
    holders.element,
    h("h2", {}, "Queue"),
    queue.element,
    more,
    h("h2", {}, "History since the page was opened"),
    past.element,
  );
  const tick = () => {
    if (seen) {
      show(seen);
    }
  };
  function show(lock) {
    about.show([
      ["state", state(lock)],
      ["newest token", lock.token === "0" ? or("") : lock.token],
      ["permits taken", lock.limit ? `${number(lock.permitsTaken)} of ${number(lock.limit)}` : ""],
      ["waiting", number(lock.waiterCount)],
      ["closed for", lock.closedUntil === null ? "" : span(lock.closedUntil - performance.now())],
      ["lock-delay", lock.lockDelay === null ? "" : span(lock.lockDelay)],
      ["as an election", "leader and candidates", ofElection(name)],
    ]);
    holders.show(lock.holders);
    queue.show(lock.waiters);
    ask.hidden = lock.holders.length === 0;
    all.hidden = lock.holderCount < 2;
    const unseen = lock.waiterCount - lock.waiters.length;
    say(more, unseen > 0 ? `${number(unseen)} more wait behind them.` : "");
  }
  const stop = look(app, name, (lock, error) => {
    say(failure, error ? `Failed to look at the lock: ${error.message}` : "");
    if (lock) {
      seen = lock;
      show(lock);
    }
  });
  return { title: name, element, update: () => past.show(live.history.of(name)), tick, close: stop };
}
