/**
 * Store for verrou: its locks are locks of Leasehold.
 *
 * @packageDocumentation
 */

import { Actor } from "./actor";
import type { Client } from "./client";
import type { DetachedLock } from "./detached";
import { AcquireError, HoldError, LockLostError } from "./errors";
import type { Hold } from "./hold";
import { Work } from "./running";

/** Store of locks, as verrou expects it. */
export interface LockStore {
  save(key: string, owner: string, ttl: number | null): Promise<boolean>;
  delete(key: string, owner: string): Promise<void>;
  forceDelete(key: string): Promise<void>;
  exists(key: string): Promise<boolean>;
  extend(key: string, owner: string, duration: number): Promise<void>;
}

/** Options of {@link verrouStore}. */
export interface VerrouStoreOptions {
  /** Prefix of the locks' names. Default: `verrou/`. */
  prefix?: string | undefined;
  /**
   * Whether `client.close()` waits until this process has released its locks, for at most `closeTimeout`: as long as `run` works. Set it to
   * false if another process releases them. Default: true.
   */
  closeWaits?: boolean | undefined;
}

/**
 * Makes a store for verrou's `LockFactory`, or for the `driver` of its configuration.
 *
 * A lock with a TTL is a detached lock: it lasts for that long, whatever becomes of this process, and another process can restore it. One
 * without a TTL lasts as long as this process, by the client's session; only this process can release it.
 */
export function verrouStore(client: Client, options: VerrouStoreOptions = {}): LockStore {
  return new VerrouStore(client, options);
}

class VerrouStore implements LockStore {
  readonly #client: Client;
  readonly #prefix: string;
  readonly #closeWaits: boolean;
  /** What this process has saved, by name and owner, and what to call when it has ended. */
  readonly #saved = new Map<string, { lock: DetachedLock | Hold; end: () => void }>();
  readonly #saving = new Set<string>();

  constructor(client: Client, { prefix = "verrou/", closeWaits = true }: VerrouStoreOptions) {
    this.#client = client;
    this.#prefix = prefix;
    this.#closeWaits = closeWaits;
    client.closing.addEventListener("abort", () => this.#forgetEnded());
  }

  /** Forgets what has ended by itself: no close waits for it. */
  #forgetEnded(): void {
    for (const [saved, { lock, end }] of this.#saved) {
      if ("renew" in lock ? !lock.isHeld : lock.error) {
        this.#saved.delete(saved);
        end();
      }
    }
  }

  async save(key: string, owner: string, ttl: number | null): Promise<boolean> {
    const saved = id(key, owner);
    // The same owner excludes itself too, which would take its own lock over otherwise.
    if (this.#saving.has(saved)) {
      return false;
    }
    this.#saving.add(saved);
    try {
      return await this.#save(key, owner, ttl);
    } finally {
      this.#saving.delete(saved);
    }
  }

  async #save(key: string, owner: string, ttl: number | null): Promise<boolean> {
    this.#forgetEnded();
    const former = this.#saved.get(id(key, owner));
    if (former) {
      const { holders } = await this.#client.admin.getLock(this.#name(key));
      if (holders.some(({ token }) => token === former.lock.token)) {
        return false;
      }
      former.end();
    }
    // verrou knows no flows: whoever else asks finds the lock taken.
    const actor = new Actor();
    const lock =
      ttl === null
        ? await this.#client.lock(this.#name(key), { value: owner, actor }).tryAcquire()
        : await this.#detached(key, owner, ttl).tryAcquire();
    if (!lock) {
      return false;
    }
    // verrou does not tell `run` from `acquire`: all count as work from the grant to the release.
    const work = new Work([lock.name]);
    const { works } = "renew" in lock ? this.#client.calls : lock.core;
    if (this.#closeWaits && !works.begin(work)) {
      // The grant came as the client was being closed.
      await lock.release();
      throw new AcquireError(lock.name, { kind: "closed" });
    }
    this.#saved.set(id(key, owner), { lock, end: () => works.finish(work) });
    return true;
  }

  async delete(key: string, owner: string): Promise<void> {
    const lock = await this.#owned(key, owner);
    const saved = this.#saved.get(id(key, owner));
    this.#saved.delete(id(key, owner));
    try {
      if (!(await lock?.release())) {
        await notOwned();
      }
    } finally {
      saved?.end();
    }
  }

  async forceDelete(key: string): Promise<void> {
    await this.#client.admin.forceRelease(this.#name(key));
  }

  async exists(key: string): Promise<boolean> {
    return (await this.#client.admin.getLock(this.#name(key))).holderCount > 0n;
  }

  async extend(key: string, owner: string, duration: number): Promise<void> {
    const lock = await this.#owned(key, owner);
    if (!lock) {
      await notOwned();
    } else if ("renew" in lock) {
      try {
        await lock.renew({ ttl: duration });
      } catch (error) {
        if (error instanceof HoldError || !(error instanceof LockLostError)) {
          throw error;
        }
        await notOwned();
      }
    } else if (!lock.isHeld) {
      await notOwned();
    }
  }

  #name(key: string): string {
    return this.#prefix + key;
  }

  #detached(key: string, owner: string, ttl: number) {
    // An owner is random, and known to whoever may restore the lock.
    const requestKey = `verrou/${owner}`.padEnd(16, "/");
    return this.#client.detachedLock(this.#name(key), { ttl, value: owner }).withKey(requestKey);
  }

  /** Returns the owner's lock, which another process may have saved. */
  async #owned(key: string, owner: string): Promise<DetachedLock | Hold | undefined> {
    const saved = this.#saved.get(id(key, owner));
    if (saved) {
      return saved.lock;
    }
    const { holders } = await this.#client.admin.getLock(this.#name(key));
    const [holder] = holders;
    if (!holder || Buffer.from(holder.value).toString() !== owner) {
      return undefined;
    }
    const ttl = Math.max(1000, holder.ttl);
    const taken = await this.#detached(key, owner, ttl).tryAcquire();
    if (taken && taken.token !== holder.token) {
      // It had ended meanwhile.
      await taken.release();
      return undefined;
    }
    return taken ?? undefined;
  }
}

function id(key: string, owner: string): string {
  return JSON.stringify([key, owner]);
}

/** Throws what verrou expects of a store. */
async function notOwned(): Promise<never> {
  const { E_LOCK_NOT_OWNED } = await import("@verrou/core");
  throw new E_LOCK_NOT_OWNED();
}
