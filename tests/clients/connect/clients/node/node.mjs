// Calls with connect-node. It reads the site as JSON from its standard input, and prints a line for each way that worked.

import { readFile } from "node:fs/promises";
import { json } from "node:stream/consumers";

import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";

import { callEverything, schema } from "./scenario.mjs";

const site = await json(process.stdin);
const registry = schema(await readFile(site.descriptors));
const ca = await readFile(site.ca);

const way = (name, create, options) => ({
  name,
  transport: (interceptor) =>
    create({
      baseUrl: site.endpoint,
      nodeOptions: { ca },
      interceptors: [interceptor],
      jsonOptions: { registry },
      ...options,
    }),
});
const gzip = { sendCompression: compressionGzip, compressMinBytes: 0 };
const get = { useHttpGet: true };
const ways = [
  way("connect proto HTTP/1.1", createConnectTransport, { httpVersion: "1.1", useBinaryFormat: true, ...get }),
  way("connect proto HTTP/2", createConnectTransport, { httpVersion: "2", useBinaryFormat: true, ...get, ...gzip }),
  way("connect json HTTP/1.1", createConnectTransport, { httpVersion: "1.1", useBinaryFormat: false, ...get, ...gzip }),
  way("connect json HTTP/2", createConnectTransport, { httpVersion: "2", useBinaryFormat: false, ...get }),
  way("grpc-web HTTP/1.1", createGrpcWebTransport, { httpVersion: "1.1" }),
  way("grpc-web HTTP/2", createGrpcWebTransport, { httpVersion: "2" }),
  way("grpc HTTP/2", createGrpcTransport, {}),
];
for (const one of ways) {
  try {
    await callEverything(registry, site, one);
  } catch (error) {
    throw new Error(one.name, { cause: error });
  }
  console.log(one.name);
}
// Connections are kept for later calls.
process.exit();
