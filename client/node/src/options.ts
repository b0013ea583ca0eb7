/**
 * Options of clients and sessions, and the settings that a client's parts share.
 *
 * @module
 */

import { create } from "@bufbuild/protobuf";
import {
  checkFunction,
  checkMetadata,
  checkObject,
  checkPositive,
  checkText,
  checkTime,
  DAY,
} from "./checks";
import { defaultClientName } from "./client-name";
import { type CredentialOptions, Credentials } from "./credentials";
import { type Endpoint, parseEndpoints } from "./endpoints";
import { Failure, SettingsError } from "./errors";
import { ClientEvents } from "./events";
import { type SessionOpen, SessionOpenSchema } from "./generated/leasehold/v1/session_pb";
import { toDuration } from "./wire";

/** Place for log lines. `console` is one, and so are most loggers. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
}

/** Options of a session. Times are in milliseconds. */
export interface SessionOptions {
  /**
   * Name that operators see: at most 256 bytes without control characters. Default: the program, host and process, such as
   * `billing@web-1/4711`.
   */
  clientName?: string | undefined;
  /**
   * Time for which a lock outlives the loss of contact: 1 s to 1 h unless the coordinator is configured otherwise. A shorter TTL frees the
   * locks of a dead machine sooner; a longer one survives longer interruptions, and longer blocks of the event loop. Default: the
   * coordinator's, 10 s.
   */
  ttl?: number | undefined;
  /**
   * Time for which locks are kept when their stream breaks, so that the session can resume them on another one: 0 to the TTL. Default: 0.
   *
   * Without a grace a lock is lost at the moment at which its stream breaks, and the coordinator hands it on as soon as it notices. With a
   * grace, the lock is suspended: not held, but nobody else can have it, until the session has resumed it, here or at another coordinator,
   * or the grace or the lock's validity has passed. The price is that the locks of a process that has died stay taken for as long.
   *
   * A coordinator that goes away on purpose, or that falls silent, needs no grace: the session moves to another one before the stream
   * breaks, and its locks are held throughout.
   */
  grace?: number | undefined;
  /**
   * Free text that operators see in the list of sessions: at most 16 entries, keys of 1 to 64 bytes, values of at most 256. Default: none.
   */
  metadata?: Readonly<Record<string, string>> | undefined;
}

/** Options of a client. Those of sessions are the defaults for all its sessions. Times are in milliseconds. */
export interface ClientOptions extends SessionOptions, CredentialOptions {
  /**
   * Longest time for an attempt to connect, and as long again until the session is open; less if a hold would run out meanwhile. Default: 5
   * s.
   */
  connectTimeout?: number | undefined;
  /**
   * Pauses between attempts to reconnect, after each round of all coordinators: from about `least`, doubling, with random parts, to at most
   * `most`. Default: 50 ms to 2 s.
   */
  backoff?: { readonly least: number; readonly most: number } | undefined;
  /**
   * Longest time for which `close` waits for the work of `with`, `run` and decorators to end, after it told that to stop; 0 means not to
   * wait. Default: 10 s.
   */
  closeTimeout?: number | undefined;
  /**
   * Longest wait of requests for locks and permits that give none: at most 24 h. Campaigns and detached locks have waits of their own.
   * Default: as long as it takes.
   */
  wait?: number | undefined;
  /** Place for log lines. Default: warnings go to the console. */
  logger?: Logger | undefined;
  /**
   * Hook that adds the trace context of the caller to a request. Requests on a session take `traceparent` from it; single calls send
   * everything as metadata. With OpenTelemetry: `(carrier) => propagation.inject(context.active(), carrier)`.
   */
  propagate?: ((carrier: Record<string, string>) => void) | undefined;
}

/** Settings that all sessions and calls of a client share. */
export interface Settings {
  readonly endpoints: readonly Endpoint[];
  readonly connectTimeout: number;
  readonly backoff: { readonly least: number; readonly most: number };
  readonly closeTimeout: number;
  readonly wait: number | undefined;
  readonly credentials: Credentials;
  readonly events: ClientEvents;
  readonly log: Logger;
  readonly propagate: ((carrier: Record<string, string>) => void) | undefined;
}

/** Headers that a hook may add. */
const HEADER = /^(?!grpc-|authorization$)[a-z][a-z0-9_.-]{0,127}(?<!-bin)$/i;
const HEADER_VALUE = /^[\x20-\x7e]{0,4096}$/;

/** Longest trace context of a request on a session, in bytes. */
const LONGEST_TRACEPARENT = 256;

const QUIET: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message) => console.warn(`leasehold: ${message}`),
};

/** Returns the settings for these endpoints and options. Throws a SettingsError if they can't be used. */
export function newSettings(urls: string | readonly string[], options: ClientOptions): Settings {
  asSetting(() => {
    checkObject(options ?? null, "options");
    checkSessionOptions(options);
    const { connectTimeout, closeTimeout, wait, backoff, logger, propagate } = options;
    checkPositive(connectTimeout, "connectTimeout");
    checkTime(closeTimeout, "closeTimeout", 0, DAY);
    checkTime(wait, "wait", 0, DAY);
    checkObject(backoff, "backoff");
    if (backoff) {
      checkPositive(backoff.least ?? 0, "backoff.least");
      checkPositive(backoff.most ?? 0, "backoff.most");
    }
    checkObject(logger, "logger");
    for (const level of ["debug", "info", "warn"] as const) {
      if (logger) {
        checkFunction(logger[level], `logger.${level}`);
      }
    }
    if (propagate !== undefined) {
      checkFunction(propagate, "propagate");
    }
  });
  const endpoints = parseEndpoints(urls);
  const { connectTimeout = 5000, backoff = { least: 50, most: 2000 }, logger = QUIET } = options;
  const { closeTimeout = 10_000, wait, propagate } = options;
  return {
    endpoints,
    connectTimeout,
    closeTimeout,
    wait,
    backoff,
    events: new ClientEvents(),
    credentials: new Credentials(options, endpoints, logger),
    log: logger,
    propagate,
  };
}

/** Checks the options of a session. Throws a SettingsError if they can't be used. */
export function checkSession(options: SessionOptions): void {
  asSetting(() => {
    checkObject(options ?? null, "options");
    checkSessionOptions(options);
  });
}

function checkSessionOptions({ clientName, ttl, grace, metadata }: SessionOptions): void {
  checkText(clientName, "clientName");
  checkPositive(ttl, "ttl");
  checkTime(grace, "grace", 0);
  checkMetadata(metadata);
}

/** Makes a check, and throws a SettingsError for what is wrong. */
export function asSetting(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof Failure)) {
      throw error;
    }
    const [{ field, description } = { field: "", description: "" }] = error.violations;
    throw new SettingsError(`the setting ${field} ${description}`);
  }
}

/** Returns the message that opens a session. */
export function openMessage(options: SessionOptions): SessionOpen {
  const { clientName = defaultClientName(), ttl, grace, metadata = {} } = options;
  return create(SessionOpenSchema, {
    clientName,
    metadata: { ...metadata },
    ...(ttl ? { ttl: toDuration(ttl) } : {}),
    ...(grace ? { disconnectGrace: toDuration(grace) } : {}),
  });
}

/** Returns what the program's hook adds to a request. */
export function propagated({ propagate, log }: Settings): Record<string, string> {
  const carrier: Record<string, string> = {};
  try {
    propagate?.(carrier);
  } catch (error) {
    // A trace is not worth a release that is never sent.
    log.debug(`the hook for traces failed: ${(error as Error).message}`);
    return {};
  }
  // What can't be a header would fail the request, and a large one the whole stream.
  return Object.fromEntries(
    Object.entries(carrier).filter(
      ([key, value]) => HEADER.test(key) && typeof value === "string" && HEADER_VALUE.test(value),
    ),
  );
}

/** Returns the trace context of a request on a session. */
export function traceparent(settings: Settings): string {
  const traceparent = settings.propagate ? (propagated(settings)["traceparent"] ?? "") : "";
  return traceparent.length <= LONGEST_TRACEPARENT ? traceparent : "";
}
