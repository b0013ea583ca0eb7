/** Ports of something else: that passes by no attempt, and the error says what to change. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { AcquireError, Client, ConnectError, connect } from "../src/index";
import { Server } from "./server";

const QUIET = { debug: () => undefined, info: () => undefined, warn: () => undefined };

test("the admin port is told apart, and not tried for ever", async () => {
  await using server = await Server.start();
  const { port } = new URL(server.adminUrl);
  const url = `http://127.0.0.1:${port}`;
  await assert.rejects(connect(url, { logger: QUIET }), (error) => {
    assert(error instanceof ConnectError && !error.isRetryable, `${error}`);
    assert.match(error.message, /no coordinator's gRPC port/);
    return true;
  });
  await using client = new Client(url, { logger: QUIET });
  // It has no wait: it would try for ever.
  await assert.rejects(client.lock("a").acquire(), (error) => {
    return error instanceof AcquireError && !error.isRetryable;
  });
  await assert.rejects(client.detachedLock("a").acquire(), (error) => {
    return error instanceof AcquireError && !error.isRetryable;
  });
});

test("a port that resets connections of HTTP/2 is told apart", async () => {
  const port = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (bytes) => {
      if (bytes.toString().startsWith("GET")) {
        socket.end("HTTP/1.1 200 OK\r\n\r\n");
      } else {
        socket.resetAndDestroy();
      }
    });
  });
  await once(port.listen(0, "127.0.0.1"), "listening");
  const { port: number } = port.address() as AddressInfo;
  await assert.rejects(connect(`http://127.0.0.1:${number}`, { logger: QUIET }), (error) => {
    assert(error instanceof ConnectError && !error.isRetryable, `${error}`);
    assert.match(error.message, /no coordinator's gRPC port/);
    return true;
  });
  port.close();
});

test("https to a port without TLS is not tried for ever", async () => {
  await using server = await Server.start();
  await using client = new Client(server.url.replace("http:", "https:"), { logger: QUIET });
  await assert.rejects(client.lock("a").acquire(), (error) => {
    assert(error instanceof AcquireError && !error.isRetryable);
    assert.match(error.message, /does not speak TLS/);
    return true;
  });
});
