// One election: its leader as observers see it, its candidates in order, and its leaders since the page was opened.

import { ofLock, ofSession } from "../address.js";
import { instant, storeNow } from "../clock.js";
import { h, say } from "../dom.js";
import { facts } from "../facts.js";
import { clock, date, or, span, value, who } from "../format.js";
import { look } from "../look.js";
import { endWait, releaseHolder } from "../operate.js";
import { table } from "../table.js";
import { notice, queueTable } from "./parts.js";

/** Most former leaders that are shown. */
const MOST = 100;
/** Rest before the election is observed again, in milliseconds. */
const REST = 1000;

export function election(app, name) {
  const { api } = app;
  const stopped = new AbortController();
  let leader = null;
  let seen = null;
  let isKnown = false;
  const terms = [];
  const told = notice();
  const about = facts();
  const failure = h("p", { class: "failure", role: "alert" });
  const release = () => told.show(releaseHolder(api(), seen, seen.holders[0]));
  const depose = h("button", { type: "button", hidden: true, onclick: release }, "Force release");
  const candidates = queueTable("Candidates", (waiter) => told.show(endWait(api(), seen, waiter)));
  const past = table({
    label: "Leaders since this page was opened",
    key: ({ id }) => id,
    none: "None yet.",
    columns: [
      { title: "seen", text: ({ at }) => clock(at) },
      { title: "leader", text: ({ leader }) => (leader ? who(leader) : "nobody") },
      { title: "token", text: ({ leader }) => or(leader?.fencingToken) },
      { title: "value", text: ({ leader }) => value(leader?.value) },
      { title: "remark", text: ({ skipped }) => (skipped ? "others may have led before" : or("")) },
    ],
  });
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "way" }, h("a", { href: "#/elections" }, "Elections")),
    h("div", { class: "heading" }, h("h1", { tabindex: -1 }, name), depose),
    failure,
    told.element,
    about.element,
    h("h2", {}, "Candidates"),
    candidates.element,
    h("h2", {}, "Leaders since this page was opened"),
    past.element,
  );
  const tick = () => {
    if (!isKnown) {
      return;
    }
    const session = leader?.sessionId ?? "";
    const since = leader?.electedAt ? instant(leader.electedAt) : null;
    about.show([
      ["leader", leader ? who(leader) : "nobody"],
      ["value", leader ? value(leader.value) : ""],
      ["token", leader?.fencingToken ?? ""],
      ["session", session.slice(0, 8), session && ofSession(session)],
      ["coordinator", leader?.coordinator ?? ""],
      ["elected", since === null ? "" : `${date(since)}, ${span(storeNow() - since)} ago`],
      ["as a lock", "holder, queue and history", ofLock(name)],
    ]);
    past.show(terms);
    depose.hidden = !seen?.holders.length;
    candidates.show(seen?.waiters ?? []);
  };
  observe(app, name, stopped.signal, (message, error) => {
    say(failure, error ? `Failed to observe the election: ${error.message}` : "");
    if (message) {
      leader = message.leader ?? null;
      isKnown = true;
      terms.unshift({ id: (terms[0]?.id ?? 0) + 1, at: Date.now(), leader, skipped: message.skipped ?? false });
      terms.splice(MOST);
      tick();
    }
  });
  const stopLooking = look(app, name, (lock) => {
    seen = lock ?? seen;
    tick();
  });
  const close = () => {
    stopped.abort();
    stopLooking();
  };
  return { title: name, element, tick, close };
}

/** Observes an election until `signal` is aborted, and calls `seen(message, error)`. */
async function observe({ api }, election, signal, seen) {
  while (!signal.aborted) {
    try {
      for await (const message of api().stream("ElectionService/Observe", { election }, signal)) {
        seen(message, null);
      }
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      seen(null, error);
      if (error.isFinal) {
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, REST));
  }
}
