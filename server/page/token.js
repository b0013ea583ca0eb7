// The caller's bearer token: kept by the browser for this tab, until the tab is closed or the token is forgotten.

const KEY = "leasehold.token";

let token = sessionStorage.getItem(KEY) ?? "";

/** Returns the token, or an empty text. */
export function current() {
  return token;
}

/** Keeps a token in place of the former one; an empty one is forgotten. */
export function keep(next) {
  token = next;
  if (next) {
    sessionStorage.setItem(KEY, next);
  } else {
    sessionStorage.removeItem(KEY);
  }
}
