import { LockLostError, LockSuspendedError } from "./errors";
import type { Held } from "./held";
import type { Logger } from "./options";

/**
 * Runs the work until it ends, and then gives the locks up: never before, so that nobody else gets them while it still runs. Rejects with
 * the loss if one of them was lost, and the error of the work as its cause, if that says more.
 */
export async function runUnder<T>(
  held: readonly Held[],
  signal: AbortSignal | undefined,
  log: Logger,
  work: (signal: AbortSignal) => T | PromiseLike<T>,
): Promise<T> {
  const stop = new AbortController();
  const abort = (by: AbortSignal) => stop.abort(by.reason);
  const signals: AbortSignal[] = signal ? [signal] : [];
  for (const hold of held) {
    hold.link(signal);
    signals.push(hold.signal);
  }
  const listeners = signals.map((one) => {
    const listener = () => abort(one);
    one.addEventListener("abort", listener);
    if (one.aborted) {
      listener();
    }
    return () => one.removeEventListener("abort", listener);
  });
  let result: { readonly value: T } | { readonly error: unknown };
  try {
    result = { value: await work(stop.signal) };
  } catch (error) {
    result = { error };
  }
  const losses = await Promise.all(held.map((hold) => hold.settled()));
  const lost = losses.find((loss) => loss !== undefined);
  for (const remove of listeners) {
    remove();
  }
  await Promise.all(
    held.map((hold) =>
      hold.end().catch((error: Error) => {
        log.debug(`the release after the work failed: ${error.message}`);
      }),
    ),
  );
  if (lost) {
    const own = "error" in result ? ownError(result.error, stop.signal) : undefined;
    throw own === undefined
      ? lost
      : new LockLostError(lost.lock, lost.token, lost.reason, { cause: own });
  }
  if ("error" in result) {
    throw result.error;
  }
  return result.value;
}

/** Returns what the work reported, unless it only says that it was stopped. @internal */
export function ownError(error: unknown, signal: AbortSignal): unknown {
  const isStop =
    error === signal.reason ||
    error instanceof LockLostError ||
    error instanceof LockSuspendedError ||
    (error instanceof Error && error.name === "AbortError");
  return isStop ? undefined : error;
}
