// Table of a few rows, which keep their elements while the data changes.

import { h, keyed, say, set } from "./dom.js";

/**
 * Returns a table. A column has a `title`, and `text(item)`; or that and `link(item)`, for a text that is a link where there is an
 * address; or `node(item)`, for content that is made once, and `fill(cell, item)`. The title of a column that `isUntitled` is for screen
 * readers alone. `none` is shown in place of an empty table.
 */
export function table({ label, columns, key, none }) {
  // With their roles, which tables lose on a phone, where the style makes each row a block.
  const rows = h("tbody", { role: "rowgroup" });
  const empty = h("p", { class: "none" }, none);
  const heads = columns.map(({ title, isUntitled }) => {
    return h("th", { scope: "col", role: "columnheader" }, h("span", { class: isUntitled && "unseen" }, title));
  });
  const titles = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads));
  const content = h("table", { role: "table" }, h("caption", { class: "unseen" }, label), titles, rows);
  const scrolled = h("div", { class: "scrolled", role: "region", "aria-label": label, tabindex: 0 }, content);
  const create = (item) => {
    const cells = columns.map((column) => {
      const content = column.node?.(item) ?? (column.link && h("a"));
      return h("td", { role: "cell", "data-title": column.title }, content);
    });
    return h("tr", { role: "row" }, cells);
  };
  const update = (row, item) => {
    columns.forEach((column, place) => {
      const cell = row.children[place];
      const link = column.link?.(item);
      if (column.link) {
        set(cell.firstElementChild, "href", link || null);
      }
      if (column.text) {
        say(column.link ? cell.firstElementChild : cell, column.text(item));
      }
      column.fill?.(cell, item);
    });
  };
  const show = (items) => {
    keyed(rows, items, key, create, update);
    scrolled.hidden = items.length === 0;
    empty.hidden = items.length !== 0;
  };
  return { element: h("div", {}, scrolled, empty), show };
}
