// The stream of WatchLocks, kept going: over ends, gaps and coordinators that are out of reach.

/** Rest after a failure, in milliseconds: doubled for each further one, up to the longest. */
const REST = 500;
const LONGEST_REST = 5000;

/**
 * Follows the locks below a prefix until `signal` is aborted, with one of the coordinators at a time. Calls
 * `receive.begin()`, `.lock(message)`, `.ready()` and `.event(message)`; and `receive.ended(error)` when the stream ends. Goes on to
 * the next coordinator, unless the refusal is one that every coordinator would give.
 */
export async function follow(apis, prefix, receive, signal) {
  let rest = REST;
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    const api = apis[attempt % apis.length];
    try {
      receive.begin();
      for await (const message of api.stream("AdminService/WatchLocks", { prefix }, signal)) {
        if (message.lock) {
          receive.lock(message.lock);
        } else if (message.ready) {
          rest = REST;
          receive.ready(api);
        } else if (message.event) {
          receive.event(message.event);
        } else if (message.gap) {
          receive.begin();
        }
      }
      receive.ended(null);
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      receive.ended(error);
      if (error.isFinal) {
        return;
      }
    }
    await pause(rest, signal);
    rest = Math.min(rest * 2, LONGEST_REST);
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
