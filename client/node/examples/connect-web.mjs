// A lock by connect-web, with the descriptors of this package. The documentation quotes it; `matrix` runs it.
// example: connect-web
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AcquireOutcome, AdminService, LockService } from "leasehold/v1";

const transport = createConnectTransport({ baseUrl: "http://127.0.0.1:7420" });
const locks = createClient(LockService, transport);
const admin = createClient(AdminService, transport);

const ttl = { seconds: 30n };
const { outcome, ownerId, fencingToken } = await locks.acquire({ name: "orders/42", ttl });
if (outcome === AcquireOutcome.GRANTED) {
  try {
    console.log("held for 30 s from the request on, with token", fencingToken);
    const { renewed } = await locks.renew({ name: "orders/42", ownerId, ttl });
    console.log(renewed ? "held for 30 s more" : "lost: stop");
    for await (const message of admin.watchLocks({ prefix: "orders/" })) {
      console.log("seen:", message.response.case);
      break;
    }
  } finally {
    await locks.release({ name: "orders/42", ownerId });
  }
}
// end example
