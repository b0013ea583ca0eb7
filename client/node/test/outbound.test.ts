import assert from "node:assert/strict";
import { once } from "node:events";
import { Writable } from "node:stream";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { SessionRequestSchema } from "../src/generated/leasehold/v1/session_pb";
import { connect } from "../src/index";
import { Outbound } from "../src/outbound";
import { Server } from "./server";

const acquire = create(SessionRequestSchema, { request: { case: "acquire", value: {} } });
const heartbeat = create(SessionRequestSchema, { request: { case: "heartbeat", value: {} } });

test("a stream that takes nothing is congested, and heartbeats overtake what waits for it", async () => {
  const written: unknown[] = [];
  let take: () => void = () => undefined;
  const stream = new Writable({
    objectMode: true,
    highWaterMark: 1,
    write(request, _encoding, done) {
      written.push(request);
      take = done;
    },
  });
  const outbound = new Outbound();
  outbound.start(stream);
  while (!outbound.isCongested) {
    outbound.push(acquire);
  }
  let hasRoom = false;
  const room = outbound.room().then(() => {
    hasRoom = true;
  });
  outbound.push(acquire);
  outbound.push(heartbeat);
  const next = async () => {
    const drained = once(stream, "drain");
    take();
    await drained;
  };
  await next();
  assert.equal(written.at(-1), heartbeat);
  assert(!hasRoom);
  await next();
  await next();
  await room;
  assert(!outbound.isCongested);
  while (!outbound.isCongested) {
    outbound.push(acquire);
  }
  const ended = outbound.room();
  outbound.end();
  await ended;
  assert(!outbound.isCongested);
});

test("more acquires than a stream takes are granted in order, and can be aborted in line", async () => {
  await using server = await Server.start();
  // On a busy machine, thousands of requests take longer than the default TTL.
  await using client = await connect(server.url, { ttl: 120_000 });
  await client.lock("crowded").with(() => undefined);
  server.process.kill("SIGSTOP");
  const granted: number[] = [];
  // Few of this size fit into the windows of the connection.
  const value = Buffer.alloc(4000);
  const all = Array.from({ length: 2000 }, (_, index) =>
    client.lock("crowded").with({ value }, () => {
      granted.push(index);
    }),
  );
  const stop = new AbortController();
  const last = client.lock("crowded").acquire({ signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(last, /enough/);
  server.process.kill("SIGCONT");
  await Promise.all(all);
  assert.deepEqual(
    granted,
    all.map((_, index) => index),
  );
});
