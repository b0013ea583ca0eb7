// Events since the page was opened: the newest of all locks, and the newest of each.

/** Most events of all locks. */
const MOST = 2000;
/** Most events of one lock. */
const MOST_OF_ONE = 100;
/** Most locks whose events are kept: those of which an event came last. */
const MOST_NAMES = 5000;

export class History {
  #last = 0;
  #newest = [];
  #byName = new Map();

  /** Notes an event. */
  add(event) {
    const noted = { ...event, id: (this.#last += 1) };
    push(this.#newest, noted, MOST);
    const own = this.#byName.get(event.name) ?? [];
    push(own, noted, MOST_OF_ONE);
    this.#byName.delete(event.name);
    this.#byName.set(event.name, own);
    if (this.#byName.size > MOST_NAMES) {
      this.#byName.delete(this.#byName.keys().next().value);
    }
  }

  /** Number of the last event. */
  get last() {
    return this.#last;
  }

  /** Returns the newest events of all locks, the newest first. */
  newest(most = MOST) {
    return this.#newest.slice(-most).reverse();
  }

  /** Returns the newest events of one lock, the newest first. */
  of(name) {
    return [...(this.#byName.get(name) ?? [])].reverse();
  }
}

/** Appends to a list, and shortens it now and then, so that it has about `most` entries. */
function push(list, entry, most) {
  list.push(entry);
  if (list.length > most + most / 4) {
    list.splice(0, list.length - most);
  }
}
