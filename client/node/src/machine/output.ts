import type { Moment } from "../clock";
import type { AcquireError, ConnectError } from "../errors";
import type { SessionRequest } from "../generated/leasehold/v1/session_pb";
import type { AcquireCall, Granted, HoldCall, HoldResult } from "./pending";
import type { SessionInfo } from "./stream";

/** Action that the machine asks for. Each stream has a number. */
export type Output =
  /** Send the request on the stream. */
  | { readonly kind: "send"; readonly stream: number; readonly request: SessionRequest }
  /** Answer an acquire, with one grant for each lock in the order of the names, or with an error. */
  | {
      readonly kind: "acquired";
      readonly call: AcquireCall;
      readonly result: Granted[] | AcquireError;
    }
  /** Answer a request about a hold. */
  | { readonly kind: "hold_done"; readonly call: HoldCall; readonly result: HoldResult }
  /**
   * The session is open on this stream, and from now on only on it: leave any other stream once its queued requests have been sent.
   */
  | { readonly kind: "opened"; readonly stream: number; readonly info: SessionInfo }
  /** The coordinator is going away at this moment. */
  | { readonly kind: "draining"; readonly until: Moment }
  /**
   * Give up the stream. Cut it, unless it did not open in time: then keep it until another one has opened, because its end would release
   * the locks that it may still resume. The machine has forgotten it already. The error is that of a stream that is given up before it
   * opened.
   */
  | { readonly kind: "hang_up"; readonly stream: number; readonly error?: ConnectError }
  /**
   * Leave the stream that was to be the next one, once its queued requests have been sent and answered; the end of the session waits for
   * that for a while. The machine has forgotten it already.
   */
  | { readonly kind: "leave"; readonly stream: number }
  /** There is nothing left to do. */
  | { readonly kind: "ended" };
