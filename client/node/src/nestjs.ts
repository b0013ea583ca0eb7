/**
 * Module for NestJS: a client as a provider, and a decorator for methods that run under a lock.
 *
 * @packageDocumentation
 */

import { AsyncLocalStorage } from "node:async_hooks";
import {
  type DynamicModule,
  type FactoryProvider,
  Inject,
  Module,
  type ModuleMetadata,
} from "@nestjs/common";
import { Client } from "./client";
import type { Hold } from "./hold";
import type { LockOptions, WithOptions } from "./locks";
import type { ClientOptions } from "./options";

/** Options of the module. */
export interface LeaseholdModuleOptions extends ClientOptions {
  /** URLs of the coordinators; see {@link Client}. */
  endpoints: string | readonly string[];
}

/** Options of the module that other providers give. */
export interface LeaseholdModuleAsyncOptions extends Pick<ModuleMetadata, "imports"> {
  /** Makes the options from what is injected. */
  useFactory: FactoryProvider<
    LeaseholdModuleOptions | Promise<LeaseholdModuleOptions>
  >["useFactory"];
  inject?: FactoryProvider["inject"];
}

const OPTIONS = Symbol("options of LeaseholdModule");

/** Client of the module: it is closed when the application shuts down, after everything else, and waits for methods under locks. */
class ModuleClient extends Client {
  async onApplicationShutdown(): Promise<void> {
    await this.close();
  }
}

/**
 * Module that provides a {@link Client}, in every module of the application. Its session is made on first use. The client is closed by
 * `app.close()`, and by signals where the application calls `enableShutdownHooks`. The close tells methods under locks to stop, by
 * `heldLock().signal`, and waits for them for at most `closeTimeout`.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: NestJS knows modules by their classes.
export class LeaseholdModule {
  /** Makes the module with these options. */
  static forRoot(options: LeaseholdModuleOptions): DynamicModule {
    return LeaseholdModule.forRootAsync({ useFactory: () => options });
  }

  /** Makes the module with options that other providers give, for example those of a configuration. */
  static forRootAsync({ imports, inject, useFactory }: LeaseholdModuleAsyncOptions): DynamicModule {
    const client = ({ endpoints, ...options }: LeaseholdModuleOptions) =>
      new ModuleClient(endpoints, options);
    return {
      module: LeaseholdModule,
      global: true,
      imports: imports ?? [],
      providers: [
        { provide: OPTIONS, useFactory, inject: inject ?? [] },
        { provide: Client, useFactory: client, inject: [OPTIONS] },
      ],
      exports: [Client],
    };
  }
}
Module({})(LeaseholdModule);

/** Property in which a class with methods under locks finds its client. */
const CLIENT = Symbol("client of WithLock");
const holds = new AsyncLocalStorage<Hold>();

type Method<A extends unknown[], R> = (...args: A) => Promise<R>;

/**
 * Decorator of a provider's method: each call acquires the lock of this name, runs the method while holding it, and releases it. The name may
 * be made from the method's arguments. {@link heldLock} is the hold: pass its token on, and stop when its signal is aborted.
 *
 * The call rejects as `Lock.with` does: with an `AcquireError` if the lock is not acquired, and with a `LockLostError` if it is lost before the
 * method has ended. It waits for the lock unless `wait` is set; with 0, `busy` says that another process runs the method. With
 * `ifBusy: "skip"`, the call resolves with `undefined` instead.
 *
 * A method that calls another one under the same lock is refused at once (`self_deadlock`), unless that one is `reentrant`.
 */
export function WithLock(
  name: string,
  options?: LockOptions & WithOptions,
): <A extends unknown[], R>(
  target: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<Method<A, R>>,
) => void;
export function WithLock<A extends unknown[]>(
  name: (...args: A) => string,
  options?: LockOptions & WithOptions,
): <B extends [...A, ...unknown[]], R>(
  target: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<Method<B, R>>,
) => void;
export function WithLock<A extends unknown[]>(
  name: string | ((...args: A) => string),
  options: LockOptions & WithOptions = {},
) {
  return <R>(
    target: object,
    _key: string | symbol,
    descriptor: TypedPropertyDescriptor<Method<A, R>>,
  ): void => {
    const method = descriptor.value;
    if (!method) {
      throw new TypeError("WithLock is for methods");
    }
    Inject(Client)(target, CLIENT);
    descriptor.value = function (this: object, ...args: A): Promise<R> {
      const client: Client = Reflect.get(this, CLIENT);
      const lock = client.lock(typeof name === "string" ? name : name(...args));
      const run = (hold: Hold) => holds.run(hold, () => method.apply(this, args));
      return lock.with(options, run) as Promise<R>;
    };
    // Other decorators, such as those of schedules and guards, keep what they know of a method on its function.
    for (const key of Reflect.getMetadataKeys(method)) {
      Reflect.defineMetadata(key, Reflect.getMetadata(key, method), descriptor.value);
    }
  };
}

/** Returns the hold under which the present method runs, of the innermost {@link WithLock}. Throws outside of one. */
export function heldLock(): Hold {
  const hold = holds.getStore();
  if (!hold) {
    throw new TypeError("no method with WithLock runs here");
  }
  return hold;
}
