// What the page knows of the locks: mirror, history and rates, from one stream.

import * as clock from "./clock.js";
import { follow } from "./feed.js";
import { History } from "./history.js";
import { Mirror } from "./mirror.js";
import { Rates } from "./rates.js";
import * as read from "./read.js";

/** Calls in a row that a coordinator did not answer after which the stream from it is taken for dead. */
const DEAD = 2;

export class Live {
  mirror;
  history;
  rates;
  /** Coordinator that the stream comes from; `null` while the page is not live. */
  api = null;
  /** Why the page is not live, if the last stream failed. */
  error = null;
  #changed;
  #stream = new AbortController();
  #prefix = "";
  #silent = 0;

  /** `changed` is called after each change. */
  constructor(apis, changed) {
    this.apis = [...apis];
    this.#changed = changed;
  }

  /** Follows the locks below a prefix from now on, and forgets what it knew: another token may not see it. */
  start(prefix) {
    this.mirror = new Mirror();
    this.history = new History();
    this.rates = new Rates();
    this.#prefix = prefix;
    this.#follow();
  }

  #follow() {
    this.#stream.abort();
    this.#stream = new AbortController();
    this.#silent = 0;
    this.api = null;
    this.error = null;
    follow(this.apis, this.#prefix, this.#receiver(this.#stream.signal), this.#stream.signal);
    this.#changed();
  }

  /** Notes whether a coordinator has answered: a stream from one that is gone does not end by itself. */
  answered(api, isThere) {
    if (api !== this.api) {
      return;
    }
    this.#silent = isThere ? 0 : this.#silent + 1;
    if (this.#silent >= DEAD) {
      this.apis.push(...this.apis.splice(0, this.apis.indexOf(api) + 1));
      this.#follow();
    }
  }

  #receiver(signal) {
    const unless = (act) => (argument) => {
      if (!signal.aborted) {
        act(argument);
        this.#changed();
      }
    };
    return {
      begin: unless(() => {
        clock.reset();
        this.mirror.begin();
        this.rates.forget();
      }),
      lock: unless((message) => this.mirror.show(read.lock(message))),
      ready: unless((api) => {
        this.mirror.ready();
        this.api = api;
        this.error = null;
      }),
      event: unless((message) => {
        const event = read.event(message);
        clock.passed(event.time);
        const waited = this.mirror.apply(event);
        this.history.add(event);
        this.rates.add(event, waited);
      }),
      ended: unless((error) => {
        this.api = null;
        this.error = error;
      }),
    };
  }
}
