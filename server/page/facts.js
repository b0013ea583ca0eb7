// List of names and values, whose values change.

import { h, say, set } from "./dom.js";

/** Returns a list of facts: `show` takes `[name, text, address?]` for each, always in the same order. */
export function facts() {
  const element = h("dl", { class: "facts" });
  const values = new Map();
  const show = (list) => {
    for (const [name, text, address] of list) {
      let value = values.get(name);
      if (!value) {
        value = h("dd", {}, h("a"));
        values.set(name, value);
        element.append(h("div", {}, h("dt", {}, name), value));
      }
      say(value.firstElementChild, text);
      set(value.firstElementChild, "href", address);
      value.parentElement.hidden = text === "";
    }
  };
  return { element, show };
}
