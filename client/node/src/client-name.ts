/**
 * Name of a client that sets none: its program, host and process, by which operators find it.
 *
 * @module
 */

import { hostname } from "node:os";
import { parse } from "node:path";

/** Most bytes of the program's name. */
const LONGEST_PROGRAM = 32;
/** Most bytes of the host's name. */
const LONGEST_HOST = 64;

/** Returns the name `PROGRAM@HOST/PID` of this process. */
export function defaultClientName(): string {
  // Without a script, as where somebody types, it is Node itself.
  return nameOf(parse(process.argv[1] ?? process.argv0).name, hostname(), process.pid);
}

/** Returns the name of a process. */
export function nameOf(program: string, host: string, pid: number): string {
  return `${part(program, LONGEST_PROGRAM)}@${part(host, LONGEST_HOST)}/${pid}`;
}

/** Returns the text without control characters, which a coordinator would refuse, and with at most so many bytes. */
function part(text: string, most: number): string {
  let cut = "";
  for (const character of text.replace(/\p{Cc}/gu, "")) {
    if (Buffer.byteLength(cut + character) > most) {
      break;
    }
    cut += character;
  }
  return cut || "unknown";
}
