// All locks, by prefix, in a list of any length.

import { ofLock } from "../address.js";
import { storeNow } from "../clock.js";
import { h, say } from "../dom.js";
import { count, number, or, span } from "../format.js";
import { List } from "../list.js";
import { poll } from "../poll.js";
import * as read from "../read.js";
import { searchField } from "../search.js";
import { holders, left, oldest, state } from "../words.js";

/** Interval of looks at the locks in view, in milliseconds: how long their holders have left is in no event. */
const LOOK = 2000;
/** Most locks that are looked at. */
const MOST = 60;

/** Columns by which the list can be sorted, and what comes first. */
const ORDERS = {
  waiting: { direction: "descending", compare: (one, other) => other.waiterCount - one.waiterCount },
  held: { direction: "ascending", compare: (one, other) => (oldest(one) ?? Infinity) - (oldest(other) ?? Infinity) },
};

export function locks({ live, api, search }) {
  let order = "name";
  const of = (text) => (name) => {
    const lock = live.mirror.get(name);
    return lock ? text(lock) : "";
  };
  const list = new List({
    kind: "locks",
    label: "Locks",
    key: (name) => name,
    href: ofLock,
    sort: (id) => {
      order = id;
      update();
    },
    columns: [
      { id: "name", title: "lock", text: (name) => name, sorted: true },
      { id: "state", title: "held", text: of(state) },
      { id: "holder", title: "holder", text: of(holders) },
      { id: "token", title: "token", text: of(({ token }) => (token === "0" ? or("") : token)) },
      { id: "held", title: "held for", text: of((lock) => span(heldFor(lock))), sorted: true },
      { id: "left", title: "time left", text: of((lock) => span(left(lock))) },
      { id: "waiting", title: "waiting", text: of(({ waiterCount }) => number(waiterCount)), sorted: true },
    ],
  });
  const prefix = searchField(search.prefix, (text) => {
    search.prefix = text;
    list.viewport.scrollTop = 0;
    update();
  });
  const found = h("p", { class: "found", role: "status" });
  const element = h(
    "div",
    { class: "page full" },
    h("h1", { tabindex: -1 }, "Locks"),
    h("div", { class: "search" }, h("label", { for: "prefix" }, "Names that begin with"), prefix, found),
    list.element,
  );
  function update() {
    let names = live.mirror.withPrefix(prefix.value);
    const chosen = ORDERS[order];
    if (chosen) {
      const found = names.map((name) => live.mirror.get(name));
      names = found.sort(chosen.compare).map(({ name }) => name);
    }
    list.sortedBy(order, chosen?.direction ?? "ascending");
    say(found, prefix.value ? `${number(names.length)} of ${count(live.mirror.size, "lock")}` : count(names.length, "lock"));
    list.show(names);
  }
  const stop = poll(LOOK, async () => {
    const looks = list.inView.slice(0, MOST).map(async (name) => {
      const { lock } = await api().call("AdminService/GetLock", { name });
      live.mirror.renewed(read.lock(lock));
    });
    // The list stays as it is where a look fails; the page says if it is not live.
    await Promise.allSettled(looks);
  });
  return { title: "Locks", element, update, tick: () => list.render(), close: stop };
}

function heldFor(lock) {
  const since = oldest(lock);
  return since === null ? null : storeNow() - since;
}
