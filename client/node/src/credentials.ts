import { checkServerIdentity, createSecureContext, type SecureContext } from "node:tls";
import { ChannelCredentials, Metadata } from "@grpc/grpc-js";
import { type Endpoint, isLoopback } from "./endpoints";
import { SettingsError } from "./errors";
import { FromFiles } from "./files";
import type { Logger } from "./options";

/** Longest token, in bytes: coordinators take this much as one header, and no JWT should have more. */
const LONGEST_TOKEN = 8 << 10;

/** Options for TLS. All are in PEM: the text itself, or the path of a file, which is read again when it changes. */
export interface TlsOptions {
  /** Certificates of the authorities that the client trusts. Default: those that Node trusts. */
  ca?: string | undefined;
  /** Certificate that the client shows, with any intermediate certificates. Default: none. Needs `key`. */
  cert?: string | undefined;
  /** Private key of the certificate. */
  key?: string | undefined;
  /** Name or address that must be in the coordinators' certificates. Default: the host of the endpoint, at whatever address. */
  serverName?: string | undefined;
}

/** Options for a client's identity, and the authorities that it trusts. */
export interface CredentialOptions {
  /**
   * TLS for https endpoints. When a certificate is replaced, sessions move to a connection with the new one, with all that they hold.
   */
  tls?: TlsOptions | undefined;
  /**
   * Bearer token that the client shows with every call and session. Over http the client sends it to this machine only, unless
   * `allowPlaintextToken` is set. Default: none.
   */
  token?: string | undefined;
  /**
   * Path of a file with the bearer token in its only line, in place of `token`. A changed file is read again, so that a token can be
   * replaced before it expires: calls use the new one, and sessions move to a connection that does.
   */
  tokenFile?: string | undefined;
  /**
   * Whether the bearer token may be sent over http to other machines too, where anybody on the way can read and use it. Only for networks
   * that encrypt by other means, such as a mesh.
   */
  allowPlaintextToken?: boolean | undefined;
}

/** Credentials of a client; read anew when their files change. */
export class Credentials {
  readonly #tls: FromFiles<SecureContext> | undefined;
  readonly #serverName: string | undefined;
  /** The authorization header of a token that is not in a file. */
  readonly #given: string | undefined;
  readonly #token: FromFiles<string> | undefined;

  constructor(options: CredentialOptions, endpoints: readonly Endpoint[], log: Logger) {
    const { tls = {}, token, tokenFile, allowPlaintextToken } = options;
    const isEncrypted = endpoints.some((endpoint) => endpoint.isEncrypted);
    if (typeof tls !== "object" || tls === null) {
      throw new SettingsError("the setting tls must be an object");
    }
    const texts = {
      "tls.ca": tls.ca,
      "tls.cert": tls.cert,
      "tls.key": tls.key,
      "tls.serverName": tls.serverName,
      token,
      tokenFile,
    };
    for (const [setting, text] of Object.entries(texts)) {
      if (text !== undefined && typeof text !== "string") {
        throw new SettingsError(`the setting ${setting} must be a string`);
      }
      if (setting.startsWith("tls.") && text && !isEncrypted) {
        throw new SettingsError(`the setting ${setting} needs https:// URLs`);
      }
    }
    this.#serverName = tls.serverName || undefined;
    for (const endpoint of endpoints) {
      const isSafe = endpoint.isEncrypted || isLoopback(endpoint) || allowPlaintextToken;
      if ((token || tokenFile) && !isSafe) {
        throw new SettingsError(
          `the token would go to ${endpoint.url} unencrypted: use https, or allowPlaintextToken if the network encrypts by other means`,
        );
      }
    }
    if (Boolean(tls.cert) !== Boolean(tls.key)) {
      throw new SettingsError("a client certificate needs its key, and a key its certificate");
    }
    if (isEncrypted) {
      const files = parts(tls).filter((part): part is string => Boolean(part) && !isPem(part));
      this.#tls = read(
        "the TLS files",
        () => new FromFiles(files, (contents) => secureContext(tls, contents), log),
      );
    }
    if (tokenFile) {
      const parse = ([content]: readonly Buffer[]) =>
        authorization(content?.toString("utf8") ?? "");
      this.#token = read("the token file", () => new FromFiles([tokenFile], parse, log));
    } else if (token) {
      this.#given = read("the token", () => authorization(token));
    }
  }

  /** Returns the metadata of a call, with the token as it is now. */
  metadata(more: Readonly<Record<string, string>> = {}): Metadata {
    const metadata = new Metadata();
    for (const [key, value] of Object.entries(more)) {
      metadata.set(key, value);
    }
    const header = this.#token?.value ?? this.#given;
    if (header) {
      metadata.set("authorization", header);
    }
    return metadata;
  }

  /** Returns a number that rises whenever the files have other contents. */
  get version(): number {
    return this.certificates + (this.#token?.version ?? 0);
  }

  /** Returns a number that rises whenever the files of the certificates have other contents. */
  get certificates(): number {
    return this.#tls?.version ?? 0;
  }

  /** Returns the name that must be in the certificate of this coordinator, whatever its address. */
  serverName(endpoint: Endpoint): string {
    return this.#serverName ?? endpoint.host;
  }

  /** Returns the credentials of a connection to the endpoint, with the files as they are now. */
  channel(endpoint: Endpoint): ChannelCredentials {
    if (!endpoint.isEncrypted || !this.#tls) {
      return ChannelCredentials.createInsecure();
    }
    const name = this.serverName(endpoint);
    return ChannelCredentials.createFromSecureContext(this.#tls.value, {
      checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    });
  }
}

function read<T>(what: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw new SettingsError(`${what} can't be used: ${(error as Error).message}`);
  }
}

function parts({ ca, cert, key }: TlsOptions): (string | undefined)[] {
  return [ca, cert, key];
}

/** Returns whether it is the text itself, rather than the path of a file. */
function isPem(part: string | undefined): boolean {
  return part?.includes("-----BEGIN ") ?? false;
}

function secureContext(tls: TlsOptions, contents: readonly Buffer[]): SecureContext {
  const files = contents.values();
  const [ca, cert, key] = parts(tls).map((part) => {
    return part && (isPem(part) ? part : files.next().value);
  });
  if (ca && !ca.includes("-----BEGIN CERTIFICATE-----")) {
    throw new Error(`there is no certificate in PEM in ${tls.ca}`);
  }
  return createSecureContext({
    minVersion: "TLSv1.2",
    ...(ca && { ca }),
    ...(cert && key && { cert, key }),
  });
}

/** Returns the header of a token. */
function authorization(token: string): string {
  const trimmed = token.trim();
  // The token itself is secret.
  if (!/^[\x21-\x7e]+$/.test(trimmed) || trimmed.length > LONGEST_TOKEN) {
    throw new Error(`expected 1 to ${LONGEST_TOKEN} visible ASCII characters in one line`);
  }
  return `Bearer ${trimmed}`;
}
