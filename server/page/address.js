// Addresses of the views, in the part of the page's URL that no server sees.

const to = (view) => (id) => `#/${view}/${encodeURIComponent(id)}`;

export const ofLock = to("lock");
export const ofSession = to("session");
export const ofElection = to("election");

/** Returns the view that an address names, and what it is to show. */
export function parse(hash) {
  const [, view = "", id = ""] = hash.split("/");
  try {
    return { view, id: decodeURIComponent(id) };
  } catch {
    return { view: "", id: "" };
  }
}
