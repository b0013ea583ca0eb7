import type { ClientDuplexStream, Client as Connection, StatusObject } from "@grpc/grpc-js";
import type { Candidate } from "./endpoints";
import { ConnectError } from "./errors";
import { failureFrom } from "./failure";
import type { SessionRequest, SessionResponse } from "./generated/leasehold/v1/session_pb";
import { CLOSE_TIMEOUT } from "./machine/requests";
import { SESSION } from "./methods";
import type { Settings } from "./options";
import { Outbound } from "./outbound";
import { clearTimeout, setTimeout } from "./timers";

/** Receiver of what comes on a connection. */
export interface Receiver {
  received(conn: Conn, message: SessionResponse): void;
  streamEnded(conn: Conn, status: StatusObject): void;
}

/** One connection of a session, with one lease stream on it. */
export class Conn {
  /** The machine's number of the stream; 0 while the machine does not know it. */
  number = 0;
  /** Whether there is a stream, and what is queued has been sent. */
  isStarted = false;
  /** Whether the session is open elsewhere. */
  isLeaving = false;
  /** Settled when the session has opened on it, or not: then with the reason. */
  readonly decided: Promise<ConnectError | undefined>;
  #decide!: (error: ConnectError | undefined) => void;
  readonly #outbound = new Outbound();
  #stream: ClientDuplexStream<SessionRequest, SessionResponse> | undefined;
  #status: StatusObject | undefined;
  #leaving: NodeJS.Timeout | undefined;
  #isCut = false;

  constructor(
    readonly candidate: Candidate,
    /** The version of the credentials that it was made with, or an earlier one. */
    readonly credentials: number,
    readonly connection: Connection,
    readonly receiver: Receiver,
  ) {
    this.decided = new Promise((resolve) => {
      this.#decide = resolve;
    });
  }

  /** Asks for the stream. With a limit it also waits until the coordinator serves it. Returns why it does not. */
  async start(settings: Settings, limit: number | undefined): Promise<ConnectError | undefined> {
    if (this.#isCut) {
      return new ConnectError(this.candidate.endpoint.url, "ended");
    }
    const { path, encode, decode } = SESSION;
    const metadata = settings.credentials.metadata();
    const stream = this.connection.makeBidiStreamRequest(path, encode, decode, metadata);
    this.#stream = stream;
    // The status says the same.
    stream.on("error", () => undefined);
    stream.on("data", (message: SessionResponse) => this.receiver.received(this, message));
    stream.on("status", (status: StatusObject) => {
      this.#status = status;
      this.receiver.streamEnded(this, status);
      this.#close();
    });
    return limit === undefined ? undefined : await served(stream, this.candidate, limit);
  }

  /** Begins to send what is queued. */
  send(): void {
    if (this.#status) {
      // It ended before the session knew it.
      this.receiver.streamEnded(this, this.#status);
    } else if (this.#stream && !this.#isCut) {
      this.isStarted = true;
      this.#outbound.start(this.#stream);
    }
  }

  push(request: SessionRequest): void {
    this.#outbound.push(request);
  }

  /** Whether acquires of callers have to wait for room. */
  get isCongested(): boolean {
    return this.#outbound.isCongested;
  }

  /** Waits for room, or for the end of the connection's time. One caller may wait at a time. */
  room(): Promise<void> {
    return this.#outbound.room();
  }

  /** Says whether the session opened on it. Only the first word counts. */
  decide(error?: ConnectError): void {
    this.#decide(error);
  }

  /** Lets it say goodbye for a while. */
  leave(): void {
    this.isLeaving = true;
    this.#outbound.wake();
    this.#leaving = setTimeout(() => this.cut(), CLOSE_TIMEOUT);
  }

  /** Ends the stream, and the connection. */
  cut(): void {
    this.#isCut = true;
    this.#outbound.end();
    if (this.#stream) {
      // Its status closes the connection.
      this.#stream.cancel();
    } else {
      this.#close();
    }
  }

  #close(): void {
    clearTimeout(this.#leaving);
    this.#outbound.end();
    this.connection.close();
  }
}

/** Waits until the coordinator serves a stream. Returns why it does not. */
function served(
  stream: ClientDuplexStream<SessionRequest, SessionResponse>,
  { endpoint: { url } }: Candidate,
  limit: number,
): Promise<ConnectError | undefined> {
  return new Promise((resolve) => {
    const settle = (error?: ConnectError) => {
      clearTimeout(timer);
      stream.off("metadata", accepted);
      stream.off("status", ended);
      resolve(error);
    };
    const accepted = () => settle();
    const ended = (status: StatusObject) => settle(ConnectError.of(url, failureFrom(url, status)));
    const timer = setTimeout(() => {
      settle(new ConnectError(url, "timed_out", undefined, limit));
      stream.cancel();
    }, limit);
    stream.on("metadata", accepted);
    stream.on("status", ended);
  });
}
