/** Texts of the grpc-js that is installed, and of Node's TLS in them: a server brings each about that can be. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createHttp1 } from "node:http";
import { constants, createServer as createHttp2, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { createServer as createTls } from "node:tls";
import { status as Code } from "@grpc/grpc-js";
import { Client, type ClientOptions, ConnectError, connect, Failure } from "../src/index";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };
/** A certificate of elsewhere.test, by itself. */
const cert = `-----BEGIN CERTIFICATE-----
MIIBcTCCARagAwIBAgIBATAKBggqhkjOPQQDAjAZMRcwFQYDVQQDDA5lbHNld2hl
cmUudGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGTEXMBUG
A1UEAwwOZWxzZXdoZXJlLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARw
k4n/xEh/BpOO8PFM0QdhiepJbl2aLdCG6b/myzTYHwJqEwj4j1fbfMXaCgS4Q4IU
OH6DbAQZgvq6M1DV02XKo00wSzAZBgNVHREEEjAQgg5lbHNld2hlcmUudGVzdDAP
BgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBRKPq0dKUjYqWjBJZmkVJpVmtT0TjAK
BggqhkjOPQQDAgNJADBGAiEAnYb6ECVY5CK7Ohoi4TJlioRMrkn9AkPTKcUBWv+Y
/EwCIQCmpI6riY7CvEoNwFNskMor1CEYUzaJ9XoyiZOkhE6NIw==
-----END CERTIFICATE-----`;
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg09PJm75/OSBXEzet
08bs+YhfcuJGCwCQX4MEALoitdihRANCAARwk4n/xEh/BpOO8PFM0QdhiepJbl2a
LdCG6b/myzTYHwJqEwj4j1fbfMXaCgS4Q4IUOH6DbAQZgvq6M1DV02XK
-----END PRIVATE KEY-----`;

async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const tls = (options = {}) =>
  createTls({ cert, key, ALPNProtocols: ["h2"], ...options }, (socket) => {
    socket.on("error", () => undefined);
  });
const known = { ca: cert, serverName: "elsewhere.test" };

const CONNECTIONS: [
  what: string,
  server: () => Server,
  scheme: string,
  tls: ClientOptions["tls"],
  isRetryable: boolean,
  words: RegExp,
][] = [
  [
    "a port that closes connections",
    () => createServer((socket) => socket.destroy()),
    "http",
    undefined,
    true,
    /closed before anything was said/,
  ],
  [
    "a port of HTTP/1",
    () => createHttp1((_request, response) => response.end()),
    "http",
    undefined,
    false,
    /no coordinator's gRPC port/,
  ],
  ["a port of TLS, without it", tls, "http", undefined, true, /speaks TLS, use https/],
  [
    "a port without TLS, with it",
    () => createServer((socket) => socket.on("error", () => undefined).end("hello\n")),
    "https",
    known,
    false,
    /does not speak TLS; use http:/,
  ],
  ["an unknown certificate", tls, "https", undefined, false, /self-signed certificate/],
  ["a certificate of another name", tls, "https", { ca: cert }, false, /altnames/],
  [
    "a port that wants a certificate",
    () => tls({ requestCert: true, rejectUnauthorized: true }),
    "https",
    known,
    false,
    /certificate/,
  ],
];
for (const [what, make, scheme, options, isRetryable, words] of CONNECTIONS) {
  test(`${what} is told by grpc-js as this client knows it`, async () => {
    const server = make();
    const address = await listening(server);
    try {
      const settings = { logger: QUIET, ...(options && { tls: options }) };
      await assert.rejects(connect(`${scheme}://${address}`, settings), (error) => {
        assert(error instanceof ConnectError);
        assert.match(error.message, words);
        assert.equal(error.isRetryable, isRetryable, error.message);
        return true;
      });
    } finally {
      server.close();
    }
  });
}

test("a port where nothing listens is told by grpc-js as this client knows it", async () => {
  const server = createServer();
  const address = await listening(server);
  server.close();
  await once(server, "close");
  await assert.rejects(connect(`http://${address}`, { logger: QUIET }), (error) => {
    assert(error instanceof ConnectError && error.isRetryable, `${error}`);
    assert.match(error.message, new RegExp(`: connect ECONNREFUSED ${address}$`));
    return true;
  });
});

const STREAMS: [what: string, end: (stream: ServerHttp2Stream) => void, isTransport: boolean][] = [
  ["reset", (stream) => stream.close(constants.NGHTTP2_PROTOCOL_ERROR), true],
  ["reset by a failure", (stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR), true],
  ["refused by HTTP", (stream) => stream.respond({ ":status": 400 }, { endStream: true }), true],
  [
    "answered",
    (stream) => {
      const answer = { "content-type": "application/grpc", "grpc-status": Code.INTERNAL };
      stream.respond(answer, { endStream: true });
    },
    false,
  ],
];
test("a stream that breaks is told by grpc-js as this client knows it", async () => {
  let end: (stream: ServerHttp2Stream) => void = () => undefined;
  const server = createHttp2();
  server.on("stream", (stream) => {
    stream.on("error", () => undefined);
    end(stream);
  });
  const client = new Client(`http://${await listening(server)}`, { logger: QUIET });
  for (const [what, ends, isTransport] of STREAMS) {
    end = ends;
    await assert.rejects(client.election("a").leader(), (error) => {
      assert(error instanceof Failure && error.code === Code.INTERNAL, `${what}: ${error}`);
      assert.equal(error.isTransport, isTransport, `${what}: ${error}`);
      return true;
    });
  }
  await client.close();
  server.close();
});

test("texts that no server brings about are in grpc-js", () => {
  const folder = dirname(require.resolve("@grpc/grpc-js"));
  const texts = {
    "subchannel-call.js": ["`Write error: ", "`Received RST_STREAM with code "],
    "load-balancing-call.js": ["'Failed to start HTTP/2 stream with error '"],
    "load-balancer-pick-first.js": [
      "No connection established. Last error: $",
      ". Resolution note: $",
    ],
    "transport.js": ["'Failed to connect'", " ($"],
  };
  for (const [file, all] of Object.entries(texts)) {
    const source = readFileSync(join(folder, file), "utf8");
    for (const text of all) {
      assert(source.includes(text), `${file} has no ${text}`);
    }
  }
});
