// Field for a prefix by which a list is searched.

import { h } from "./dom.js";

/** Returns a field with a text, which calls `changed` with each other one. */
export function searchField(text, changed) {
  const options = { type: "search", id: "prefix", value: text, autocomplete: "off", spellcheck: "false" };
  const field = h("input", { ...options, oninput: () => changed(field.value) });
  return field;
}
