import type { Writable } from "node:stream";
import type { SessionRequest } from "./generated/leasehold/v1/session_pb";

/** Number of requests that are not on their way yet from which a session takes no more acquires from callers. */
const CONGESTED = 1024;

/** Requests for one stream that are not on their way yet. Heartbeats overtake the others. */
export class Outbound {
  #stream: Writable | undefined;
  #isFull = false;
  readonly #queue: SessionRequest[] = [];
  /** The newest heartbeat: an older one is worth nothing beside it. */
  #heartbeat: SessionRequest | undefined;
  #wakeWaiting: (() => void) | undefined;

  /** Whether acquires of callers have to wait. */
  get isCongested(): boolean {
    return this.#queue.length >= CONGESTED;
  }

  /** Waits for room, or for the call of `wake`. One caller may wait at a time. */
  room(): Promise<void> {
    return new Promise((resolve) => {
      this.#wakeWaiting = resolve;
    });
  }

  /** Lets the caller that waits for room look whether it is still to wait for this stream. */
  wake(): void {
    this.#wakeWaiting?.();
  }

  push(request: SessionRequest): void {
    if (request.request.case === "heartbeat") {
      this.#heartbeat = request;
    } else {
      this.#queue.push(request);
    }
    this.#flush();
  }

  /** Begins to send. */
  start(stream: Writable): void {
    this.#stream = stream;
    stream.on("drain", () => {
      this.#isFull = false;
      this.#flush();
    });
    this.#flush();
  }

  /** Sends nothing from now on. */
  end(): void {
    this.#stream = undefined;
    this.#queue.length = 0;
    this.wake();
  }

  #flush(): void {
    while (this.#stream && !this.#isFull) {
      const next = this.#heartbeat ?? this.#queue.shift();
      if (!next) {
        return;
      }
      if (next === this.#heartbeat) {
        this.#heartbeat = undefined;
      }
      this.#isFull = !this.#stream.write(next);
      if (!this.isCongested) {
        this.wake();
      }
    }
  }
}
