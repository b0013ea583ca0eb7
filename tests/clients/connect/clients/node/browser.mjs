// Calls with connect-web in Chromium. It prints the origin of its page, reads the site as JSON from its standard input, and prints a
// line for each way that worked. CHROMIUM is the path of the browser.

import { createHash, X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { chromium } from "playwright-core";

const bundle = await build({
  entryPoints: [fileURLToPath(new URL("page.mjs", import.meta.url))],
  bundle: true,
  format: "iife",
  write: false,
});
const contents = {
  "/": ["text/html", '<!doctype html><link rel="icon" href="data:,"><script src="/page.js"></script>'],
  "/page.js": ["text/javascript", bundle.outputFiles[0].text],
};

/** Serves the page, and returns its origin. */
async function serve() {
  const server = createServer((request, response) => {
    const [type, body] = contents[request.url] ?? ["text/plain", ""];
    response.writeHead(200, { "content-type": type }).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${server.address().port}`;
}

const [allowed, other] = [await serve(), await serve()];
console.log(allowed);
const site = await json(process.stdin);
contents["/descriptors"] = ["application/octet-stream", await readFile(site.descriptors)];

// Chromium trusts the one key of the coordinator.
const { publicKey } = new X509Certificate(await readFile(site.certificate));
const key = createHash("sha256").update(publicKey.export({ type: "spki", format: "der" })).digest("base64");

/** Opens Chromium, and makes all calls by a version of HTTP. */
async function callBy(version, protocol, flags) {
  const profile = await mkdtemp(join(tmpdir(), "chromium-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM,
    headless: true,
    args: ["--no-sandbox", `--ignore-certificate-errors-spki-list=${key}`, ...flags],
  });
  try {
    const page = await browser.newPage();
    const protocols = new Set();
    let gets = 0;
    const network = await browser.newCDPSession(page);
    network.on("Network.responseReceived", ({ response }) => {
      if (response.url.startsWith(site.endpoint)) {
        protocols.add(response.protocol);
      }
    });
    network.on("Network.requestWillBeSent", ({ request }) => {
      if (request.url.startsWith(site.endpoint) && request.method === "GET") {
        gets += 1;
      }
    });
    await network.send("Network.enable");
    await page.goto(allowed);
    const at = { ...site, prefix: `${site.prefix}${version}/` };
    for (const name of await page.evaluate((at) => globalThis.callAll(at), at)) {
      console.log(`${name} ${version}`);
    }
    const seen = [...protocols].join();
    if (seen !== protocol) {
      throw new Error(`the page called by ${seen}, expected ${protocol}`);
    }
    // With both codecs of Connect.
    if (gets !== 2) {
      throw new Error(`the page got ${gets} locks by GET`);
    }
    for (const [origin, expected] of [[other, false], [allowed, true]]) {
      await page.goto(origin);
      const may = await page.evaluate((at) => globalThis.mayCall(at), at);
      if (may !== expected) {
        throw new Error(`a page of ${origin === other ? "another" : "the allowed"} origin may call: ${may}`);
      }
    }
    console.log(`origins ${version}`);
  } finally {
    await browser.close();
    await rm(profile, { recursive: true, force: true });
  }
}

await callBy("HTTP/2", "h2", []);
await callBy("HTTP/1.1", "http/1.1", ["--disable-http2"]);
process.exit();
