// Sorted set of names, in which those with a prefix follow one another.

export class Names {
  #sorted = [];

  get all() {
    return this.#sorted;
  }

  add(name) {
    const place = this.#place(name);
    if (this.#sorted[place] !== name) {
      this.#sorted.splice(place, 0, name);
    }
  }

  remove(name) {
    const place = this.#place(name);
    if (this.#sorted[place] === name) {
      this.#sorted.splice(place, 1);
    }
  }

  /** Returns the names that begin with `prefix`. */
  withPrefix(prefix) {
    const start = this.#place(prefix);
    let end = start;
    let step = this.#sorted.length;
    while (step > 0) {
      if (this.#sorted[end + step - 1]?.startsWith(prefix)) {
        end += step;
      } else {
        step = Math.floor(step / 2);
      }
    }
    return this.#sorted.slice(start, end);
  }

  /** Returns the first place whose name is not before `name`. */
  #place(name) {
    let [low, high] = [0, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#sorted[middle] < name) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
