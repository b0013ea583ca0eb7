// Status of each coordinator that the page knows, asked again and again.

import { duration } from "./clock.js";
import { poll } from "./poll.js";

const INTERVAL = 2000;

export class Coordinators {
  #status = new Map();

  constructor(apis, changed) {
    this.apis = apis;
    for (const api of apis) {
      poll(INTERVAL, async () => {
        this.#status.set(api.url, await ask(api));
        changed(api, this.#status.get(api.url));
      });
    }
  }

  /** Returns the status of each, in the order of the settings. One that was not asked yet has none. */
  get list() {
    return this.apis.map((api) => ({ url: api.url, ...this.#status.get(api.url) }));
  }

  /** Returns the API through which a coordinator is reached, by its id; the first if it is not among those that the page knows. */
  named(id) {
    return this.apis.find((api) => this.#status.get(api.url)?.id === id) ?? this.apis[0];
  }
}

async function ask(api) {
  const sent = performance.now();
  try {
    const status = await api.call("AdminService/GetStatus");
    return {
      state: status.serving ? "serving" : "not serving",
      answeredIn: performance.now() - sent,
      id: status.coordinator ?? "",
      version: status.version ?? "",
      uptime: duration(status.uptime),
      reason: status.reason ?? "",
      store: status.store ?? "",
      storeState: status.storeState ?? "STORE_STATE_UNSPECIFIED",
      sessions: status.sessionCount,
      holds: status.holdCount,
      waiters: status.waiterCount,
    };
  } catch (error) {
    const state = error.code === "unreachable" ? "out of reach" : "refused";
    return { state, error };
  }
}
