/**
 * Bodies: work that runs under locks. Each knows those that it runs inside of, by which a flow that asks for what it holds is found out.
 *
 * @module
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { Actor } from "./actor";
import type { SessionCore } from "./core";
import { AcquireError, ClosedError, LockLostError, LockSuspendedError } from "./errors";
import type { Held } from "./held";
import type { Logger } from "./options";
import { follow } from "./signals";
import { clearTimeout, setTimeout } from "./timers";

/** Work that a close tells to stop, and waits for. */
export class Work {
  /** Tells the work to stop. */
  readonly stop = new AbortController();
  /** Settled when it has ended, with the releases of its locks. */
  readonly ended: Promise<void>;
  end!: () => void;

  constructor(readonly names: readonly string[]) {
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }
}

/** Works that one close waits for: those of a session, or those of a client that have none. */
export class Works {
  readonly #running = new Set<Work>();
  #closed: Promise<void> | undefined;

  /** Notes that work begins. Returns false if it must not, because of the close. */
  begin(work: Work): boolean {
    if (!this.#closed) {
      this.#running.add(work);
    }
    return !this.#closed;
  }

  /** Notes that work has ended. */
  finish(work: Work): void {
    this.#running.delete(work);
    work.end();
  }

  /**
   * Tells the works to stop, and waits for them within the bound, or until their session is over. Logs the locks of those that still run
   * then. All calls are one.
   */
  close(bound: number, log: Logger, over?: Promise<void>): Promise<void> {
    this.#closed ??= this.#close(bound, log, over);
    return this.#closed;
  }

  async #close(bound: number, log: Logger, over: Promise<void> | undefined): Promise<void> {
    const works = [...this.#running];
    if (works.length === 0) {
      return;
    }
    const closing = new ClosedError("the client is being closed");
    for (const { stop } of works) {
      stop.abort(closing);
    }
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, bound);
    });
    await Promise.race([Promise.all(works.map(({ ended }) => ended)), over ?? late, late]);
    clearTimeout(timer);
    const left = [...this.#running].flatMap(({ names }) => names);
    if (left.length > 0) {
      const locks = left.map((name) => JSON.stringify(name)).join(", ");
      log.warn(
        `closed while work still ran ${bound} ms after it was told to stop, under ${locks}; set closeTimeout`,
      );
    }
  }
}

/** Work of a function that runs under locks. */
export class Body extends Work {
  /** Whether the work has ended. */
  isOver = false;
  /** Whether a request of its actor is under way, or the work of one. */
  isBusy = false;
  readonly outer = currentBody();

  constructor(
    readonly core: SessionCore,
    names: readonly string[],
    readonly actor: number,
    /** Whether it is a leadership, under which many flows run side by side: only what it holds itself is of its actor. */
    readonly isLeading: boolean,
  ) {
    super(names);
  }
}

const bodies = new AsyncLocalStorage<Body>();

/** Returns the innermost body of the present flow that has not ended. */
export function currentBody(): Body | undefined {
  let body = bodies.getStore();
  while (body?.isOver) {
    body = body.outer;
  }
  return body;
}

/** Actor of a request, and what to call when the request, or the work under it, has ended. */
interface Part {
  readonly actor: number;
  readonly end: () => void;
}

/**
 * Returns the part that a request for these locks takes in the present flow: that of the body that holds one of them, so that the
 * coordinator refuses it at once or grants it once more, and otherwise that of the innermost body. Where flows run side by side inside of a
 * body, one has the body's actor at a time, and the others have their own: they don't wait for one another, and may contend.
 */
export function partOf(core: SessionCore, names: readonly string[], isWork: boolean): Part {
  const inner = currentBody();
  const end = () => undefined;
  for (let body = inner; body; body = body.outer) {
    if (body.core === core && body.names.some((name) => names.includes(name))) {
      return { actor: body.actor, end };
    }
  }
  if (inner?.core === core && !inner.isLeading && !inner.isBusy) {
    inner.isBusy = true;
    return {
      actor: inner.actor,
      end: () => {
        inner.isBusy = false;
      },
    };
  }
  return { actor: inner || isWork ? new Actor().number : 0, end };
}

/**
 * Runs the work until it ends, and then gives the locks up: never before, so that nobody else gets them while it still runs. Rejects with
 * the loss if one of them was lost, and the error of the work as its cause, if that says more.
 */
export async function runUnder<T>(
  body: Body,
  held: readonly Held[],
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => T | PromiseLike<T>,
): Promise<T> {
  const { core } = body;
  const release = () =>
    Promise.all(
      held.map((hold) =>
        hold.end().catch((error: Error) => {
          core.settings.log.debug(`the release after the work failed: ${error.message}`);
        }),
      ),
    );
  if (!core.works.begin(body)) {
    // The grant came as the session was being closed.
    await release();
    throw new AcquireError(body.names.join(", "), { kind: "closed" });
  }
  const { stop } = body;
  const ends = [follow(stop, signal)];
  for (const hold of held) {
    hold.link(stop.signal);
    ends.push(hold.onEnd((error) => stop.abort(error)));
  }
  let result: { readonly value: T } | { readonly error: unknown };
  try {
    result = { value: await bodies.run(body, () => work(stop.signal)) };
  } catch (error) {
    result = { error };
  }
  body.isOver = true;
  const losses = await Promise.all(held.map((hold) => hold.settled()));
  const lost = losses.find((loss) => loss !== undefined);
  for (const end of ends) {
    end();
  }
  await release();
  core.works.finish(body);
  const own = "error" in result ? ownError(result.error, stop.signal) : undefined;
  if (lost) {
    throw own === undefined
      ? lost
      : new LockLostError(lost.lock, lost.token, lost.reason, { cause: own });
  }
  if ("error" in result) {
    const { reason } = stop.signal;
    throw own === undefined && reason instanceof ClosedError ? reason : result.error;
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
