// Stream of events of all locks, the newest first.

import { ofLock } from "../address.js";
import { h, say } from "../dom.js";
import { clock, count, number } from "../format.js";
import { List } from "../list.js";
import { searchField } from "../search.js";
import { kind, sentence } from "../words.js";

export function events({ live, search }) {
  let isPaused = false;
  let shown = [];
  const list = new List({
    kind: "events",
    label: "Events, the newest first",
    key: ({ id }) => id,
    href: ({ name }) => ofLock(name),
    columns: [
      { id: "name", title: "lock", text: ({ name }) => name },
      { id: "time", title: "time", text: ({ time }) => clock(time) },
      { id: "kind", title: "event", text: kind },
      { id: "sentence", title: "what happened", text: sentence },
      { id: "waiting", title: "waiting", text: ({ waiterCount }) => number(waiterCount) },
    ],
  });
  const prefix = searchField(search.prefix, (text) => {
    search.prefix = text;
    show();
  });
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.ariaPressed = `${isPaused}`;
    update();
  } }, "Pause");
  const found = h("p", { class: "found" });
  const element = h(
    "div",
    { class: "page full" },
    h("h1", { tabindex: -1 }, "Events"),
    h("div", { class: "search" }, h("label", { for: "prefix" }, "Names that begin with"), prefix, pause, found),
    list.element,
  );
  function show() {
    const chosen = shown.filter(({ name }) => name.startsWith(prefix.value));
    say(found, `${number(chosen.length)} of the last ${count(shown.length, "event")}`);
    list.show(chosen);
  }
  function update() {
    if (!isPaused) {
      shown = live.history.newest();
      show();
    }
  }
  return { title: "Events", element, update };
}
