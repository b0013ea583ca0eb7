// One session: whose it is, what it holds and what it waits for.

import { ofLock } from "../address.js";
import { storeNow } from "../clock.js";
import { h, say } from "../dom.js";
import { facts } from "../facts.js";
import { date, number, or, span } from "../format.js";
import { endSession } from "../operate.js";
import { poll } from "../poll.js";
import * as read from "../read.js";
import { listSessions } from "../sessions.js";
import { table } from "../table.js";
import { notice } from "./parts.js";

const INTERVAL = 2000;
/** Most locks that are shown, and most contended ones that are looked at for waits of the session. */
const MOST = 200;

export function session({ live, api, coordinators }, id) {
  let seen = null;
  let waits = [];
  const told = notice();
  const about = facts();
  const failure = h("p", { class: "failure", role: "alert" });
  const end = h("button", { type: "button", hidden: true, onclick: () => told.show(endSession(api(), seen)) }, "End the session");
  const held = table({
    label: "Locks that it holds",
    key: ({ lock, holder }) => `${lock.name}\0${holder.token}`,
    none: "None that are known here.",
    columns: [
      { title: "lock", text: ({ lock }) => lock.name, link: ({ lock }) => ofLock(lock.name) },
      { title: "token", text: ({ holder }) => holder.token },
      { title: "held for", text: ({ holder }) => span(holder.acquiredAt === null ? null : storeNow() - holder.acquiredAt) },
      { title: "waiting", text: ({ lock }) => number(lock.waiterCount) },
    ],
  });
  const awaited = table({
    label: "Locks that it waits for",
    key: ({ name, waiter }) => `${name}\0${waiter.number}`,
    none: "None that are known here.",
    columns: [
      { title: "lock", text: ({ name }) => name, link: ({ name }) => ofLock(name) },
      { title: "place", text: ({ waiter }) => waiter.position },
      { title: "waiting for", text: ({ waiter }) => span(waiter.waitingSince === null ? null : storeNow() - waiter.waitingSince) },
    ],
  });
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "way" }, h("a", { href: "#/sessions" }, "Sessions")),
    h("div", { class: "heading" }, h("h1", { tabindex: -1 }, `Session ${id.slice(0, 8)}`), end),
    failure,
    told.element,
    about.element,
    h("h2", {}, "Holds"),
    held.element,
    h("h2", {}, "Waits for"),
    awaited.element,
  );
  const update = () => {
    const holds = [];
    for (const lock of live.mirror.values()) {
      for (const holder of lock.holders) {
        if (holder.sessionId === id && holds.length < MOST) {
          holds.push({ lock, holder });
        }
      }
    }
    held.show(holds);
    awaited.show(waits);
  };
  async function findWaits() {
    const contended = [...live.mirror.values()].filter(({ waiterCount }) => waiterCount > 0).slice(0, MOST);
    const looks = await Promise.allSettled(contended.map(({ name }) => api().call("AdminService/GetLock", { name })));
    const locks = looks.filter(({ status }) => status === "fulfilled").map(({ value }) => read.lock(value.lock));
    const all = locks.flatMap(({ name, waiters }) => waiters.map((waiter) => ({ name, waiter })));
    waits = all.filter(({ waiter }) => waiter.sessionId === id);
  }
  const stop = poll(INTERVAL, async () => {
    try {
      const { sessions } = await listSessions(coordinators.apis);
      seen = sessions.find((one) => one.id === id) ?? null;
      end.hidden = seen === null;
      say(failure, seen ? "" : "No coordinator that this page knows has this session, or it has ended.");
      about.show(seen ? described(seen) : []);
      await (seen?.waiters ? findWaits() : (waits = []));
      update();
    } catch (error) {
      say(failure, `Failed to look at the session: ${error.message}`);
    }
  });
  return { title: `Session ${id.slice(0, 8)}`, element, update, tick: update, close: stop };
}

function described(session) {
  return [
    ["client", or(session.client)],
    ["id", session.id],
    ["identity", or(session.identity)],
    ["from", session.peer],
    ["coordinator", session.coordinator],
    ["opened", date(session.openedAt)],
    ["TTL", span(session.ttl)],
    ["last heartbeat", `${span(session.sinceHeartbeat)} ago`],
    ["locks", number(session.holds)],
    ["waits", number(session.waiters)],
    ["metadata", or(Object.entries(session.metadata).map(([key, value]) => `${key}: ${value}`).join(", "))],
  ];
}
