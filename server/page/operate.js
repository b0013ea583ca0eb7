// What an operator may do to a lock or a session, each with a confirmation that names whom it concerns.

import { confirm } from "./confirm.js";
import { count, who } from "./format.js";

const MOST_REASON = 256;

/** Takes a lock from one holder. */
export function releaseHolder(api, lock, holder) {
  const whose = described(holder);
  const waits = lock.waiterCount === 1 ? "waits" : "wait";
  const next = lock.waiterCount > 0 ? `${count(lock.waiterCount, "client")} ${waits}: the next gets it.` : "Nobody waits for it.";
  const only = holder.foreign ? {} : { fencingToken: holder.token };
  return confirm({
    title: `Take ${lock.name} from ${who(holder)}?`,
    text: [`It is held by ${whose}.`, `The holder is told, and must stop its work. ${next}`],
    action: "Force release",
    act: async () => {
      const { released } = await api.call("AdminService/ForceRelease", { name: lock.name, ...only });
      return released ? `${lock.name} was taken from ${who(holder)}.` : `${who(holder)} did not hold ${lock.name} any more.`;
    },
  });
}

/** Takes a lock from all its holders. */
export function releaseAll(api, lock) {
  const names = [...new Set(lock.holders.map(who))];
  const shown = names.slice(0, 5).join(", ") + (names.length > 5 ? " and others" : "");
  return confirm({
    title: `Take ${lock.name} from all ${count(lock.holderCount, "holder")}?`,
    text: [`They are ${shown}.`, "Each is told, and must stop its work."],
    action: "Force release",
    act: async () => {
      const { released } = await api.call("AdminService/ForceRelease", { name: lock.name });
      return released ? `${lock.name} was taken from all its holders.` : `Nobody held ${lock.name} any more.`;
    },
  });
}

/** Ends one wait. */
export function endWait(api, lock, waiter) {
  return confirm({
    title: `End the wait of ${who(waiter)} for ${lock.name}?`,
    text: [`It waits at place ${waiter.position}, at ${waiter.coordinator}. Its acquire fails.`],
    action: "End the wait",
    act: async () => {
      const { released } = await api.call("AdminService/ForceRelease", { name: lock.name, waiterNumber: waiter.number });
      return released ? `The wait of ${who(waiter)} was ended.` : `${who(waiter)} did not wait any more.`;
    },
  });
}

/** Asks the holders of a lock to release it. */
export function askToRelease(api, lock) {
  return confirm({
    title: `Ask ${lock.holders.map(who).slice(0, 3).join(", ")} to release ${lock.name}?`,
    text: ["The holders are told, and may go on. Holds without a session can't be asked."],
    action: "Ask",
    field: { label: "Reason, for the holders", most: MOST_REASON },
    act: async (reason) => {
      const { askedCount = 0 } = await api.call("AdminService/RequestRelease", { name: lock.name, reason });
      return `${count(askedCount, "holder")} asked to release ${lock.name}.`;
    },
  });
}

/** Ends a session. */
export function endSession(api, session) {
  const has = [count(session.holds, "lock"), count(session.waiters, "wait")].join(" and ");
  return confirm({
    title: `End the session of ${session.client || session.peer}?`,
    text: [`It is the session ${session.id}, from ${session.peer}, with ${has}.`, "All of them end, and its client is told."],
    action: "End the session",
    act: async () => {
      const { ended, holdCount = 0 } = await api.call("AdminService/EndSession", { sessionId: session.id });
      return ended ? `The session was ended, and ${count(holdCount, "lock")} with it.` : "The session had ended before.";
    },
  });
}

function described(holder) {
  if (holder.foreign) {
    return "a program that does not use Leasehold; it can't be told";
  }
  const session = holder.sessionId ? `session ${holder.sessionId}` : "a caller without a session";
  return `${who(holder)} (${session}, at ${holder.coordinator}) with the token ${holder.token}`;
}
