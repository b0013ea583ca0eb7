/**
 * Events of a client, for metrics and logs.
 *
 * @module
 */

import { EventEmitter } from "node:events";
import type { AcquireErrorKind } from "./errors";
import type { Logger } from "./options";
import type { LostReason } from "./reason";
import { queueMicrotask } from "./timers";

/** Lock of an event: its name, and the fencing token of the hold. */
export interface HoldEvent {
  readonly lock: string;
  readonly token: bigint;
}

/** Connection of an event. */
export interface ConnectionEvent {
  /** URL of the coordinator. */
  readonly endpoint: string;
  readonly sessionId: string;
}

/** Events of a client, with what their listeners get. Times are in milliseconds. */
export interface ClientEventMap {
  /** A session is open: for the first time, after its stream broke, or because it moved to another coordinator. */
  connected: [ConnectionEvent];
  /** The stream of a session ended, and the session has no other yet. It is made anew in the background unless it was closed. */
  disconnected: [ConnectionEvent];
  /** A lock, a semaphore's permits or a leadership was granted, after a wait of this long. */
  acquired: [HoldEvent & { readonly waited: number }];
  /** An acquire failed, or its signal was aborted (`cancelled`). `lock` has all names of a request for several. */
  failed: [
    {
      readonly lock: string;
      readonly kind: AcquireErrorKind | "cancelled";
      readonly waited: number;
    },
  ];
  /** A hold is suspended: its stream broke, and the session may resume it. */
  suspended: [HoldEvent];
  /** A suspended hold is held again. */
  resumed: [HoldEvent];
  /** A hold was lost, after this long. */
  lost: [HoldEvent & { readonly reason: LostReason; readonly held: number }];
  /** A hold was released, after this long. */
  released: [HoldEvent & { readonly held: number }];
}

/** Emitter of a client's events. */
export class ClientEvents extends EventEmitter<ClientEventMap> {
  /** Calls the listeners soon, and not here, in the middle of something. What they throw costs nothing but a warning. @internal */
  tell<E extends keyof ClientEventMap>(log: Logger, event: E, ...told: ClientEventMap[E]): void {
    if (this.listenerCount(event) === 0) {
      return;
    }
    queueMicrotask(() => {
      try {
        // The emitter's own types don't know that the arguments belong to the event.
        (this as EventEmitter).emit(event, ...told);
      } catch (error) {
        log.warn(`a listener of the event ${event} failed: ${(error as Error).message}`);
      }
    });
  }
}
