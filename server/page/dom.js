// Elements: made, filled and kept in step with data, without markup in strings.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line"]);

/** Returns an element. An attribute `on…` is a listener; one that is `null`, `undefined` or `false` is left out. */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      set(element, name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets an attribute, or removes it. Does nothing if it has this value already. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else if (element.getAttribute(name) !== `${value === true ? "" : value}`) {
    element.setAttribute(name, value === true ? "" : value);
  }
}

/** Sets an element's text. Does nothing if it has this text already, so that selections and screen readers stay undisturbed. */
export function say(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

const elementsOf = new WeakMap();

/**
 * Keeps the children of `parent` in step with `items`. An item keeps its element, with focus and selection, for as long as its key is
 * among them. `create` returns an element; `update` fills it.
 */
export function keyed(parent, items, key, create, update) {
  const before = elementsOf.get(parent) ?? new Map();
  const now = new Map(items.map((item) => [key(item), item]));
  for (const [name, element] of before) {
    if (!now.has(name)) {
      element.remove();
    }
  }
  const elements = new Map();
  let cursor = parent.firstElementChild;
  for (const [name, item] of now) {
    const element = before.get(name) ?? create(item);
    if (element === cursor) {
      cursor = cursor.nextElementSibling;
    } else {
      parent.insertBefore(element, cursor);
    }
    update(element, item);
    elements.set(name, element);
  }
  elementsOf.set(parent, elements);
}

/** Returns the element that `keyed` made for a key. */
export function elementOf(parent, name) {
  return elementsOf.get(parent)?.get(name);
}
