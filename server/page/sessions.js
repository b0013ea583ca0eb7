// Sessions of all coordinators that the page knows.

import { duration, instant } from "./clock.js";

const PAGE = 1000;
/** Most sessions that are read of a coordinator. */
const MOST = 10_000;

/** Returns the sessions of all coordinators, and whether there are more; or throws if no coordinator answers. */
export async function listSessions(apis) {
  const lists = await Promise.allSettled(apis.map(listAt));
  const read = lists.filter(({ status }) => status === "fulfilled").map(({ value }) => value);
  if (read.length === 0) {
    throw lists[0].reason;
  }
  return { sessions: read.flatMap(({ sessions }) => sessions), hasMore: read.some(({ hasMore }) => hasMore) };
}

async function listAt(api) {
  const sessions = [];
  let pageToken = "";
  do {
    const page = await pageAt(api, pageToken);
    sessions.push(...(page.sessions ?? []).map(session));
    pageToken = page.nextPageToken ?? "";
  } while (pageToken && sessions.length < MOST);
  return { sessions, hasMore: pageToken !== "" };
}

/** Returns a page of the largest size, or of the usual one at a coordinator whose `max-page-size` is smaller. */
async function pageAt(api, pageToken) {
  try {
    return await api.call("AdminService/ListSessions", { pageSize: PAGE, pageToken });
  } catch (error) {
    if (error.code !== "invalid_argument") {
      throw error;
    }
    return api.call("AdminService/ListSessions", { pageToken });
  }
}

function session(message) {
  return {
    id: message.sessionId,
    client: message.clientName ?? "",
    identity: message.identity ?? "",
    peer: message.peer ?? "",
    coordinator: message.coordinator ?? "",
    ttl: duration(message.ttl),
    openedAt: instant(message.openedAt),
    sinceHeartbeat: duration(message.sinceHeartbeat),
    holds: message.holdCount ?? 0,
    waiters: message.waiterCount ?? 0,
    metadata: message.metadata ?? {},
  };
}
