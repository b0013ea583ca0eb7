import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { status as Code } from "@grpc/grpc-js";
import { ConnectError } from "../src/errors";
import { LostReason } from "../src/generated/leasehold/v1/types_pb";
import { type Fate, fateOf } from "../src/machine/fate";
import { Ids } from "../src/machine/ids";
import type { StreamEnd } from "../src/machine/machine";
import type { Effect } from "../src/machine/pending";
import { toId } from "../src/wire";
import {
  ASKS,
  acks,
  BUSY,
  CANCELLED,
  CLOSED,
  DRAINS,
  failsWith,
  failure,
  granted,
  grants,
  INTERVAL,
  loses,
  opensInPlace,
  opensWith,
  queuedAs,
  type Response,
  Rig,
  randomFrom,
  refuses,
  releasedAs,
  spec,
  TTL,
  unreachable,
} from "./rig";

const DOWNGRADE: Effect = { kind: "downgrade" };

describe("deadlines", () => {
  test("count from when the acknowledged heartbeat was sent", () => {
    const rig = Rig.open();
    rig.acquire(100, 1).want("acquire 2 lock1");
    rig.grant(200, 2, 1, 1).want("acquired 1").wantDeadline(200, 0, 9900);
    rig.tick(INTERVAL).want("heartbeat 1");
    rig.ack(9000, 1, 9900).wantDeadline(9000, 0, 12_900);
  });

  test("come earlier by as much as the clock may be behind", () => {
    const rig = Rig.holding({ clockError: 10 }).wantDeadline(200, 0, 9890);
    rig.tick(INTERVAL);
    rig.ack(9000, 1, 9900).wantDeadline(9000, 0, 12_890);
    rig.hear(9000, 0, DRAINS);
    rig.connect(9100).hear(9200, 1, opensWith([rig.next()], { endsIn: 8000 }));
    rig.wantDeadline(9200, 0, 17_090);
  });

  for (const [name, sequence, validFor] of [
    ["a heartbeat that was never sent", 5, 60_000],
    ["an absurd heartbeat", 2n ** 64n - 1n, 60_000],
    ["an older heartbeat", 0, 1],
  ] as const) {
    test(`are not moved by an answer to ${name}`, () => {
      Rig.holding().ack(1000, sequence, validFor).wantDeadline(1000, 0, 9900);
    });
  }

  test("have passed for an answer that comes at the deadline", () => {
    const rig = Rig.holding();
    rig.tick(INTERVAL);
    // As after a pause: the answer has been lying there, and nobody looked at the clock meanwhile. The coordinator goes on renewing what
    // nobody holds, so it is given back.
    rig.ack(9900, 1, 9900).want("release 4 of 1").wantState(9900, 0, "expired");
  });

  test("are lengthened by an unasked acknowledgement", () => {
    Rig.holding().ack(500, 0, 9950).wantDeadline(500, 0, 9950);
  });

  test("keep a lost hold until its lock-delay has passed", () => {
    const rig = Rig.open();
    rig.ask(0, 1, spec([1], { lockDelay: 2000 }));
    rig.grant(0, 2, 1, 1).tick(INTERVAL);
    rig.ack(9950, 1, 0).want("").wantState(9950, 0, "expired");
    assert.match(rig.tick(11_950).seen, /of 1/);
  });

  /** Grants lock1, asked for by request 2, with a bound. */
  function bounded(now: number, endsIn: number): Rig {
    const rig = Rig.open();
    rig.acquire(now, 1);
    const grant = grants(0, granted(1, 1));
    assert(grant.case === "granted");
    const seconds = BigInt(Math.floor(endsIn / 1000));
    grant.value.bounded = [{ ownerId: Uint8Array.of(1), endsIn: { seconds } }];
    return rig.hear(now, 2, grant).want("acquired 1");
  }

  test("never pass a bound, whatever is answered", () => {
    const rig = bounded(200, 11_000).wantDeadline(200, 0, 9900);
    for (const beat of [1, 2, 3]) {
      rig.tick(INTERVAL * beat).ack(INTERVAL * beat + 1, beat, 9900);
    }
    rig.wantDeadline(9100, 0, 11_000);
    rig.tick(9900).want("").wantAlarm(11_000);
    assert.match(rig.tick(11_000).seen, /of 1/);
    rig.wantState(11_000, 0, "max_hold");
  });

  for (const [told, want] of [
    [0, 10_900],
    [20_000, 10_900],
    [6000, 7000],
  ] as const) {
    test(`keep or tighten a bound that a resume puts at ${told}`, () => {
      const rig = bounded(0, 11_000).connect(1000);
      rig.hear(1000, 1, opensWith([rig.next()], { endsIn: told })).wantDeadline(1000, 0, want);
    });
  }
});

describe("heartbeats", () => {
  test("go out at their interval", () => {
    const rig = Rig.open();
    rig.tick(INTERVAL - 1).want("");
    rig.tick(INTERVAL).want("heartbeat 1");
    rig.tick(INTERVAL + 1).want("");
    rig.tick(2 * INTERVAL).want("heartbeat 2");
  });

  test("without an answer for a TTL give the stream up", () => {
    const rig = Rig.open().tick(INTERVAL);
    rig.ack(3100, 1, 9900);
    rig.tick(3100 + TTL - 1).want("heartbeat 2");
    rig.tick(3100 + TTL).want("hang up");
    assert.equal(rig.machine.state.stream, undefined);
  });

  /** Makes a session whose heartbeat 1 was answered at INTERVAL + 10: the next one is due 30 s after it. */
  function resting(): Rig {
    return Rig.open()
      .tick(INTERVAL)
      .ack(INTERVAL + 10, 1, 9900, 30_000);
  }

  test("rest, until the rest is over", () => {
    const rig = resting().wantAlarm(INTERVAL + 30_000);
    rig.tick(INTERVAL + 30_000 - 1).want("");
    rig.tick(INTERVAL + 30_000).want("heartbeat 2");
    rig.tick(INTERVAL + 30_000 + TTL - 1);
    rig.tick(INTERVAL + 30_000 + TTL).want("hang up");
  });

  test("go before the acquire that ends a rest", () => {
    const rig = resting();
    rig.acquire(20_000, 1).want("heartbeat 2", "acquire 4 lock1");
    rig.tick(20_000 + INTERVAL).want("heartbeat 3");
  });

  test("do not go before an acquire soon after the last one", () => {
    const rig = resting();
    rig.acquire(INTERVAL + 100, 1).want("acquire 3 lock1");
    rig.tick(2 * INTERVAL).want("heartbeat 2");
  });

  test("do not rest while the session waits", () => {
    const rig = Rig.open()
      .tick(INTERVAL)
      .acquire(INTERVAL + 5, 1);
    rig.ack(INTERVAL + 10, 1, 9900, 30_000);
    rig.tick(2 * INTERVAL).want("heartbeat 2");
  });

  test("come closer together while the coordinator drains", () => {
    const rig = Rig.holding().hear(1000, 0, DRAINS);
    rig.tick(1000).want("heartbeat 1");
    rig.tick(2999).want("");
    rig.tick(3000).want("heartbeat 2");
  });
});

describe("grants that nobody waits for are given back", () => {
  test("after a cancel", () => {
    const rig = Rig.open().acquire(0, 1);
    rig.cancel(1, 1).want("cancel 2");
    rig.grant(2, 2, 1, 1).want("release 4 of 1");
  });

  test("unasked", () => {
    Rig.open().grant(2, 99, 1, 1).want("release 2 of 1");
  });

  test("of another lock", () => {
    Rig.open().acquire(0, 1).grant(2, 2, 5, 1).want("release 3 of 1", "failed 1 refused");
  });

  test("that come too late", () => {
    const rig = Rig.open().acquire(0, 1, 60_000).acquire(0, 2, 0);
    rig.grant(9900, 2, 1, 1).want("release 4 of 1", "acquire 5 lock1 for 50100");
    rig.grant(9900, 3, 2, 2).want("release 6 of 2", "failed 2 unavailable");
  });

  test("for an unknown heartbeat", () => {
    const rig = Rig.open().acquire(0, 1, 0);
    rig.grant(1, 2, 1, 1, 9).want("release 3 of 1", "failed 1 unavailable");
  });
});

describe("answers", () => {
  test("tell busy from timed out by what was asked", () => {
    const rig = Rig.open();
    rig.acquire(0, 1, 0).want("acquire 2 lock1 for 0");
    rig.acquire(0, 2, 50).want("acquire 3 lock2 for 50");
    rig.hear(1, 3, BUSY).want("failed 2 timed_out");
    rig.hear(1, 2, BUSY).want("failed 1 busy");
  });

  test("that are failures concern their request alone", () => {
    const rig = Rig.holding().acquire(0, 2);
    rig.hear(2, 3, failsWith(Code.INVALID_ARGUMENT, "INVALID_FIELD")).want("failed 2 invalid");
    rig.wantState(2, 0, "held");
  });

  test("that are unknown are ignored", () => {
    const rig = Rig.holding();
    rig.hear(1, 0, { case: undefined }).want("");
    rig.hear(2, 77, failsWith(Code.INTERNAL, "NEW")).want("").wantState(2, 0, "held");
  });

  test("of a loss end the hold with its reason", () => {
    const rig = Rig.holding().hear(2, 0, loses(1, LostReason.FORCED));
    rig.want("").wantState(2, 0, "forced");
    // There is nothing to release.
    rig.release(3, 0, 80).want("done 80 lost");
  });

  test("to a change that finds no hold end it", () => {
    const rig = Rig.holding();
    rig.change(2, 0, { kind: "value", value: new Uint8Array() }, 70).want("set value 3");
    rig.change(2, 0, DOWNGRADE, 71).want("downgrade 4");
    rig.change(2, 0, { kind: "reduce", permits: 1 }, 72).want("reduce 5 to 1");
    rig.hear(3, 3, { case: "valueSet", value: { valueSet: true } }).want("done 70");
    rig.hear(3, 4, { case: "downgraded", value: {} }).want("done 71 lost");
    rig.wantState(3, 0, "unknown");
  });

  test("of an old stream mean nothing on a new one", () => {
    const rig = Rig.open().tick(INTERVAL).end(3100, "left").reopen(4000);
    rig.acquire(4000, 1).grant(4000, 2, 1, 1);
    // Heartbeat 1 was sent on the old stream only.
    rig.ack(4100, 1, 60_000).wantDeadline(4100, 0, 13_900);
  });
});

describe("releases", () => {
  test("are confirmed or found lost", () => {
    const rig = Rig.holding();
    rig.release(1, 0, 80).want("release 3 of 1");
    rig.hear(2, 3, releasedAs(true)).want("done 80");
    rig.acquire(3, 2).grant(3, 4, 2, 2);
    rig.release(4, 1, 81).want("release 5 of 2");
    rig.hear(5, 5, releasedAs(false)).want("done 81 lost");
  });

  test("that can't be served are repeated until they are", () => {
    const unavailable = failsWith(Code.UNAVAILABLE, "STORE_UNAVAILABLE");
    const rig = Rig.holding().release(0, 0, 80);
    rig.hear(10, 3, unavailable).want("done 80 refused").wantAlarm(110);
    rig.tick(109).want("");
    rig.tick(110).want("release 4 of 1");
    rig.hear(120, 4, unavailable);
    rig.tick(320).want("release 5 of 1");
    rig.hear(330, 5, releasedAs(true)).want("");
    rig.tick(2900).want("");
  });

  test("and changes without an answer in time are unconfirmed and go on", () => {
    const rig = Rig.holding().acquire(0, 2).grant(0, 3, 2, 2);
    rig.change(1000, 1, DOWNGRADE, 90).release(2000, 0, 80);
    for (const [now, word] of [
      [10_999, undefined],
      [11_000, "done 90 unconfirmed"],
      [11_999, undefined],
      [12_000, "done 80 unconfirmed"],
    ] as const) {
      rig.ack(now, 0, 60_000);
      assert.equal(
        rig
          .tick(now)
          .seen.split("; ")
          .find((seen) => seen.startsWith("done")),
        word,
      );
    }
    // The answers come after all, to nobody.
    rig.hear(12_100, 4, { case: "downgraded", value: { downgraded: true } }).want("");
    rig.hear(12_100, 5, releasedAs(true)).want("");
  });
});

describe("waits", () => {
  test("are repeated when the stream ends, and every lock is lost", () => {
    const rig = Rig.holding().acquire(100, 2).acquire(100, 3, 5000).acquire(100, 4, 0);
    rig.acquire(100, 5).cancel(100, 5);
    rig.change(100, 0, DOWNGRADE, 90);
    rig.end(200, "left").want("done 90 unconfirmed", "failed 4 unavailable");
    rig.wantState(200, 0, "session_ended");
    // Numbers begin anew, and the wait is what is left of it.
    rig.reopen(1100).want("opened", "acquire 2 lock2", "acquire 3 lock3 for 4000");
    // Nothing is asked about the old hold on the new stream.
    rig.release(1200, 0, 80).want("done 80 lost");
  });

  test("end by the own clock without a connection", () => {
    const rig = new Rig();
    rig.acquire(0, 1, 500).want("").wantAlarm(500);
    rig.connectFailed(100, unreachable(true)).want("");
    rig.tick(499).want("");
    rig.tick(500).want("failed 1 unavailable");
  });

  test("outlive a failed attempt, which a try does not, and no hopeless one", () => {
    const rig = new Rig().acquire(0, 1, 0).acquire(0, 2);
    rig.connectFailed(100, unreachable(true)).want("failed 1 unavailable");
    rig.connectFailed(200, unreachable(false)).want("failed 2 unavailable");
  });

  test("that are not answered end a while after their time", () => {
    const rig = Rig.open().acquire(0, 1, 500).acquire(0, 2, 0);
    rig.tick(500).want("");
    rig.tick(2000).want("cancel 3", "failed 2 unavailable").wantAlarm(2500);
    rig.tick(2500).want("cancel 2", "failed 1 unavailable");
    // The grant crossed: it is given back.
    rig.grant(2600, 2, 1, 1).want("release 6 of 1");
  });

  const answers: [string, Response, string[]][] = [
    ["cancelled", CANCELLED, ["acquire 4 lock2"]],
    ["granted", grants(0, granted(1, 1)), ["release 4 of 1", "acquire 5 lock2"]],
    ["failed", failsWith(Code.UNAVAILABLE, "STORE_UNAVAILABLE"), ["acquire 4 lock2"]],
  ];
  for (const [name, answer, want] of answers) {
    test(`of an actor begin when the one that it abandoned was ${name}`, () => {
      const rig = Rig.open().ask(0, 1, spec([1], { actor: 5 }));
      rig.cancel(1, 1).want("cancel 2");
      rig.ask(2, 2, spec([2], { actor: 5 })).want("");
      rig.hear(3, 2, answer).want(...want);
    });
  }

  test("fail when no coordinator knows the client", () => {
    const rig = Rig.open().acquire(0, 2).end(10, "disowned");
    const refused = ConnectError.of(
      "http://test",
      failure(Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
    );
    rig.connectFailed(20, refused).want("failed 2 unauthenticated");
  });
});

describe("reentrant holds", () => {
  function twice(options = {}): Rig {
    const rig = Rig.open(options);
    for (const count of [1, 2]) {
      rig.ask(0, count, spec([1], { actor: 5, isReentrant: true }));
      rig.hear(0, count + 1, grants(0, granted(1, 1, count)));
    }
    return rig;
  }

  test("are released one by one", () => {
    const rig = twice();
    rig.release(1, 0, 80).want("release 4 of 1").wantState(1, 1, "held");
    rig.hear(2, 4, releasedAs(true)).want("done 80");
    rig.release(3, 1, 81).want("release 5 of 1");
    rig.hear(4, 5, releasedAs(true)).want("done 81");
  });

  test("are lost together", () => {
    const rig = twice().hear(1, 0, loses(1, LostReason.TAKEN));
    rig.wantState(1, 0, "taken").wantState(1, 1, "taken");
  });

  test("end together when a release finds nothing", () => {
    const rig = twice().release(1, 0, 80);
    rig.hear(2, 4, releasedAs(false)).want("done 80 lost").wantState(2, 1, "unknown");
    rig.release(3, 1, 0).want("");
  });

  test("are given back as often as granted", () => {
    const rig = twice().tick(INTERVAL);
    rig.ack(9900, 1, 9900).want("release 5 of 1", "release 6 of 1");
  });

  test("count an unanswered release in the resume", () => {
    const rig = twice({ grace: 4000 }).release(10, 1, 80);
    rig.end(20, "left").want("").connect(30);
    const what = rig.resumes[0]?.what;
    assert.equal(what?.case === "hold" && what.value.holdCount, 1);
    rig.hear(40, 1, opensWith([rig.next()])).want("opened", "done 80");
  });
});

describe("a drain", () => {
  test("is left when nothing is held, and waits move on", () => {
    const rig = Rig.holding().acquire(0, 2);
    rig.hear(1, 0, DRAINS).want("draining");
    // New ones are kept for the next coordinator; a try does not wait where there is none.
    rig.acquire(2, 3).want("");
    rig.acquire(2, 4, 0).want("");
    rig.connectFailed(2, unreachable(true)).want("failed 4 unavailable");
    // The coordinator puts its waiters out.
    rig.hear(3, 3, CANCELLED).want("").wantState(3, 0, "held");
    rig.release(4, 0, 80).want("release 4 of 1");
    rig.hear(5, 4, releasedAs(true)).want("done 80", "close");
    rig.hear(6, 5, CLOSED).want("hang up");
    rig.reopen(100).want("opened", "acquire 2 lock2", "acquire 3 lock3");
  });

  test("is left with what is held when what was asked is answered", () => {
    const rig = Rig.holding();
    const former = rig.stream;
    rig.acquire(10, 2, 0).hear(20, 0, DRAINS);
    assert(rig.machine.state.wantsConnection);
    // The try is on its way: its answer is waited for.
    rig.connect(30).want("");
    rig.hear(40, 3, BUSY, former).want("failed 2 busy", "open");
    assert.equal(rig.resumes.length, 1);
    assert.deepEqual(rig.resumes[0]?.triedOwnerIds, []);
    const next = rig.next();
    // From now on the former says nothing that counts.
    rig.hear(50, 0, acks(0, 60_000), former);
    rig.hear(50, 0, loses(1, LostReason.RESUMED), former).wantState(60, 0, "held");
    rig.hear(70, 1, opensWith([next])).want("close", "opened");
    rig.hear(80, 0, loses(1, LostReason.RESUMED), former).wantDeadline(80, 0, 9940);
  });

  test("waits for answers for a while only", () => {
    const rig = Rig.holding().acquire(10, 2, 0).hear(20, 0, DRAINS);
    rig.connect(30).want("");
    assert.doesNotMatch(rig.tick(1029).seen, /open/);
    assert.match(rig.tick(1030).seen, /open$/);
    assert.equal(rig.resumes.length, 1);
  });
});

describe("a move", () => {
  test("begins after silence for half the TTL, unless there is an answer", () => {
    const rig = Rig.holding().tick(INTERVAL).tick(4999);
    assert(!rig.machine.state.wantsConnection);
    rig.tick(5000);
    assert(rig.machine.state.wantsConnection);
    rig.acquire(5000, 2).want("");
    // Nothing has moved yet.
    rig.ack(5010, 1, 9900).want("acquire 4 lock2");
    assert(!rig.machine.state.wantsConnection);
  });

  test("that is declined leaves all as it was", () => {
    const rig = Rig.holding();
    const former = rig.stream;
    rig.hear(10, 0, DRAINS).connect(20).want("open");
    // Both wait for what becomes of the attempt.
    rig.hear(30, 0, acks(0, 9900), former);
    rig.release(30, 0, 80).want("");
    rig.attemptFailed(40, "declined").want("release 3 of 1");
    rig.hear(50, 3, releasedAs(true), former).want("done 80", "close");
  });

  test("names the ids tried before, and releases them all", () => {
    const rig = Rig.holding().hear(10, 0, DRAINS).connect(20);
    const first = rig.next();
    rig.attemptFailed(30, "kept").wantState(30, 0, "held").connect(40);
    assert.deepEqual(rig.resumes[0]?.triedOwnerIds.map(toId), [first]);
    const second = rig.next();
    assert.notEqual(first, second);
    rig.attemptFailed(50, "kept").release(60, 0, 80);
    rig.connect(70).want("open");
    assert.equal(rig.resumes.length, 0);
    rig.hear(80, 1, opensWith()).want("close", "opened", "release 2 of 1");
    rig.hear(90, 2, releasedAs(false)).want(`release 3 of ${first}`);
    rig.hear(90, 3, releasedAs(false)).want(`release 4 of ${second}`);
    rig.hear(90, 4, releasedAs(true)).want("done 80");
  });

  test("forgets the oldest tried ids, and the confirmed one never", () => {
    const ids = new Ids("confirmed");
    for (let n = 0; n < 66; n++) {
      ids.next = String(n);
      ids.unanswered();
    }
    assert.deepEqual([ids.tried.length, ids.nth(0), ids.nth(1)], [64, "confirmed", "2"]);
  });

  for (const [grace, state] of [
    [0, "session_ended"],
    [4000, "suspended"],
  ] as const) {
    test(`whose end the coordinator may have heard is the stream's, with a grace of ${grace}`, () => {
      const rig = Rig.holding({ grace }).hear(10, 0, DRAINS).connect(20).end(30, "left");
      rig.wantState(30, 0, state);
      assert(rig.machine.state.stream);
    });
  }

  test("that an operator ended is lost, whatever the grace", () => {
    const rig = Rig.holding({ grace: 4000 }).hear(10, 0, DRAINS).connect(20);
    rig.attemptFailed(30, "ended").wantState(30, 0, "session_ended");
  });

  test("to newer credentials goes on, or leaves everything as it was", () => {
    const rig = Rig.holding();
    rig.machine.moving.askToMove();
    rig.connect(10).want("open").wantState(10, 0, "held");
    rig.hear(20, 1, opensWith([rig.next()])).want("close", "opened");

    const other = Rig.holding();
    other.machine.moving.askToMove();
    other.connect(10).acquire(15, 2).want("");
    const refused = failsWith(Code.UNAUTHENTICATED, "UNAUTHENTICATED");
    other.hear(20, 1, refused).want("acquire 3 lock2", "hang up");
    assert(other.machine.moving.staysAfterRound(30));
    other.wantState(40, 0, "held");
  });

  test("with more than a MiB goes in parts", () => {
    const rig = Rig.open();
    const count = 9000;
    for (let i = 0; i < count; i++) {
      const name = String(i).padStart(500, "0");
      rig.ask(0, i + 1, spec([name]));
      rig.hear(0, i + 2, grants(0, granted(name, `owner${String(i).padStart(11, "0")}`)));
    }
    rig.end(10, "stopped");
    rig.machine.moving.connected(20, "http://test");
    const { outputs } = rig.machine.state;
    let resumed = 0;
    for (const [index, output] of outputs.entries()) {
      assert(output.kind === "send" && output.request.request.case === "open");
      const open = output.request.request.value;
      assert.equal(output.request.requestId, 1n);
      assert.equal(open.more, index < outputs.length - 1);
      assert(open.resume.reduce((size, { name }) => size + name.length, 0) <= 1 << 20);
      resumed += open.resume.length;
    }
    assert(outputs.length > 1);
    assert.equal(resumed, count);
  });
});

describe("a session that is asked to move", () => {
  /** Lets the heartbeats up to this time be sent and answered. */
  function beat(rig: Rig, from: number, until: number): void {
    for (let sequence = from; sequence * INTERVAL < until; sequence++) {
      rig.tick(sequence * INTERVAL).want(`heartbeat ${sequence}`);
      rig.ack(sequence * INTERVAL, sequence, 9900).want("");
    }
  }

  test("takes its holds and places along", () => {
    const rig = Rig.holding().acquire(0, 2).hear(0, 3, queuedAs("ticket"));
    rig.hear(10, 0, ASKS).want("");
    assert(rig.machine.state.wantsConnection && !rig.machine.state.isDraining);
    rig.tick(10).want("");
    rig.connect(20).want("open");
    assert.equal(rig.resumes.length, 2);
    const opened = opensInPlace(rig.next(1));
    const holds = opensWith([rig.next()]);
    assert(opened.case === "opened" && holds.case === "opened");
    opened.value.resumed = [...(opened.value.resumed ?? []), ...(holds.value.resumed ?? [])];
    rig.hear(30, 1, opened).want("close", "opened").wantState(30, 0, "held");
    assert(!rig.machine.state.wantsConnection);
  });

  test("moves if it has nothing", () => {
    const rig = Rig.open().hear(10, 0, ASKS).want("");
    assert(rig.machine.state.wantsConnection);
    rig.connect(20).want("open").hear(30, 1, opensWith()).want("close", "opened");
  });

  test("asks on the old stream until there is another", () => {
    const rig = Rig.holding().hear(10, 0, ASKS).acquire(20, 2).want("acquire 3 lock2");
    const former = rig.stream;
    // What is on its way is waited for, and nothing is added to it.
    rig.connect(30).want("").acquire(40, 3).want("").release(40, 0, 80).want("");
    rig.hear(50, 3, grants(0, granted(2, 2)), former).want("acquired 2", "open");
    rig
      .hear(60, 1, opensWith([rig.next()]))
      .want("close", "opened", "release 2 of 1", "acquire 3 lock3");
  });

  for (const wasAsked of [true, false]) {
    test(`stays and tries again after 10 s if it can't${wasAsked ? ", asked again or not" : ""}`, () => {
      const rig = Rig.holding().hear(10, 0, ASKS);
      const { stream } = rig;
      rig.connect(20).want("open").acquire(30, 2).want("");
      rig.attemptFailed(40, "declined").want("acquire 3 lock2");
      rig.stream = stream;
      assert(rig.machine.moving.staysAfterRound(50) && !rig.machine.state.wantsConnection);
      rig.grant(60, 3, 2, 2).want("acquired 2").acquire(70, 3).want("acquire 4 lock3");
      if (wasAsked) {
        rig.hear(80, 0, ASKS);
        rig.machine.moving.askToMove();
      }
      beat(rig, 1, 10_000);
      rig.tick(10_049).wantAlarm(10_050);
      assert(!rig.machine.state.wantsConnection);
      rig.tick(10_050).wantState(10_050, 0, "held");
      assert(rig.machine.state.wantsConnection);
      rig.connect(10_060).tick(11_060);
      rig.hear(11_070, 1, opensWith([rig.next(0), rig.next(1)]));
      assert.match(rig.seen, /close; opened; acquire \d+ lock3$/);
    });
  }

  test("leaves at once when its coordinator drains after all", () => {
    const rig = Rig.holding().hear(10, 0, ASKS);
    assert(rig.machine.moving.staysAfterRound(20));
    rig.hear(30, 0, DRAINS).want("draining").acquire(30, 2).want("");
    assert(rig.machine.state.wantsConnection && !rig.machine.moving.staysAfterRound(40));
    rig.tick(40).want("heartbeat 1");
  });

  test("leaves at once when its stream falls silent", () => {
    const rig = Rig.holding().hear(10, 0, ASKS);
    assert(rig.machine.moving.staysAfterRound(20));
    rig.tick(INTERVAL).tick(5000);
    assert(rig.machine.state.wantsConnection && !rig.machine.moving.staysAfterRound(5010));
  });

  for (const [name, said, end, state] of [
    ["stops", DRAINS, "stopped", "held"],
    ["asks again and ends the stream", ASKS, "left", "session_ended"],
  ] as const) {
    test(`has its holds ${state} when its coordinator ${name} during the attempt`, () => {
      const rig = Rig.holding().hear(10, 0, ASKS);
      const former = rig.stream;
      rig.connect(20).want("open").hear(30, 0, said, former).want("");
      assert.equal(rig.machine.streamEndedBy(40, former), end);
      rig.wantState(40, 0, state).hear(50, 1, opensWith([rig.next()]));
      rig.wantState(50, 0, state);
    });
  }

  test("takes a cancelled wait for what it is", () => {
    const rig = Rig.holding().acquire(0, 2).hear(10, 0, ASKS);
    rig.hear(20, 3, CANCELLED).want("failed 2 refused");
  });
});

describe("a suspended hold", () => {
  test("is resumed, or lost when the grace is over", () => {
    const rig = Rig.holding({ grace: 4000 }).end(1000, "left").wantState(1000, 0, "suspended");
    rig
      .connect(1500)
      .hear(1600, 1, opensWith([rig.next()]))
      .want("opened");
    rig.wantDeadline(1600, 0, 11_400);
    rig.end(2000, "left").tick(5999).wantState(5999, 0, "suspended");
    rig.tick(6000).wantState(6000, 0, "session_ended");
    // It is not asked for any more.
    rig.connect(6100);
    assert.equal(rig.resumes.length, 0);
  });

  test("never outlasts its deadline", () => {
    const rig = Rig.holding({ grace: 10_000 }).end(9000, "left");
    rig.wantState(9899, 0, "suspended").wantState(9900, 0, "session_ended");
  });

  test("is lost if the next coordinator refuses it", () => {
    const rig = Rig.holding({ grace: 4000 }).end(1000, "left").connect(1100);
    rig.hear(1200, 1, refuses(rig.next(), LostReason.TAKEN)).wantState(1200, 0, "taken");
  });

  test("waits for all parts of the answer", () => {
    const rig = Rig.holding({ grace: 4000 }).acquire(0, 2).grant(0, 3, 2, 2);
    rig.end(1000, "left").connect(1100);
    const [one, two] = [rig.next(0), rig.next(1)];
    rig
      .hear(1200, 1, opensWith([one], { more: true }))
      .want("")
      .wantState(1200, 0, "suspended");
    rig.hear(1200, 1, opensWith([two])).want("opened");
    rig.wantState(1200, 0, "held").wantState(1200, 1, "held");
  });

  test("is kept without a grace where the coordinator does not know the client any more", () => {
    const rig = Rig.holding().end(5000, "disowned").wantState(5000, 0, "suspended");
    rig
      .connect(5100)
      .hear(5200, 1, opensWith([rig.next()]))
      .want("opened")
      .wantState(5200, 0, "held");
    // It is kept for no longer than it was promised.
    rig.end(6000, "disowned").wantState(14_999, 0, "suspended");
    rig.wantState(15_000, 0, "unauthenticated");
  });
});

describe("a place in a queue", () => {
  test("is taken along, and asked for anew if it is refused", () => {
    const rig = Rig.open().acquire(0, 1, 5000).hear(10, 2, queuedAs("ticket"));
    rig.end(1000, "left").connect(1100);
    const [resume] = rig.resumes;
    assert.equal(toId(resume?.ownerId ?? new Uint8Array()), "ticket");
    assert(resume?.what.case === "wait");
    assert.equal(resume.what.value.acquireRequestId, 2n);
    assert.equal(Number(resume.what.value.wait?.seconds) * 1000, 3000);
    const next = rig.next();
    rig.hear(1200, 1, opensInPlace(next)).want("opened");
    // By its new ticket from now on.
    rig.end(1300, "left").connect(1400);
    assert.equal(toId(rig.resumes[0]?.ownerId ?? new Uint8Array()), next);
    rig.hear(1500, 1, opensWith()).want("opened", "acquire 3 lock1 for 3500");
  });

  test("may have come to a grant", () => {
    const rig = Rig.open().acquire(0, 1).hear(10, 2, queuedAs("ticket")).hear(20, 0, DRAINS);
    const next = rig.connect(30).next();
    rig.hear(40, 1, opensWith([next])).want("acquired 1", "close", "opened");
    rig.wantDeadline(40, 0, 9930);
    rig.release(50, 0, 80).want(`release 3 of ${next}`);
  });

  for (const [reason, want] of [
    [LostReason.FORCED, "failed 1 force_released"],
    [LostReason.PERMISSION_REVOKED, "failed 1 permission_denied"],
  ] as const) {
    test(`that is refused for good fails: ${want}`, () => {
      const rig = Rig.open().acquire(0, 1).hear(10, 2, queuedAs("ticket"));
      rig.end(20, "left").connect(30);
      rig.hear(40, 1, refuses(rig.next(), reason)).want(want, "opened");
    });
  }
});

describe("the end of a stream", () => {
  for (const grace of [0, 1000]) {
    test(`whose coordinator stopped leaves holds held, with a grace of ${grace}`, () => {
      const rig = Rig.holding({ grace }).hear(1000, 0, DRAINS).tick(1000).ack(1010, 1, 9900);
      rig.end(6000, "stopped").want("").wantState(9000, 0, "held");
      assert(rig.machine.state.isOrphaned(9000));
      rig.connectFailed(9000, unreachable(true)).want("");
      rig
        .connect(9100)
        .hear(9200, 1, opensWith([rig.next()]))
        .want("opened");
      rig.wantDeadline(9200, 0, 19_000);
    });
  }

  test("whose coordinator stopped loses holds at their deadlines", () => {
    const rig = Rig.holding().end(6000, "stopped").tick(9900).wantState(9900, 0, "expired");
    // It is not asked for any more, but given back should it still be there.
    rig.connect(10_000).want("open");
    assert.equal(rig.resumes.length, 0);
    rig.hear(10_100, 1, opensWith()).want("opened", "release 2 of 1");
  });

  for (const [code, reason] of [
    [Code.RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE"],
    [Code.INVALID_ARGUMENT, "INVALID_FIELD"],
    [Code.INTERNAL, ""],
  ] as const) {
    test(`by a request fails it, and it is not sent again: ${Code[code]}`, () => {
      const rig = Rig.holding().acquire(0, 2);
      rig.machine.streamEndedBy(1000, rig.stream, failure(code, reason));
      const failed = rig.machine.state.outputs.filter(({ kind }) => kind === "acquired");
      assert.equal(failed.length, 1);
      assert.equal(rig.machine.state.waiting.size, 0);
    });
  }

  test("by an operator leaves nothing to resume", () => {
    const rig = Rig.holding({ grace: 10_000 });
    const ended = failure(Code.ABORTED, "SESSION_ENDED");
    assert.equal(rig.machine.streamEndedBy(1000, rig.stream, ended), "by_operator");
    rig.wantState(1000, 0, "session_ended").connect(1100);
    assert.equal(rig.resumes.length, 0);
  });

  for (const [name, said, why, end, state] of [
    [
      "stopped, as the status says",
      undefined,
      failure(Code.UNAVAILABLE, "DRAINING"),
      "stopped",
      "held",
    ],
    ["plain after draining", DRAINS, undefined, "stopped", "held"],
    ["plain", undefined, undefined, "left", "session_ended"],
    ["plain after it asked to move", ASKS, undefined, "left", "session_ended"],
    ["broken while draining", DRAINS, failure(Code.UNAVAILABLE, "", true), "left", "session_ended"],
    [
      "identity expired",
      undefined,
      failure(Code.UNAUTHENTICATED, "IDENTITY_EXPIRED"),
      "disowned",
      "suspended",
    ],
    [
      "silent",
      undefined,
      failure(Code.DEADLINE_EXCEEDED, "SESSION_SILENT"),
      "left",
      "session_ended",
    ],
  ] as const) {
    test(`is judged by its status: ${name}`, () => {
      const rig = Rig.holding();
      if (said) {
        rig.hear(10, 0, said);
      }
      assert.equal(rig.machine.streamEndedBy(20, rig.stream, why), end);
      rig.wantState(20, 0, state);
    });
  }
});

describe("closing", () => {
  test("tells holds first, then the coordinator", () => {
    const rig = Rig.holding().acquire(0, 2).close(1).wantState(1, 0, "session_closed");
    rig.want("failed 2 closed", "close");
    rig.acquire(2, 3).want("failed 3 closed");
    rig.release(2, 0, 0).want("");
    rig.hear(3, 4, CLOSED).want("ended", "hang up");
  });

  test("cuts the stream if it is not answered", () => {
    const rig = Rig.open().hear(1, 0, DRAINS).want("draining", "close").wantAlarm(2001);
    rig.tick(2001).want("hang up");
  });

  test("on the way closes both streams", () => {
    const rig = Rig.holding().hear(1, 0, DRAINS).connect(2).want("open");
    rig.close(3).want("close", "leave", "close");
    // Nothing is asked of this one.
    const other = new Rig().connect(0);
    other.close(1).want("hang up", "ended");
  });
});

describe("the opening of a stream", () => {
  test("is given up after a while, and the stream kept", () => {
    const rig = new Rig().connect(0).want("open").wantAlarm(5000);
    rig.tick(5000).want("hang up");
    assert(rig.connectError);
    assert.equal(fateOf(rig.connectError), "kept");
  });

  for (const [code, reason, fate] of [
    [Code.INVALID_ARGUMENT, "INVALID_FIELD", "declined"],
    [Code.UNAVAILABLE, "DRAINING", "declined"],
    [Code.DEADLINE_EXCEEDED, "OPEN_TIMEOUT", "declined"],
    [Code.UNAVAILABLE, "STORE_INDETERMINATE", "kept"],
    [Code.UNAVAILABLE, "NOT_REPLICATED", "kept"],
    [Code.ABORTED, "SESSION_ENDED", "ended"],
    [Code.PERMISSION_DENIED, "", "declined"],
    [Code.UNAVAILABLE, "", "dropped"],
  ] as const) {
    test(`that fails with ${Code[code]} ${reason} is ${fate}`, () => {
      assert.equal(fateOf(ConnectError.of("http://test", failure(code, reason))), fate);
    });
  }
});

const ENDS: StreamEnd[] = ["left", "disowned", "stopped", "by_operator"];
const FATES: Fate[] = ["declined", "kept", "dropped", "ended"];

test("random inputs: no request id is used twice, and every caller is answered exactly once", () => {
  for (let seed = 0; seed < 200; seed++) {
    const random = randomFrom(seed);
    const rig = new Rig({ grace: random(3) * 2000 });
    const answers = new Map<number, number>();
    let asked = 0;
    let now = 0;
    const note = () => {
      for (const word of rig.seen.split("; ")) {
        const [what, caller] = word.split(" ");
        if (what === "acquired" || what === "failed" || what === "done") {
          answers.set(Number(caller), (answers.get(Number(caller)) ?? 0) + 1);
        }
      }
      rig.seen = "";
    };
    // A caller may have read the clock a little earlier.
    const early = () => now - random(3);
    const someLease = () => random(rig.leases.length);
    for (let step = 0; step < 400; step++) {
      now += random(800);
      const id = random(30);
      const stream = rig.stream - random(2);
      switch (random(18)) {
        case 0:
        case 1:
          if (rig.machine.state.wantsConnection) {
            rig.connect(now);
          }
          break;
        case 2:
          rig.hear(
            now,
            1,
            opensWith(rig.resumes.slice(-1).map((resume) => toId(resume.nextOwnerId))),
          );
          break;
        case 3:
        case 4:
        case 5: {
          const wait = random(2) === 0 ? random(3) * 1000 : undefined;
          rig.ask(early(), ++asked, spec([random(3)], { actor: random(3), wait }));
          break;
        }
        case 6:
        case 7:
          rig.hear(now, id, grants(random(3), granted(random(3), random(200))), stream);
          break;
        case 8:
          rig.hear(now, id, queuedAs("ticket"), stream);
          break;
        case 9:
          rig.hear(now, id, releasedAs(random(2) === 0), stream);
          break;
        case 10:
          rig.hear(now, 0, random(2) === 0 ? ASKS : DRAINS, stream);
          break;
        case 11:
          rig.end(now, ENDS[random(4)] ?? "left");
          break;
        case 12:
          rig.attemptFailed(now, FATES[random(4)] ?? "kept");
          break;
        case 13:
          if (rig.leases.length > 0) {
            rig.release(early(), someLease(), ++asked);
          }
          break;
        case 14:
          rig.hear(now, id, failsWith(Code.UNAVAILABLE, "STORE_UNAVAILABLE"), stream);
          break;
        case 15:
          rig.hear(now, 0, loses(random(200), LostReason.TAKEN), stream);
          break;
        case 16:
          if (rig.leases.length > 0) {
            rig.change(now, someLease(), DOWNGRADE, ++asked);
          }
          break;
        case 17:
          rig.machine.moving.staysAfterRound(now);
          break;
      }
      note();
      rig.tick(now);
      note();
    }
    rig.close(now);
    note();
    rig.tick(now + 2000);
    note();
    // From then on nobody ticks it.
    for (const index of rig.leases.keys()) {
      rig.change(now, index, DOWNGRADE, ++asked);
      note();
      rig.release(now, index, ++asked);
      note();
    }
    for (let caller = 1; caller <= asked; caller++) {
      assert.equal(answers.get(caller), 1, `seed ${seed}: caller ${caller}`);
    }
    for (const { lease } of rig.leases) {
      assert.equal(lease.alive(now), undefined, `seed ${seed}: a hold outlives its session`);
    }
  }
});
