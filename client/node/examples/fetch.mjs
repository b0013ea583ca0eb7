// A lock by `fetch`, from a web page or a function without a library. The documentation quotes it; `test/readme.test.ts` runs it.
// example: fetch
const API = "http://127.0.0.1:7420/leasehold.v1.LockService";

async function call(method, message) {
  const answer = await fetch(`${API}/${method}`, {
    method: "POST",
    headers: { "content-type": "application/json" }, // and authorization: "Bearer TOKEN"
    body: JSON.stringify(message),
  });
  const body = await answer.json();
  if (!answer.ok) {
    throw new Error(`${body.code}: ${body.message}`);
  }
  return body;
}

const { outcome, ownerId, fencingToken } = await call("Acquire", {
  name: "orders/42",
  ttl: "30s",
  wait: "5s",
});
if (outcome === "ACQUIRE_OUTCOME_GRANTED") {
  try {
    console.log("held for 30 s from the request on, with token", fencingToken); // a string
    const { renewed } = await call("Renew", { name: "orders/42", ownerId, ttl: "30s" });
    console.log(renewed ? "held for 30 s more" : "lost: stop");
  } finally {
    await call("Release", { name: "orders/42", ownerId });
  }
}
// end example
