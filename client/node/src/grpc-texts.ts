/**
 * Texts of grpc-js, and of Node's TLS in its messages, by which this client tells what broke: grpc-js hands on a code and a text, and
 * neither the error behind it nor the stream's own code. All such texts are here, and `grpc-texts.test.ts` brings them about with the
 * grpc-js that is installed, so that it fails if one changes. A text that is not known any more costs no lock: the call is not repeated
 * elsewhere, or a connection that can't work is tried again.
 *
 * @module
 */

/** INTERNAL that is no coordinator's: a stream was reset, written to or begun too late, or what answered speaks another protocol. */
const BROKEN =
  /^(Received RST_STREAM|Write error|Failed to start HTTP\/2 stream|Received HTTP status)/;
/** What is around the words of the last attempt to connect. */
const AROUND =
  /^.*Last error: (?:Error(?: \[\w+\])?: )?|(?: \([\d-]+T[\d:.]+Z\))?\s*\. Resolution note: $/gs;
/** OpenSSL's form of an error, with the function and the reason. */
const OPENSSL = /^[\dA-F]+:error:[^:]*:([^:]*):[^:]*:([^:]*):.*$/s;
/** Connection that was closed without a word; it is reset if that was before all was read. */
const WORDLESS = /^Failed to connect|ECONNRESET|EPIPE/;
/** One side does not trust the other's certificate, or what answers is no coordinator: that does not pass by itself. */
const DISTRUST = /certificate|altnames|\bssl\b|\bSSL\b|EPROTO|Protocol error|HTTP\/1|ALPN/;
const NO_TLS = /wrong version number|packet length too long/;
const NO_HTTP2 = /Protocol error|HTTP\/1/;

/** Returns whether a status INTERNAL without a reason is that of a broken connection. */
export function isBroken(details: string): boolean {
  return BROKEN.test(details);
}

/** Failed attempt to connect. */
export interface FailedAttempt {
  /** What failed, with what to do where the cause is known. */
  readonly words: string;
  /** Whether the connection was closed without a word. */
  readonly isWordless: boolean;
  /** Whether no later attempt can do better. */
  readonly isDistrust: boolean;
}

/** Returns what grpc-js says of the last attempt to connect. */
export function failedAttempt(details: string): FailedAttempt {
  const said = details.replace(AROUND, "").replace(OPENSSL, "$1: $2").trim();
  let words = said;
  if (NO_TLS.test(said)) {
    words = `${said}: what answers there does not speak TLS; use http:// or the coordinator's TLS port`;
  } else if (NO_HTTP2.test(said)) {
    words = `${said}: what answers there is no coordinator's gRPC port, or speaks TLS; use https:// there`;
  }
  return { words, isWordless: WORDLESS.test(said), isDistrust: DISTRUST.test(said) };
}
