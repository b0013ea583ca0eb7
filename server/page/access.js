// Dialog for the caller's token, and for the prefix of the locks that it may inspect.

import { h, say } from "./dom.js";
import * as token from "./token.js";

const KEPT =
  "This browser tab keeps it until it is closed, and sends it to coordinators alone. Leave it empty if callers need none.";
const KEY = "leasehold.prefix";

/** Returns the prefix of the locks that are watched. */
export function watchedPrefix() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** Asks for a token and a prefix; `why` says why. Calls `changed` once both are kept. */
export function askForAccess(why, changed) {
  if (document.querySelector("dialog.access")) {
    return;
  }
  const secret = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", value: token.current() });
  const prefix = h("input", { id: "watched", autocomplete: "off", spellcheck: "false", value: watchedPrefix() });
  const keep = (event) => {
    event.preventDefault();
    token.keep(secret.value.trim());
    sessionStorage.setItem(KEY, prefix.value);
    dialog.close();
    changed();
  };
  const reason = h("p");
  say(reason, why);
  const dialog = h(
    "dialog",
    { class: "access", "aria-labelledby": "access-title", onclose: () => dialog.remove() },
    h(
      "form",
      { onsubmit: keep },
      h("h2", { id: "access-title" }, "Access"),
      reason,
      h("label", { for: "token" }, "Bearer token"),
      secret,
      h("p", { class: "note" }, KEPT),
      h("label", { for: "watched" }, "Watch only locks whose names begin with"),
      prefix,
      h("p", { class: "note" }, "For a token that may inspect some locks only."),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { class: "main", type: "submit" }, "Use"),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
