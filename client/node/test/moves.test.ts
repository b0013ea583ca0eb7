import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { status as Code, ServerDuplexStream } from "@grpc/grpc-js";
import { Metadata, Server, ServerCredentials } from "@grpc/grpc-js";
import { ConnectError, type Failure } from "../src/errors";
import {
  type SessionRequest,
  SessionRequestSchema,
  type SessionResponse,
  SessionResponseSchema,
} from "../src/generated/leasehold/v1/session_pb";
import { LostReason } from "../src/generated/leasehold/v1/types_pb";
import { connect, LockLostError } from "../src/index";
import { fateOf } from "../src/machine/fate";
import { SESSION } from "../src/methods";
import { toDuration, toId } from "../src/wire";
import { CLOSED, DRAINS, failsWith, failure, opensWith, type Response, Rig, refuses } from "./rig";

type Row = [client: string, on: string, arrives: string, without: string, graced: string];

const TABLE: { codes: Record<string, Code>; rows: Row[] } = JSON.parse(
  readFileSync(
    join(process.env["LEASEHOLD_NODE"] ?? ".", "../../tests/clients/moves.json"),
    "utf8",
  ),
);
const BROKEN = failure(14, "", true);

/** A session in a state of the table. */
class Move {
  readonly rig: Rig;
  readonly streams = new Map<string, number>();
  readonly ids = new Map([
    ["confirmed", "\x01"],
    ["unknown", "unknown"],
  ]);

  constructor(grace: number, state: string) {
    this.rig = Rig.holding({ grace });
    this.streams.set("old", this.rig.stream);
    if (state === "open") {
      return;
    }
    this.rig.hear(10, 0, DRAINS);
    this.ask(20);
    if (state === "asked") {
      return;
    }
    this.rig.attemptFailed(30, "kept");
    this.ids.set("tried", this.id("next"));
    if (state === "again") {
      this.ask(40);
    } else if (state !== "deaf") {
      const why = state === "broken" ? BROKEN : undefined;
      this.rig.machine.streamEndedBy(40, this.stream("old"), why);
    }
  }

  ask(now: number): void {
    this.rig.connect(now);
    this.streams.set("next", this.rig.stream);
    this.ids.set("next", this.rig.next());
  }

  id(which: string): string {
    return known(this.ids, which);
  }

  stream(which: string): number {
    return known(this.streams, which);
  }

  /** Has a stream say this. */
  hear(on: string, [what = "", reason = "", which = ""]: readonly string[]): void {
    const code = TABLE.codes[reason];
    const lost = LostReason[reason as keyof typeof LostReason];
    switch (what) {
      case "lost": {
        const ownerId = Buffer.from(this.id(which), "latin1");
        const value = { locks: [{ name: "lock1", ownerId, reason: lost }] };
        this.say(on, { case: "lost", value });
        break;
      }
      case "refused":
        this.say(on, refuses(this.id(which), lost));
        break;
      case "opened":
        this.say(on, opensWith([this.id("tried")]));
        break;
      case "error":
        assert(code);
        this.say(on, failsWith(code, reason));
        break;
      case "closed":
        this.say(on, CLOSED);
        break;
      case "end":
        assert(code);
        this.end(on, failure(code, reason));
        break;
      case "break":
        this.end(on, BROKEN);
        break;
      case "plain":
        this.end(on);
        break;
      default:
        assert.fail(what);
    }
  }

  say(on: string, response: Response): void {
    if (on === "overdue") {
      const message = create(SessionResponseSchema, { requestId: 1n, response });
      this.rig.machine.moving.overdueMessage(50, message as SessionResponse);
    } else {
      this.rig.hear(50, 1, response, this.stream(on));
    }
  }

  /** Ends a stream, plainly or with this failure. */
  end(on: string, why?: Failure): void {
    const { machine } = this.rig;
    const url = "http://test";
    const fate = fateOf(why ? ConnectError.of(url, why) : new ConnectError(url, "ended"));
    if (on === "old") {
      machine.streamEndedBy(50, this.stream(on), why);
    } else if (on === "next") {
      this.rig.attemptFailed(50, fate);
    } else {
      machine.moving.overdueEnded(50, fate);
    }
  }
}

function known<T>(all: Map<string, T>, which: string): T {
  const one = all.get(which);
  assert(one !== undefined, which);
  return one;
}

describe("a guard through a move", () => {
  for (const [client, on, arrives, without, graced] of TABLE.rows) {
    for (const grace of [0, 7000]) {
      test(`${client} ${on} ${arrives}, with a grace of ${grace}`, () => {
        const move = new Move(grace, client);
        move.hear(on, arrives.split(" "));
        move.rig.wantState(50, 0, (grace ? graced : without).toLowerCase());
      });
    }
  }
});

type Peer = ServerDuplexStream<SessionRequest, MessageInitShape<typeof SessionResponseSchema>>;

/** A coordinator whose first stream grants a lock and then drains, and which answers on no other. */
class Mute {
  readonly streams: { peer: Peer; id: string }[] = [];
  readonly #server = new Server();

  async start(): Promise<string> {
    const session = {
      path: SESSION.path,
      requestStream: true,
      responseStream: true,
      requestDeserialize: (bytes: Buffer) => fromBinary(SessionRequestSchema, bytes),
      responseSerialize: (response: MessageInitShape<typeof SessionResponseSchema>) =>
        Buffer.from(toBinary(SessionResponseSchema, create(SessionResponseSchema, response))),
      requestSerialize: SESSION.encode,
      responseDeserialize: SESSION.decode,
    };
    this.#server.addService(
      { session },
      {
        session: (peer: Peer) => {
          peer.sendMetadata(new Metadata());
          peer.on("error", () => undefined);
          peer.on("data", (request: SessionRequest) => this.#asked(peer, request));
        },
      },
    );
    const port = await new Promise((resolve) => {
      const credentials = ServerCredentials.createInsecure();
      this.#server.bindAsync("127.0.0.1:0", credentials, (_, bound) => resolve(bound));
    });
    return `http://127.0.0.1:${port}`;
  }

  #asked(peer: Peer, { requestId, request }: SessionRequest): void {
    if (request.case === "open") {
      const [resume] = request.value.resume;
      this.streams.push({ peer, id: toId(resume?.nextOwnerId ?? Buffer.from("o")) });
      if (!resume) {
        const [ttl, heartbeatInterval] = [toDuration(60_000), toDuration(20_000)];
        const value = { sessionId: "s", coordinator: "c", ttl, heartbeatInterval };
        peer.write({ requestId, response: { case: "opened", value } });
      }
    } else if (request.case === "acquire") {
      const { name } = request.value;
      const locks = [{ name, ownerId: Buffer.from("o"), fencingToken: 7n, holdCount: 1 }];
      const value = { locks, validFor: toDuration(60_000) };
      peer.write({ requestId, response: { case: "granted", value } });
      peer.write({ response: DRAINS });
    }
  }

  /** Has a stream say that its lock is lost. */
  lost(index: number, reason: LostReason): void {
    const stream = this.stream(index);
    const ownerId = Buffer.from(stream.id, "latin1");
    const value = { locks: [{ name: "a", ownerId, reason }] };
    stream.peer.write({ response: { case: "lost", value } });
  }

  stream(index: number) {
    const stream = this.streams[index];
    assert(stream);
    return stream;
  }

  [Symbol.dispose](): void {
    this.#server.forceShutdown();
  }
}

describe("a move that was not answered ends the hold by", () => {
  const cases: [string, string, (mute: Mute) => void][] = [
    ["an end of its stream", "session_ended", (mute) => mute.stream(1).peer.end()],
    ["a loss on its stream", "forced", (mute) => mute.lost(1, LostReason.FORCED)],
    [
      "a loss on the old stream",
      "deleted",
      (mute) => {
        mute.lost(0, LostReason.RESUMED);
        mute.lost(0, LostReason.DELETED);
      },
    ],
  ];
  for (const [name, reason, happens] of cases) {
    test(name, async () => {
      using mute = new Mute();
      const url = await mute.start();
      const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined };
      await using client = await connect(url, { connectTimeout: 2000, logger: silent });
      const lock = await client.lock("a").acquire();
      // The attempt before has been given up by the third one.
      while (mute.streams.length < 3) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      lock.check();
      happens(mute);
      const ended = await Promise.race([
        lock.changed("held"),
        new Promise((resolve) => setTimeout(resolve, 5000, "held")),
      ]);
      assert.equal(ended, "lost");
      const why = lock.signal.reason;
      assert(why instanceof LockLostError && why.reason === reason, `${why}`);
    });
  }
});
