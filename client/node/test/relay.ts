/**
 * Relay between clients and a coordinator, whose connections can be cut or refused, or fall silent.
 *
 * @module
 */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class Relay implements AsyncDisposable {
  readonly #listener: Server;
  readonly #open = new Set<Socket>();
  /** Pending in a silence. */
  #silence: Promise<void> | undefined;
  #speak: () => void = () => undefined;
  /** Whether new connections are ended at once. */
  isRefusing = false;

  private constructor(listener: Server) {
    this.#listener = listener;
  }

  /** Starts one before the coordinator at this URL. */
  static async before(url: string): Promise<Relay> {
    const { hostname, port } = new URL(url);
    const listener = createServer((client) => {
      if (relay.isRefusing) {
        client.destroy();
        return;
      }
      const server = connect(Number(port), hostname);
      for (const [from, to] of [
        [client, server],
        [server, client],
      ] as const) {
        relay.#open.add(from);
        from.on("data", async (bytes) => {
          await relay.#silence;
          to.write(bytes);
        });
        from.on("error", () => to.destroy());
        from.on("close", () => {
          relay.#open.delete(from);
          to.destroy();
        });
      }
    });
    const relay = new Relay(listener);
    listener.listen(0, "127.0.0.1");
    await once(listener, "listening");
    return relay;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** Hands nothing on in either direction, on new connections neither, and closes nothing. */
  fallSilent(): void {
    this.#silence = new Promise((resolve) => {
      this.#speak = resolve;
    });
  }

  /** Hands on what has come in the silence, and what comes. */
  speak(): void {
    this.#silence = undefined;
    this.#speak();
  }

  /** Cuts all connections. New ones are relayed. */
  cut(): void {
    for (const socket of this.#open) {
      socket.destroy();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.cut();
  }
}
