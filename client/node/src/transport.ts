/**
 * Connections to coordinators.
 *
 * @module
 */

import { isIP } from "node:net";
import {
  type ChannelOptions,
  status as Code,
  Client as Connection,
  connectivityState as ConnectivityState,
  Metadata,
  type StatusObject,
} from "@grpc/grpc-js";
import type { Candidate, Endpoint } from "./endpoints";
import { ConnectError, type Failure } from "./errors";
import { failureFrom, timedOut, transportFailure } from "./failure";
import { GET_STATUS } from "./methods";
import type { Settings } from "./options";
import { VERSION } from "./version";

/**
 * Interval of probes on a quiet connection, and the time limit of their answers. Together longer than what is common for a TTL: a lease
 * must end by its own deadline, not because a probe was late.
 */
const KEEP_ALIVE = 10_000;
/** Longest message, in bytes: a snapshot shows up to a hundred holders with values of 4 KiB in one. */
const LONGEST_MESSAGE = 16 << 20;

/** Purpose of a connection: a session's own, single calls, or streams of events. */
export type Purpose = "session" | "calls" | "watching";

/** Makes a connection to any address of an endpoint. Nothing is sent before `ready`. */
export function connection(settings: Settings, endpoint: Endpoint, purpose: Purpose): Connection {
  return connectionTo(settings, endpoint, `dns:${endpoint.authority}`, purpose);
}

function connectionTo(settings: Settings, endpoint: Endpoint, target: string, purpose: Purpose) {
  const credentials = settings.credentials.channel(endpoint);
  return new Connection(target, credentials, channelOptions(settings, endpoint, purpose));
}

function channelOptions(settings: Settings, endpoint: Endpoint, purpose: Purpose): ChannelOptions {
  const name = settings.credentials.serverName(endpoint);
  return {
    "grpc.default_authority": endpoint.authority,
    // An address is no name of TLS.
    ...(endpoint.isEncrypted && !isIP(name) && { "grpc.ssl_target_name_override": name }),
    "grpc.primary_user_agent": `leasehold-node/${VERSION}`,
    "grpc.max_receive_message_length": LONGEST_MESSAGE,
    // A connection of its own, whose state nobody else changes.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_retries": 0,
    "grpc.enable_channelz": 0,
    "grpc.enable_http_proxy": 0,
    "grpc.service_config_disable_resolution": 1,
    // A stream of events is probed while it is open, because no message comes for as long as nothing happens.
    ...(purpose !== "calls" && {
      "grpc.keepalive_time_ms": KEEP_ALIVE,
      "grpc.keepalive_timeout_ms": KEEP_ALIVE,
    }),
    ...(purpose === "session" && { "grpc.keepalive_permit_without_calls": 1 }),
  };
}

/** Waits until there is a connection. Returns the reason why there is none. */
export async function ready(
  connection: Connection,
  endpoint: string,
  limit: number,
  signal?: AbortSignal,
): Promise<Failure | undefined> {
  const channel = connection.getChannel();
  let isOver = false;
  let wake: () => void = () => undefined;
  const end = () => {
    isOver = true;
    wake();
  };
  const timer = setTimeout(end, limit);
  signal?.addEventListener("abort", end);
  try {
    while (!isOver && !signal?.aborted) {
      const state = channel.getConnectivityState(true);
      if (state === ConnectivityState.READY) {
        return undefined;
      }
      if (state === ConnectivityState.SHUTDOWN) {
        return transportFailure(endpoint, "the client was closed");
      }
      if (state === ConnectivityState.TRANSIENT_FAILURE) {
        return await whyNot(connection, endpoint);
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
        channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => resolve());
      });
    }
    return timedOut(endpoint);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}

/** Makes a call, which fails at once and says why there is no connection. */
function whyNot(connection: Connection, endpoint: string): Promise<Failure | undefined> {
  return new Promise((resolve) => {
    const { path, encode, decode } = GET_STATUS;
    const call = connection.makeUnaryRequest(
      path,
      encode,
      decode,
      {},
      new Metadata(),
      () => undefined,
    );
    call.on("status", (status: StatusObject) => {
      const failure = failureFrom(endpoint, status);
      const message = explain(failure.message.replace(/^.*Last error: /s, ""));
      resolve(
        failure.isTransport ? transportFailure(endpoint, message, isDistrust(message)) : undefined,
      );
    });
  });
}

/**
 * Returns whether a connection failed because one side does not trust the other's certificate, or because what answers is no coordinator:
 * nothing that passes by itself.
 */
function isDistrust(message: string): boolean {
  return /certificate|altnames|\bssl\b|\bSSL\b|EPROTO|Protocol error|HTTP\/1|ALPN/.test(message);
}

/** Returns the words of a failed connection, with what to do where the cause is known. */
function explain(message: string): string {
  const words = message
    .replace(/\s*\. Resolution note: $/, "")
    .replace(/^Error( \[\w+\])?: /, "")
    .replace(/^[\dA-F]+:error:[^:]*:([^:]*):[^:]*:([^:]*):.*$/s, "$1: $2")
    .trim();
  if (/wrong version number|packet length too long/.test(words)) {
    return `${words}: what answers there does not speak TLS; use http:// or the coordinator's TLS port`;
  }
  if (/Protocol error|HTTP\/1/.test(words)) {
    return `${words}: what answers there is no coordinator's gRPC port, or speaks TLS; use https:// there`;
  }
  if (/^Failed to connect/.test(words)) {
    return "the connection was closed before anything was said; if the port speaks TLS, use https://";
  }
  return words;
}

/** Makes a connection of its own to one coordinator, within the limit. */
export async function dial(settings: Settings, to: Candidate, limit: number): Promise<Connection> {
  const { endpoint, address } = to;
  const { url, port } = endpoint;
  const target = isIP(address) === 6 ? `ipv6:[${address}]:${port}` : `ipv4:${address}:${port}`;
  const dialled = connectionTo(settings, endpoint, target, "session");
  const failure = await ready(dialled, url, limit);
  if (!failure) {
    return dialled;
  }
  dialled.close();
  throw failure.code === Code.DEADLINE_EXCEEDED
    ? new ConnectError(url, "timed_out", undefined, limit)
    : ConnectError.of(url, failure);
}
