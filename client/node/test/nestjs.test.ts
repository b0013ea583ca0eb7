import "reflect-metadata";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type INestApplicationContext, SetMetadata, type Type } from "@nestjs/common";
import { AcquireError, Client, ClosedError, LockLostError } from "../src/index";
import { heldLock, LeaseholdModule, WithLock } from "../src/nestjs";
import { Server } from "./server";

let server: Server;
before(async () => {
  server = await Server.start();
});
after(() => server.stop());

let concurrent = 0;
let most = 0;

class Orders {
  async pay(id: number): Promise<bigint> {
    most = Math.max(most, ++concurrent);
    await new Promise((resolve) => setTimeout(resolve, 20));
    concurrent--;
    assert.equal(heldLock().name, `orders/${id}`);
    return heldLock().token;
  }

  async report(work: () => Promise<unknown>): Promise<unknown> {
    return await work();
  }

  async close(day: Date): Promise<Date> {
    return day;
  }

  async ship(id: number, to: string): Promise<string> {
    return `${id} to ${to}`;
  }

  async skip(): Promise<string> {
    return "ran";
  }

  async again(id: number): Promise<bigint[]> {
    return [heldLock().token, await this.once(id)];
  }

  async once(_id: number): Promise<bigint> {
    return heldLock().token;
  }

  async nested(id: number): Promise<unknown> {
    return await this.pay(id);
  }
}
decorate(
  Orders,
  "pay",
  WithLock((id: number) => `orders/${id}`),
);
decorate(Orders, "report", WithLock("report", { wait: 0 }));
decorate(Orders, "skip", WithLock("report", { ifBusy: "skip" }));
for (const [name, options] of [
  ["again", {}],
  ["once", { reentrant: true }],
  ["nested", {}],
] as const) {
  decorate(
    Orders,
    name,
    WithLock((id: number) => `orders/${id}`, options),
  );
}
decorate(Orders, "close", SetMetadata("schedule", "daily"));
decorate(Orders, "close", WithLock("day"));
decorate(
  Orders,
  "ship",
  WithLock((id: number) => `orders/${id}`),
);
// As the compiler has it where decorators are written with an @.
WithLock("day") satisfies Decorator<(day: Date) => Promise<Date>>;
WithLock((id: number) => `orders/${id}`) satisfies Decorator<Orders["ship"]>;

type Decorator<M> = (target: object, key: string, descriptor: TypedPropertyDescriptor<M>) => void;

/** Decorates a method, as `@decorator` does. */
function decorate(
  type: Type,
  name: string,
  decorator: (target: object, name: string, descriptor: never) => void,
): void {
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, name) ?? {};
  decorator(type.prototype, name, descriptor as never);
  Object.defineProperty(type.prototype, name, descriptor);
}

async function start(): Promise<INestApplicationContext> {
  const { NestFactory } = await import("@nestjs/core");
  const leasehold = LeaseholdModule.forRootAsync({
    useFactory: (url: string) => ({ endpoints: url, clientName: "nest" }),
    inject: ["URL"],
    imports: [
      {
        module: class Config {},
        providers: [{ provide: "URL", useValue: server.url }],
        exports: ["URL"],
      },
    ],
  });
  const root = { module: class App {}, imports: [leasehold], providers: [Orders] };
  return await NestFactory.createApplicationContext(root, { logger: false });
}

test("methods of two applications run under one lock", async () => {
  const apps = [await start(), await start()];
  const pays = apps.flatMap((app) => [1, 1].map((id) => app.get(Orders).pay(id)));
  const tokens = await Promise.all(pays);
  assert.equal(new Set(tokens).size, 4);
  assert.equal(most, 1);
  const [one, other] = apps.map((app) => app.get(Orders));
  await one?.report(async () => {
    const busy = other?.report(async () => undefined) ?? Promise.resolve();
    await assert.rejects(busy, (error) => error instanceof AcquireError && error.kind === "busy");
  });
  assert.throws(heldLock, TypeError);
  for (const app of apps) {
    await app.close();
  }
});

test("other decorators keep what they know of a method", async () => {
  assert.equal(Reflect.getMetadata("schedule", Orders.prototype.close), "daily");
  const app = await start();
  const day = new Date(0);
  assert.equal(await app.get(Orders).close(day), day);
  assert.equal(await app.get(Orders).ship(1, "Delft"), "1 to Delft");
  await app.close();
});

test("a method whose lock is lost is told, and does not count", async () => {
  const app = await start();
  const client = app.get(Client);
  const work = app.get(Orders).report(async () => {
    const { signal } = heldLock();
    const told = new Promise((resolve) => signal.addEventListener("abort", resolve));
    await client.admin.forceRelease("report");
    await told;
  });
  await assert.rejects(work, LockLostError);
  await app.close();
  assert.throws(() => client.session, ClosedError);
});

test("a method is skipped while another process runs it", async () => {
  const [one, other] = [await start(), await start()];
  await one.get(Orders).report(async () => {
    assert.equal(await other.get(Orders).skip(), undefined);
  });
  assert.equal(await other.get(Orders).skip(), "ran");
  await Promise.all([one.close(), other.close()]);
});

test("a method under the lock of its caller fails at once, or is reentrant if it asks for that", async () => {
  const app = await start();
  const [outer, inner] = await app.get(Orders).again(5);
  assert.equal(outer, inner);
  await assert.rejects(app.get(Orders).nested(6), (error) => {
    return error instanceof AcquireError && error.kind === "self_deadlock";
  });
  await app.close();
});

test("an application that closes waits for methods under locks", async () => {
  const other = await start();
  for (let round = 0; round < 100; round++) {
    const one = await start();
    let hasEnded = false;
    let begun = () => {};
    const running = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const work = one.get(Orders).report(async () => {
      begun();
      const { signal } = heldLock();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      assert(signal.reason instanceof ClosedError);
      await new Promise((resolve) => setTimeout(resolve, 2));
      hasEnded = true;
      return "done";
    });
    await running;
    const next = other
      .get(Client)
      .lock("report")
      .with(() => assert(hasEnded));
    await one.close();
    assert(hasEnded);
    assert.equal(await work, "done");
    await next;
  }
  await other.close();
});
