// All sessions of the coordinators that the page knows.

import { ofSession } from "../address.js";
import { h, say } from "../dom.js";
import { count, number, or, span } from "../format.js";
import { List } from "../list.js";
import { poll } from "../poll.js";
import { searchField } from "../search.js";
import { listSessions } from "../sessions.js";

const INTERVAL = 2000;

export function sessions({ coordinators }) {
  let known = [];
  let hasMore = false;
  const list = new List({
    kind: "sessions",
    label: "Sessions",
    key: ({ id }) => id,
    href: ({ id }) => ofSession(id),
    columns: [
      { id: "name", title: "client", text: ({ client, id }) => client || id.slice(0, 8) },
      { id: "identity", title: "identity", text: ({ identity }) => or(identity) },
      { id: "peer", title: "from", text: ({ peer }) => peer },
      { id: "coordinator", title: "coordinator", text: ({ coordinator }) => coordinator },
      { id: "locks", title: "locks", text: ({ holds }) => number(holds) },
      { id: "waiting", title: "waiting", text: ({ waiters }) => number(waiters) },
      { id: "open", title: "open for", text: ({ openedAt }) => span(Date.now() - openedAt) },
      { id: "beat", title: "heartbeat", text: ({ sinceHeartbeat }) => `${span(sinceHeartbeat)} ago` },
    ],
  });
  const prefix = searchField("", show);
  const found = h("p", { class: "found", role: "status" });
  const failure = h("p", { class: "failure", role: "alert" });
  const element = h(
    "div",
    { class: "page full" },
    h("h1", { tabindex: -1 }, "Sessions"),
    h("div", { class: "search" }, h("label", { for: "prefix" }, "Clients, identities or ids that begin with"), prefix, found),
    failure,
    list.element,
  );
  function show() {
    const matches = ({ client, identity, id }) => [client, identity, id].some((text) => text.startsWith(prefix.value));
    const shown = known.filter(matches);
    say(found, `${number(shown.length)} of ${count(known.length, "session")}${hasMore ? ", and more that are not read" : ""}`);
    list.show(shown);
  }
  const stop = poll(INTERVAL, async () => {
    try {
      const read = await listSessions(coordinators.apis);
      known = read.sessions.sort((one, other) => (one.client < other.client ? -1 : Number(one.client > other.client)));
      hasMore = read.hasMore;
      say(failure, "");
      show();
    } catch (error) {
      say(failure, `Failed to list the sessions: ${error.message}`);
    }
  });
  return { title: "Sessions", element, close: stop };
}
