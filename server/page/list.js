// List of any length: only the rows in view are elements. One row at a time takes part in the order of Tab; arrows move it.

import { elementOf, h, keyed, say, set } from "./dom.js";

/** Rows beyond the edges of the view, so that a slow frame shows no gap. */
const BEYOND = 8;

export class List {
  #items = [];
  #columns;
  #key;
  #href;
  #current = null;
  #heads;
  #body;
  #rowHeight = 40;
  #pending = false;

  /**
   * `columns` are `{ id, title, text(item), sorted? }`; the first has a link to `href(item)`. `kind` is the list's class. With `sort`, the
   * titles of columns that can be `sorted` are buttons, which call it with their id.
   */
  constructor({ kind, label, columns, key, href, sort }) {
    this.#columns = columns;
    this.#key = key;
    this.#href = href;
    this.#heads = columns.map((column) => head(column, sort));
    this.#body = h("div", { class: "rows", role: "rowgroup" });
    this.viewport = h(
      "div",
      {
        class: "viewport",
        onscroll: () => this.render(),
        onkeydown: (event) => this.#move(event),
        onfocusin: (event) => this.#focused(event),
      },
      this.#body,
    );
    const titles = h("div", { role: "rowgroup" }, h("div", { class: "row titles", role: "row", "aria-rowindex": 1 }, this.#heads));
    this.element = h("div", { class: `list ${kind}`, role: "grid", "aria-label": label, "aria-readonly": "true" }, titles, this.viewport);
    new ResizeObserver(() => this.render()).observe(this.viewport);
  }

  /** Shows these items from now on. */
  show(items) {
    this.#items = items;
    set(this.element, "aria-rowcount", items.length + 1);
    this.render();
  }

  /** Shows by which column the list is sorted. */
  sortedBy(id, direction) {
    this.#columns.forEach((column, place) => {
      set(this.#heads[place], "aria-sort", column.id === id && direction);
    });
  }

  /** Returns the items in view. */
  get inView() {
    const [from, to] = this.#range(0);
    return this.#items.slice(from, to);
  }

  /** Brings the rows up to date with the next frame. */
  render() {
    if (!this.#pending) {
      this.#pending = true;
      requestAnimationFrame(() => {
        this.#pending = false;
        this.#render();
      });
    }
  }

  #range(beyond) {
    const first = Math.floor(this.viewport.scrollTop / this.#rowHeight) - beyond;
    const last = Math.ceil((this.viewport.scrollTop + this.viewport.clientHeight) / this.#rowHeight) + beyond;
    return [Math.max(0, first), Math.min(this.#items.length, last)];
  }

  #render() {
    this.#rowHeight = Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 40;
    this.#body.style.height = `${this.#items.length * this.#rowHeight}px`;
    const [from, to] = this.#range(BEYOND);
    const rows = this.#items.slice(from, to).map((item, place) => ({ item, place: from + place }));
    const hadFocus = this.#body.contains(document.activeElement);
    const stop = rows.find(({ item }) => this.#key(item) === this.#current) ?? rows.find(({ place }) => place >= from + BEYOND) ?? rows[0];
    keyed(this.#body, rows, ({ item }) => this.#key(item), (row) => this.#create(row.item), (element, { item, place }) => {
      element.style.transform = `translateY(${place * this.#rowHeight}px)`;
      set(element, "aria-rowindex", place + 2);
      this.#columns.forEach((column, number) => {
        const cell = element.children[number];
        say(number === 0 ? cell.firstElementChild : cell, column.text(item));
      });
      set(element.firstElementChild.firstElementChild, "tabindex", item === stop?.item ? 0 : -1);
    });
    if (hadFocus && !this.#body.contains(document.activeElement)) {
      this.#focus(stop);
    }
  }

  #create(item) {
    const cells = this.#columns.map(({ id, title }, number) => {
      const content = number === 0 ? [h("a", { href: this.#href(item) })] : [];
      return h("span", { class: id, role: "gridcell", "data-title": title }, content);
    });
    return h("div", { class: "row", role: "row", "data-key": this.#key(item) }, cells);
  }

  #focus(row) {
    const element = row && elementOf(this.#body, this.#key(row.item));
    element?.firstElementChild.firstElementChild.focus({ preventScroll: true });
  }

  #focused({ target }) {
    this.#current = this.#keyOf(target.closest(".row"));
    this.render();
  }

  #keyOf(row) {
    const item = this.#items.find((item) => `${this.#key(item)}` === row?.dataset.key);
    return item === undefined ? null : this.#key(item);
  }

  #move(event) {
    const step = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: Math.floor(this.viewport.clientHeight / this.#rowHeight),
      PageUp: -Math.floor(this.viewport.clientHeight / this.#rowHeight),
      Home: -Infinity,
      End: Infinity,
    }[event.key];
    if (step === undefined || this.#items.length === 0) {
      return;
    }
    event.preventDefault();
    const here = this.#items.findIndex((item) => this.#key(item) === this.#current);
    const place = Math.min(this.#items.length - 1, Math.max(0, Math.max(0, here) + step));
    const item = this.#items[place];
    this.#current = this.#key(item);
    const [top, height] = [place * this.#rowHeight, this.viewport.clientHeight];
    if (top < this.viewport.scrollTop) {
      this.viewport.scrollTop = top;
    } else if (top + this.#rowHeight > this.viewport.scrollTop + height) {
      this.viewport.scrollTop = top + this.#rowHeight - height;
    }
    this.#render();
    this.#focus({ item });
  }
}

function head(column, sort) {
  const content = sort && column.sorted ? h("button", { type: "button", onclick: () => sort(column.id) }, column.title) : column.title;
  return h("span", { class: column.id, role: "columnheader" }, content);
}
