/**
 * Connections to coordinators.
 *
 * @module
 */

import { connect as connectTo, isIP } from "node:net";
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
import { failedAttempt } from "./grpc-texts";
import { GET_STATUS, type Method } from "./methods";
import type { Settings } from "./options";
import { clearTimeout, setTimeout } from "./timers";
import { VERSION } from "./version";

/** Interval of probes on a quiet connection of calls, and the time limit of their answers. */
const KEEP_ALIVE = 10_000;
/** Longest message, in bytes: a snapshot shows up to a hundred holders with values of 4 KiB in one. */
const LONGEST_MESSAGE = 16 << 20;

/** Longest time for an answer to a question of what listens somewhere. */
const PROBE_TIMEOUT = 1000;
/** Beginning of a connection of HTTP/2, with empty settings. */
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const CLOSED =
  "the connection was closed before anything was said; if the port speaks TLS, use https://";
const ONLY_HTTP1 =
  "what answers there is no coordinator's gRPC port (7420 by default), and may be its admin port, where the page is (7421)";

/** Makes a connection. Nothing is sent before `ready`. One of a session is not probed. */
export function connect(settings: Settings, to: Candidate, isProbed: boolean): Connection {
  const { endpoint, address } = to;
  const { port } = endpoint;
  const target = isIP(address) === 6 ? `ipv6:[${address}]:${port}` : `ipv4:${address}:${port}`;
  const credentials = settings.credentials.channel(endpoint);
  return new Connection(target, credentials, channelOptions(settings, endpoint, isProbed));
}

function channelOptions(settings: Settings, endpoint: Endpoint, isProbed: boolean): ChannelOptions {
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
    // A session misses answers to its heartbeats, and lives as long as its TTL says. Calls that wait and streams of events are probed while
    // they are open, because no message comes for as long as nothing happens.
    ...(isProbed && {
      "grpc.keepalive_time_ms": KEEP_ALIVE,
      "grpc.keepalive_timeout_ms": KEEP_ALIVE,
    }),
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

/** Makes one call. Returns its end, and the answer if there is one. */
export function unary<Q, A>(
  connection: Connection,
  { path, encode, decode }: Method<Q, A>,
  request: Q,
  metadata: Metadata,
  deadline = Number.POSITIVE_INFINITY,
  signal?: AbortSignal,
): Promise<{ status: StatusObject; answer: A | undefined }> {
  return new Promise((resolve) => {
    let answer: A | undefined;
    const options = { deadline };
    const call = connection.makeUnaryRequest(
      path,
      encode,
      decode,
      request,
      metadata,
      options,
      (_error, value) => {
        answer = value;
      },
    );
    const cancel = () => call.cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    call.on("status", (status: StatusObject) => {
      signal?.removeEventListener("abort", cancel);
      resolve({ status, answer });
    });
  });
}

/** Makes a call, which fails at once and says why there is no connection. */
async function whyNot(connection: Connection, endpoint: string): Promise<Failure | undefined> {
  const { status } = await unary(connection, GET_STATUS, {}, new Metadata());
  const failure = failureFrom(endpoint, status);
  if (!failure.isTransport) {
    return undefined;
  }
  const { words, isWordless, isDistrust } = failedAttempt(failure.message);
  if (!isWordless || endpoint.startsWith("https:")) {
    return transportFailure(endpoint, words, isDistrust);
  }
  const isOther = await speaksOnlyHttp1(connection.getChannel().getTarget());
  return transportFailure(endpoint, isOther ? ONLY_HTTP1 : CLOSED, isOther);
}

/** Returns whether what listens there answers to HTTP/1, and closes connections of HTTP/2 without a word. */
async function speaksOnlyHttp1(target: string): Promise<boolean> {
  const [, host = "", port] = /^ipv[46]:\[?([^\]]*?)\]?:(\d+)$/.exec(target) ?? [];
  const first = await answer(host, Number(port), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return first === "H" && (await answer(host, Number(port), PREFACE)) === "";
}

/** Says something. Returns the first character of the answer; an empty text if the connection is closed, and nothing if time is over. */
function answer(host: string, port: number, words: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connectTo({ host, port, timeout: PROBE_TIMEOUT }, () => socket.write(words));
    const end = (said: string | undefined) => {
      resolve(said);
      socket.destroy();
    };
    socket.on("data", (bytes) => end(bytes.toString("latin1").slice(0, 1)));
    socket.on("timeout", () => end(undefined));
    socket.on("error", (error) => end(failedAttempt(error.message).isWordless ? "" : undefined));
    socket.on("close", () => end(""));
  });
}

/** Makes a connection of its own to one coordinator, within the limit. */
export async function dial(settings: Settings, to: Candidate, limit: number): Promise<Connection> {
  const { url } = to.endpoint;
  const dialled = connect(settings, to, false);
  const failure = await ready(dialled, url, limit);
  if (!failure) {
    return dialled;
  }
  dialled.close();
  throw failure.code === Code.DEADLINE_EXCEEDED
    ? new ConnectError(url, "timed_out", undefined, limit)
    : ConnectError.of(url, failure);
}
