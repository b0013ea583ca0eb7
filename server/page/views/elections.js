// Elections. An election is the exclusive lock of its name, and nothing marks it as one: shown are those whose holder has a value, as
// leaders do.

import { ofElection } from "../address.js";
import { storeNow } from "../clock.js";
import { h, say } from "../dom.js";
import { count, number, or, span, value } from "../format.js";
import { List } from "../list.js";
import { searchField } from "../search.js";
import { holders, oldest } from "../words.js";

const NOTE =
  "An election is an exclusive lock. Listed are those whose holder proclaims a value; any other can be opened by its name.";

export function elections({ live }) {
  const list = new List({
    kind: "elections",
    label: "Elections",
    key: ({ name }) => name,
    href: ({ name }) => ofElection(name),
    columns: [
      { id: "name", title: "election", text: ({ name }) => name },
      { id: "holder", title: "leader", text: holders },
      { id: "value", title: "value", text: (lock) => value(lock.holders[0]?.value) },
      { id: "token", title: "token", text: ({ token }) => token },
      { id: "held", title: "leads for", text: (lock) => span(oldest(lock) === null ? null : storeNow() - oldest(lock)) },
      { id: "waiting", title: "candidates", text: ({ waiterCount }) => number(waiterCount) },
    ],
  });
  const name = searchField("", update);
  name.required = true;
  const found = h("p", { class: "found", role: "status" });
  const open = (event) => {
    event.preventDefault();
    location.hash = ofElection(name.value);
  };
  const element = h(
    "div",
    { class: "page full" },
    h("h1", { tabindex: -1 }, "Elections"),
    h(
      "form",
      { class: "search", onsubmit: open },
      h("label", { for: "prefix" }, "Names that begin with"),
      name,
      h("button", { type: "submit" }, "Open"),
      found,
    ),
    h("p", { class: "note" }, NOTE),
    list.element,
  );
  const isElection = ({ mode, holders }) => mode === "LOCK_MODE_EXCLUSIVE" && Boolean(holders[0]?.value);
  function update() {
    const names = live.mirror.withPrefix(name.value);
    const shown = names.map((name) => live.mirror.get(name)).filter(isElection);
    say(found, shown.length === 0 ? or("none") : count(shown.length, "election"));
    list.show(shown);
  }
  return { title: "Elections", element, update, tick: () => list.render() };
}
