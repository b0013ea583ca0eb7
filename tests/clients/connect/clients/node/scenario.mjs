// Calls of a user of connect-es, in Node and in a browser alike: acquires, refusals, renewals, releases and watches.

import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";

/** Longest time of one way to call. */
const LIMIT = 20_000;

/** Returns the descriptors that generated code would have. */
export function schema(descriptors) {
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
}

/** Lets all requests show the token, unless the call has its own. */
function authorize(token) {
  return (next) => (request) => {
    if (!request.header.has("authorization")) {
      request.header.set("authorization", `Bearer ${token}`);
    }
    return next(request);
  };
}

function check(holds, what, shown) {
  if (!holds) {
    throw new Error(`${what}: ${JSON.stringify(shown, (_, value) => typeof value === "bigint" ? `${value}` : value)}`);
  }
}

/**
 * Makes all calls with one transport, which `transport` returns for an interceptor.
 */
export async function callEverything(registry, site, { name: way, transport }) {
  const through = transport(authorize(site.token));
  const locks = createClient(registry.getService("leasehold.v1.LockService"), through);
  const admin = createClient(registry.getService("leasehold.v1.AdminService"), through);
  const outcomes = registry.getEnum("leasehold.v1.AcquireOutcome").value;
  const kinds = registry.getEnum("leasehold.v1.LockEventKind").value;
  const name = `${site.prefix}${way}`;
  const clientName = "connect-es";
  const options = { timeoutMs: LIMIT };

  // It is refused without a token, and what it has no permission for.
  const stranger = { ...options, headers: { authorization: "Bearer none" } };
  await refused(registry, locks.acquire({ name }, stranger), Code.Unauthenticated, "UNAUTHENTICATED");
  await refused(registry, locks.acquire({ name: `not/${name}` }, options), Code.PermissionDenied, "PERMISSION_DENIED");

  const stop = new AbortController();
  const events = admin.watchLocks({ prefix: name }, { ...options, signal: stop.signal })[Symbol.asyncIterator]();
  const first = await events.next();
  check(first.value?.response.case === "ready", "the watcher expected to be ready", first.value);
  const happened = async (kind) => {
    const { value } = await events.next();
    const event = value?.response.value;
    check(kinds[event?.kind]?.name === `LOCK_EVENT_KIND_${kind}`, `the watcher expected ${kind}`, value);
  };

  const granted = await locks.acquire({ name, clientName }, options);
  check(outcomes[granted.outcome].name === "ACQUIRE_OUTCOME_GRANTED", "acquire", granted);
  await happened("GRANTED");
  const busy = await locks.acquire({ name, clientName }, options);
  check(outcomes[busy.outcome].name === "ACQUIRE_OUTCOME_BUSY", "acquire of a held lock", busy);

  const { lock } = await admin.getLock({ name }, options);
  check(lock.holders.length === 1 && lock.holders[0].clientName === clientName, "the lock is shown", lock);

  const owned = { name, ownerId: granted.ownerId };
  const renewed = await locks.renew(owned, options);
  check(renewed.renewed, "renew", renewed);
  for (const expected of [true, false]) {
    const { released } = await locks.release(owned, options);
    check(released === expected, "release", released);
  }
  await happened("RELEASED");
  const end = events.next();
  stop.abort();
  const code = await end.then(() => undefined, (error) => ConnectError.from(error).code);
  check(code === Code.Canceled, "code of the cancelled watch", code);
}

/** Checks the code and the reason of a refusal. */
async function refused(registry, call, code, reason) {
  const error = await call.then((response) => check(false, `expected ${reason}`, response), ConnectError.from);
  const info = error.findDetails(registry).find((detail) => detail.$typeName === "google.rpc.ErrorInfo");
  check(error.code === code && info?.reason === reason && info.domain === "leasehold", `expected ${reason}`, `${error}`);
}
