// Texts of numbers, durations, times and values.

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});
const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const DASH = "–";

export const number = (value) => NUMBER.format(value);

/** Returns a number with its noun. */
export const count = (value, noun) => `${number(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;

/** Returns the time of day of a time. */
export const clock = (time) => CLOCK.format(time);

/** Returns a time with its date. */
export const date = (time) => DATE.format(time);

/** Returns a text, or a dash in place of an empty one. */
export const or = (text) => text || DASH;

/** Returns a duration of some milliseconds, in its two largest units. */
export function span(milliseconds) {
  if (milliseconds === null || Number.isNaN(milliseconds)) {
    return DASH;
  }
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 60) {
    return `${Math.floor(seconds)} s`;
  }
  const parts = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  const [[large, size], [small, next]] = parts.slice(first, first + 2);
  return `${Math.floor(seconds / size)} ${large} ${Math.floor((seconds % size) / next)} ${small}`;
}

/** Returns a short duration, as precisely as it is of use. */
export function latency(milliseconds) {
  if (milliseconds === null) {
    return DASH;
  }
  if (milliseconds > 0 && milliseconds < 0.05) {
    return "< 0.1 ms";
  }
  if (milliseconds >= 1000) {
    return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s`;
  }
  return `${milliseconds >= 10 || milliseconds === 0 ? Math.round(milliseconds) : milliseconds.toFixed(1)} ms`;
}

/** Returns the value of a hold, which is bytes in base64: as text, if it is one. */
export function value(base64) {
  if (!base64) {
    return DASH;
  }
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return count(bytes.length, "byte");
  }
}

/** Returns the name of an enum's value: `shared` of `LOCK_MODE_SHARED`. */
export function word(prefix, name = "") {
  const rest = name.startsWith(prefix) ? name.slice(prefix.length) : "";
  return rest === "UNSPECIFIED" ? "" : rest.toLowerCase().replaceAll("_", " ");
}

/** Returns the name that a holder or waiter is shown by. */
export function who({ clientName, sessionId, foreign }) {
  if (foreign) {
    return "another program";
  }
  return clientName || (sessionId ? `session ${sessionId.slice(0, 8)}` : "an unnamed caller");
}
