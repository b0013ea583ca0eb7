// Envelopes of Connect's streams: a byte of flags, four bytes of length, and a message in JSON.

const HEAD = 5;
const LAST = 2;

/** Returns a message in its envelope. */
export function wrap(message) {
  const json = new TextEncoder().encode(JSON.stringify(message));
  const envelope = new Uint8Array(HEAD + json.length);
  new DataView(envelope.buffer).setUint32(1, json.length);
  envelope.set(json, HEAD);
  return envelope;
}

/** Yields the messages of a body, each with whether it is the one that ends the stream. */
export async function* messages(body) {
  let buffer = new Uint8Array();
  for await (const chunk of chunks(body)) {
    const joined = new Uint8Array(buffer.length + chunk.length);
    joined.set(buffer);
    joined.set(chunk, buffer.length);
    let start = 0;
    while (joined.length - start >= HEAD) {
      const length = new DataView(joined.buffer, start).getUint32(1);
      const end = start + HEAD + length;
      if (joined.length < end) {
        break;
      }
      const message = JSON.parse(new TextDecoder().decode(joined.subarray(start + HEAD, end)));
      yield { message, isLast: (joined[start] & LAST) !== 0 };
      start = end;
    }
    buffer = joined.slice(start);
  }
}

/** Yields the chunks of a body. Safari can't iterate over bodies. */
async function* chunks(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      yield value;
    }
  } finally {
    // Ends the call if the caller has left the loop.
    await reader.cancel().catch(() => {});
  }
}
