// Calls of the public API of one coordinator, in Connect's JSON.

import { messages, wrap } from "./envelope.js";

/** Time for a call with one answer, in milliseconds. */
const PATIENCE = 5000;

/** Refusal or failure of a call. */
export class CallError extends Error {
  constructor(code, message, reason) {
    super(message);
    this.code = code;
    this.reason = reason;
  }

  /** Returns whether another attempt with the same token and request fails too. */
  get isFinal() {
    return ["unauthenticated", "permission_denied", "invalid_argument"].includes(this.code);
  }
}

export class Api {
  /** `url` is that of the API's port; `token` returns the caller's bearer token, or an empty text. */
  constructor(url, token) {
    this.url = url;
    this.token = token;
  }

  /** Makes a call with one answer. */
  async call(method, request = {}, signal = undefined) {
    const patience = AbortSignal.timeout(PATIENCE);
    const signals = signal ? AbortSignal.any([signal, patience]) : patience;
    const response = await this.#post(method, "application/json", JSON.stringify(request), signals);
    return this.#read(() => response.json());
  }

  /** Makes a call with a stream of answers, and yields these. */
  async *stream(method, request, signal) {
    const response = await this.#post(method, "application/connect+json", wrap(request), signal);
    const answers = messages(response.body);
    try {
      for (;;) {
        const { done, value } = await this.#read(() => answers.next());
        if (done) {
          throw this.#unreachable();
        }
        if (value.isLast) {
          if (value.message.error) {
            throw refused(value.message.error);
          }
          return;
        }
        yield value.message;
      }
    } finally {
      await answers.return();
    }
  }

  async #post(method, type, body, signal) {
    const token = this.token();
    const headers = { "content-type": type, ...(token && { authorization: `Bearer ${token}` }) };
    const options = { method: "POST", headers, body, signal, credentials: "omit", cache: "no-store" };
    const response = await this.#read(() => fetch(`${this.url}/leasehold.v1.${method}`, options));
    if (!response.ok) {
      throw refused(await response.json().catch(() => ({ code: "unknown", message: `HTTP ${response.status}` })));
    }
    return response;
  }

  /** Returns what `read` does, with its failure as that of the connection. */
  async #read(read) {
    try {
      return await read();
    } catch (error) {
      throw error.name === "AbortError" ? error : this.#unreachable();
    }
  }

  #unreachable() {
    return new CallError("unreachable", `no answer from ${this.url}`);
  }
}

function refused({ code, message, details = [] }) {
  const reason = details.map(({ debug }) => debug?.reason).find(Boolean);
  return new CallError(code, message ?? code, reason);
}
