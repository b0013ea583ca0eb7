// Calls of a web page with connect-web. The page has these functions; browser.mjs calls them.

import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { callEverything, schema } from "./scenario.mjs";

const ways = (site, registry) => {
  const way = (name, create, options) => ({
    name,
      transport: (interceptor) =>
      create({ baseUrl: site.endpoint, interceptors: [interceptor], jsonOptions: { registry }, ...options }),
  });
  return [
    way("connect json", createConnectTransport, { useBinaryFormat: false, useHttpGet: true }),
    way("connect proto", createConnectTransport, { useBinaryFormat: true, useHttpGet: true }),
    way("grpc-web", createGrpcWebTransport, {}),
  ];
};

/** Makes all calls, and returns the names of the ways. */
globalThis.callAll = async (site) => {
  const descriptors = await fetch("/descriptors").then((response) => response.arrayBuffer());
  const registry = schema(new Uint8Array(descriptors));
  const names = [];
  for (const one of ways(site, registry)) {
    try {
      await callEverything(registry, site, one);
    } catch (error) {
      throw new Error(`${one.name}: ${error.stack}`);
    }
    names.push(one.name);
  }
  return names;
};

/** Makes one call, and returns whether the browser shows the page its answer. */
globalThis.mayCall = (site) =>
  fetch(`${site.endpoint}/leasehold.v1.LockService/Acquire`, {
    method: "POST",
    headers: { authorization: `Bearer ${site.token}`, "content-type": "application/json" },
    body: JSON.stringify({ name: `${site.prefix}page` }),
  }).then((response) => response.ok, () => false);
