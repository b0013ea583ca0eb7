// Calls of the coordinators, from outside the page.

/** Longest time until the page shows a change, in milliseconds. */
export const SOON = 1000;
/** Longest time for what may take longer. */
export const PATIENCE = 10_000;

/** Calls a coordinator that asks for no token. */
export function caller(endpoint) {
  const call = async (method, request) => {
    const response = await fetch(`${endpoint}/leasehold.v1.${method}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request),
    });
    const answer = await response.json();
    if (!response.ok) {
      throw new Error(`${method}: ${JSON.stringify(answer)}`);
    }
    return answer;
  };
  return {
    call,
    acquire: async (name, clientName, options = {}) => {
      const answer = await call("LockService/Acquire", { name, clientName, ttl: "60s", ...options });
      check(answer.outcome === "ACQUIRE_OUTCOME_GRANTED", `${clientName} expected to be granted ${name}`, answer);
      return answer;
    },
    release: (name, { ownerId }) => call("LockService/Release", { name, ownerId }),
    holder: async (name) => (await call("AdminService/GetLock", { name })).lock.holders?.[0]?.clientName,
  };
}

/** Fails unless `holds`. */
export function check(holds, what, found = "") {
  if (!holds) {
    throw new Error(`${what}: ${typeof found === "string" ? found : JSON.stringify(found)}`);
  }
}

/** Returns what `read` returns once `holds` of it, or fails after `patience` milliseconds. */
export async function until(what, read, holds, patience = PATIENCE) {
  const start = performance.now();
  for (;;) {
    const found = await read();
    if (holds(found)) {
      return found;
    }
    check(performance.now() - start < patience, `expected ${what} within ${patience} ms`, found);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
