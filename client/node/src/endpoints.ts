import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { ConnectError, SettingsError } from "./errors";
import { transportFailure } from "./failure";

/** Port of a coordinator, where an endpoint names none. */
const DEFAULT_PORT = "7420";

/** One coordinator's URL. */
export interface Endpoint {
  /** URL with its scheme and port filled in. */
  readonly url: string;
  /** Host without brackets. */
  readonly host: string;
  /** Host, in brackets if it is an IPv6 address, and port. */
  readonly authority: string;
  readonly port: string;
  /** Whether it is an https URL. */
  readonly isEncrypted: boolean;
}

/** One coordinator, as far as this client can tell: one address of an endpoint. */
export interface Candidate {
  readonly endpoint: Endpoint;
  /** IP address. */
  readonly address: string;
}

/** Parses URLs. One without a scheme is an http URL, and the port is 7420 unless it names one. */
export function parseEndpoints(urls: string | readonly string[]): Endpoint[] {
  const list = typeof urls === "string" ? urls.split(",") : urls;
  if (!Array.isArray(list) || !list.every((url) => typeof url === "string")) {
    throw new SettingsError("the endpoints must be a URL or a list of URLs");
  }
  if (list.length === 0) {
    throw new SettingsError("there is no endpoint");
  }
  return list.map((url) => parseEndpoint(url.trim()));
}

function parseEndpoint(given: string): Endpoint {
  const quoted = JSON.stringify(given);
  let parsed: URL;
  try {
    parsed = new URL(given.includes("://") ? given : `http://${given}`);
  } catch {
    throw new SettingsError(`${quoted} is not a URL`);
  }
  const { protocol, hostname, port, username, password } = parsed;
  if (protocol !== "http:" && protocol !== "https:") {
    throw new SettingsError(`the scheme of ${quoted} is neither http nor https`);
  }
  if (username || password) {
    throw new SettingsError("the URL has a user name or a password, which coordinators don't take");
  }
  if (parsed.pathname !== "/" || parsed.search || parsed.hash) {
    throw new SettingsError(
      `${quoted} has a path: coordinators are at the root of their port; write ${protocol}//${parsed.host}`,
    );
  }
  if (port === "0") {
    throw new SettingsError(`the port of ${quoted} is not between 1 and 65535`);
  }
  // `URL` drops the scheme's own port.
  const isExplicit = /:\d+$/.test(given.replace(/^[^:]+:\/\//, "").split(/[/?#]/)[0] ?? "");
  const schemes = protocol === "https:" ? "443" : "80";
  const used = port || (isExplicit ? schemes : DEFAULT_PORT);
  return {
    url: `${protocol}//${hostname}:${used}`,
    host: hostname.replace(/^\[|\]$/g, ""),
    authority: `${hostname}:${used}`,
    port: used,
    isEncrypted: protocol === "https:",
  };
}

/** Returns whether messages to there stay on this machine. It does not look names up, because the answer could be a lie. */
export function isLoopback({ host }: Endpoint): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** Looks up the addresses that an endpoint stands for at present. */
async function resolve(endpoint: Endpoint): Promise<Candidate[]> {
  if (isIP(endpoint.host)) {
    return [{ endpoint, address: endpoint.host }];
  }
  try {
    const found = await lookup(endpoint.host, { all: true });
    return found.map(({ address }) => ({ endpoint, address }));
  } catch (error) {
    const why = `the name has no address: ${(error as Error).message}`;
    throw new ConnectError(endpoint.url, "unreachable", transportFailure(endpoint.url, why));
  }
}

/** Looks up the addresses of all endpoints at once. Returns also why some have none. */
export async function findAll(
  endpoints: readonly Endpoint[],
): Promise<{ found: Candidate[]; errors: ConnectError[] }> {
  const found: Candidate[] = [];
  const errors: ConnectError[] = [];
  for (const one of await Promise.allSettled(endpoints.map(resolve))) {
    if (one.status === "fulfilled") {
      found.push(...one.value);
    } else if (one.reason instanceof ConnectError) {
      errors.push(one.reason);
    }
  }
  return { found, errors };
}

/** Returns what tells a candidate from others. */
export function keyOf({ endpoint, address }: Candidate): string {
  return `${endpoint.url} ${address}`;
}
