"""Uses Leasehold from Python, with nothing but the stubs that grpcio-tools generates from `proto/`.

    python session.py check           checks the arithmetic of deadlines, without a coordinator
    python session.py tour ADDRESS    walks through everything that a session can do, and prints each step
    python session.py guard ADDRESS   holds a lock with a TTL of five seconds until it is lost, and prints by which deadline
    python session.py elect ADDRESS   walks through an election, as candidates and as an observer

ADDRESS is `host:port` of a coordinator.

A test of the stubs as anybody generates them, and no client to copy: `client/python` is one. `Session` may be used from several
threads, sends heartbeats, computes the deadline of each lock by a clock that counts suspended time, and takes a lock for lost at its
deadline, whatever the network does.

It lacks: TLS and tokens; reconnecting and resuming, so that every lock is lost when the stream ends (also while a coordinator
drains, of which `draining` tells); several names in one acquire, reentrant acquires, set_value and downgrade; safety across a fork.
`Candidate` is a walk through the messages of an election and not to be copied: it sends no heartbeats and keeps no deadline. With a
`Session`, an election is an exclusive lock of its name. `leader.py` leads so, and resumes.
"""

import itertools
import queue
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc_tools import protoc


def generate_stubs() -> None:
    """Generates the stubs and makes them importable."""
    import grpc_tools

    proto = Path(__file__).resolve().parents[3] / "proto"
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    out = tempfile.mkdtemp(prefix="leasehold-stubs-")
    files = sorted(str(path.relative_to(proto)) for path in proto.glob("leasehold/v1/*.proto"))
    arguments = ["protoc", f"-I{proto}", f"-I{well_known}", f"--python_out={out}", f"--grpc_python_out={out}"]
    if protoc.main(arguments + files) != 0:
        sys.exit("failed to generate the stubs")
    sys.path.insert(0, out)


generate_stubs()

from leasehold.v1 import admin_pb2, admin_pb2_grpc, election_pb2, election_pb2_grpc  # noqa: E402
from leasehold.v1 import lock_pb2_grpc, session_pb2, types_pb2  # noqa: E402


# Counts the time for which the machine was suspended: CLOCK_MONOTONIC does so on macOS, but not on Linux.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# How long to wait for `opened`, in seconds.
OPEN_TIMEOUT = 5
# How long to sleep at most, in seconds: sleeping does not count suspended time.
LONGEST_SLEEP = 1


def now() -> int:
    """Returns nanoseconds of a monotonic clock."""
    return time.clock_gettime_ns(CLOCK)


class Refused(Exception):
    """The coordinator answered a request with `error`; `failure.reason` is for programs."""

    def __init__(self, failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


class Lock:
    """A lock that was granted. It is lost or released once, and never held again after that."""

    def __init__(self, granted, deadline: int) -> None:
        self.name = granted.name
        self.owner_id = granted.owner_id
        self.fencing_token = granted.fencing_token
        # By `now`. Only the session changes it, and what follows.
        self.deadline = deadline
        self.reason = None
        self.over = threading.Event()

    def is_held(self) -> bool:
        """Returns whether nobody else can hold the lock: reads the clock, since timers come late after a pause."""
        return not self.over.is_set() and now() < self.deadline

    def end(self, reason: str) -> None:
        if not self.over.is_set():
            self.reason = reason
            self.over.set()


class Leases:
    """The arithmetic of deadlines, apart from threads and streams. Callers take turns."""

    def __init__(self) -> None:
        self.ttl = 0
        self.acknowledged = 0
        self.locks: dict = {}
        self._sent: dict = {}

    def sent(self, sequence: int, moment: int) -> None:
        """Notes when a heartbeat is about to be sent, and forgets those older than a TTL: they promise nothing any more."""
        while self.ttl and self._sent and next(iter(self._sent.values())) + self.ttl < moment:
            del self._sent[next(iter(self._sent))]
        self._sent[sequence] = moment

    def deadline(self, acked: int, valid_for) -> int:
        """Returns until when a promise holds: counted from when that heartbeat was sent. The past, if that is forgotten."""
        moment = self._sent.get(acked)
        return 0 if moment is None else moment + valid_for.ToNanoseconds()

    def granted(self, response) -> list:
        deadline = self.deadline(response.acked_heartbeat, response.valid_for)
        locks = [Lock(granted, deadline) for granted in response.locks]
        for lock in locks:
            self.locks[lock.owner_id] = lock
        return locks

    def heartbeat(self, ack, moment: int) -> None:
        """Extends what is still held. A lock whose deadline has passed by now is lost, however late the answer comes."""
        self.expire(moment)
        self.acknowledged = max(self.acknowledged, ack.acked_heartbeat)
        deadline = self.deadline(ack.acked_heartbeat, ack.valid_for)
        for lock in self.locks.values():
            lock.deadline = max(lock.deadline, deadline)

    def expire(self, moment: int) -> None:
        for lock in [lock for lock in self.locks.values() if lock.deadline <= moment]:
            self.end(lock.owner_id, "its deadline has passed")

    def end(self, owner_id: bytes, reason: str) -> None:
        lock = self.locks.pop(owner_id, None)
        if lock is not None:
            lock.end(reason)


class Session:
    """A lease stream with heartbeats and deadlines in the background."""

    def __init__(self, channel: grpc.Channel, ttl: int) -> None:
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._ids = itertools.count(1)
        # Guards everything below; is notified when any of it changes.
        self._changed = threading.Condition()
        self._leases = Leases()
        self._sequence = 0
        # What has come for each request in flight, by its id. Everything else is taken in as it comes.
        self._answers: dict = {}
        # Acquires that were given up: what is granted to them is given back.
        self._abandoned: set = set()
        self._ended = False
        self.draining = threading.Event()
        self._leases.sent(0, now())
        self._responses = lock_pb2_grpc.LockServiceStub(channel).Session(iter(self._requests.get, None))
        threading.Thread(target=self._read, daemon=True).start()
        request = self._send(open=session_pb2.SessionOpen(client_name="python", ttl=Duration(seconds=ttl)))
        try:
            self.opened = self._answer(request, OPEN_TIMEOUT).opened
        except Exception:
            self._responses.cancel()
            raise
        with self._changed:
            self._leases.ttl = self.opened.ttl.ToNanoseconds()
        threading.Thread(target=self._beat, daemon=True).start()
        threading.Thread(target=self._expire, daemon=True).start()

    def _read(self) -> None:
        """Takes in everything that the coordinator sends, at once, until the stream ends."""
        try:
            for response in self._responses:
                with self._changed:
                    self._take(response)
                    self._changed.notify_all()
        except grpc.RpcError:
            pass
        finally:
            with self._changed:
                self._ended = True
                for owner_id in list(self._leases.locks):
                    self._leases.end(owner_id, "the stream has ended")
                self._changed.notify_all()
            self._requests.put(None)

    def _take(self, response) -> None:
        kind = response.WhichOneof("response")
        if kind == "heartbeat":
            self._leases.heartbeat(response.heartbeat, now())
        elif kind == "lost":
            for lost in response.lost.locks:
                self._leases.end(lost.owner_id, types_pb2.LostReason.Name(lost.reason))
        elif kind == "draining":
            self.draining.set()
        elif response.request_id in self._abandoned:
            if kind == "granted":
                for lock in response.granted.locks:
                    self._give_back(lock)
            if kind != "queued":
                self._abandoned.discard(response.request_id)
        else:
            # The deadline runs from now on, whether anybody asks for the answer or not.
            answer = self._leases.granted(response.granted) if kind == "granted" else response
            waiting = self._answers.get(response.request_id)
            if waiting is not None:
                waiting.append(answer)

    def _beat(self) -> None:
        interval = self.opened.heartbeat_interval.ToNanoseconds() / 1e9
        while not self._wait(lambda: self._ended, interval):
            self.heartbeat()

    def _expire(self) -> None:
        with self._changed:
            while not self._ended:
                self._leases.expire(now())
                deadlines = [lock.deadline for lock in self._leases.locks.values()]
                left = (min(deadlines) - now()) / 1e9 if deadlines else LONGEST_SLEEP
                self._changed.wait(max(0, min(left, LONGEST_SLEEP)))

    def _wait(self, condition, timeout) -> bool:
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def _send(self, **request) -> int:
        """Sends a request that is answered, and returns its id."""
        with self._changed:
            number = next(self._ids)
            self._answers[number] = []
            self._requests.put(session_pb2.SessionRequest(request_id=number, **request))
            return number

    def _give_back(self, lock) -> None:
        """Releases a lock that nobody wants any more. What has no place in `_answers` is dropped when it comes."""
        release = session_pb2.SessionRelease(name=lock.name, owner_id=lock.owner_id)
        self._requests.put(session_pb2.SessionRequest(request_id=next(self._ids), release=release))

    def _answer(self, request: int, timeout=None, last=True):
        """Waits for the next answer to a request, which is forgotten then if that is its last."""
        with self._changed:
            answers = self._answers[request]
            came = self._changed.wait_for(lambda: answers or self._ended, timeout)
            if last:
                self._answers.pop(request, None)
        if not came:
            raise TimeoutError("no answer came")
        if not answers:
            raise EOFError("the stream has ended")
        answer = answers.pop(0)
        if not isinstance(answer, list) and answer.WhichOneof("response") == "error":
            raise Refused(answer.error)
        return answer

    def heartbeat(self) -> int:
        """Sends a heartbeat, and returns its sequence. Its answer is known by that, so it needs no request id."""
        with self._changed:
            self._sequence += 1
            self._leases.sent(self._sequence, now())
            self._requests.put(
                session_pb2.SessionRequest(heartbeat=session_pb2.SessionHeartbeat(sequence=self._sequence))
            )
            return self._sequence

    def wait_acknowledged(self, sequence: int, timeout=None) -> bool:
        """Waits until a heartbeat, or a later one, is acknowledged."""
        return self._wait(lambda: self._leases.acknowledged >= sequence or self._ended, timeout) and not self._ended

    def acquire(self, name: str, **options) -> "Acquire":
        """Asks for a lock; the options are those of `SessionAcquire`, such as `wait`."""
        return Acquire(self, self._send(acquire=session_pb2.SessionAcquire(name=name, **options)))

    def release(self, lock: Lock) -> bool:
        """Gives a lock back. False if it was lost before."""
        with self._changed:
            # Nobody may count on it from here on, whatever becomes of the release.
            self._leases.end(lock.owner_id, "released")
            lock.end("released")
        release = session_pb2.SessionRelease(name=lock.name, owner_id=lock.owner_id)
        return self._answer(self._send(release=release)).released.released

    def in_flight(self) -> int:
        """Returns how many requests have answers to come, or to be read."""
        with self._changed:
            return len(self._answers)

    def close(self) -> None:
        """Releases everything, and ends the session."""
        with self._changed:
            for owner_id in list(self._leases.locks):
                self._leases.end(owner_id, "the session was closed")
        answer = self._answer(self._send(close=session_pb2.SessionClose()))
        assert answer.WhichOneof("response") == "closed", answer


class Acquire:
    """An acquire in flight."""

    def __init__(self, session: Session, request: int) -> None:
        self._session = session
        self._request = request

    def queued(self) -> int:
        """Waits until it is queued, and returns its place."""
        answer = self._session._answer(self._request, last=False)
        assert answer.WhichOneof("response") == "queued", answer
        return answer.queued.position

    def result(self, timeout=None):
        """Waits for the outcome: a `Lock`, or a `SessionNotGranted`. Gives up after `timeout` seconds: what is granted after all is
        given back."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0, until - time.monotonic())
            try:
                answer = self._session._answer(self._request, left, last=False)
            except TimeoutError:
                self._give_up()
                raise
            except (Refused, EOFError):
                self._forget()
                raise
            if isinstance(answer, list):
                self._forget()
                return answer[0]
            if answer.WhichOneof("response") == "not_granted":
                self._forget()
                return answer.not_granted

    def _forget(self) -> None:
        with self._session._changed:
            self._session._answers.pop(self._request, None)

    def _give_up(self) -> None:
        session = self._session
        with session._changed:
            for answer in session._answers.pop(self._request, []):
                if isinstance(answer, list):
                    # It was granted in the last moment.
                    for lock in answer:
                        session._leases.end(lock.owner_id, "given up")
                        session._give_back(lock)
                    return
            session._abandoned.add(self._request)
            cancel = session_pb2.SessionCancel(acquire_request_id=self._request)
            session._requests.put(session_pb2.SessionRequest(cancel=cancel))


class Candidate:
    """The messages of a candidacy, one after the other. Not safe: it sends no heartbeats, and has a TTL of a minute for that."""

    def __init__(self, channel: grpc.Channel, election: str, value: bytes) -> None:
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._responses = election_pb2_grpc.ElectionServiceStub(channel).Campaign(iter(self._requests.get, None))
        self.send(campaign=election_pb2.CampaignOpen(election=election, value=value, ttl=Duration(seconds=60)))
        self.position = self.next("campaigning").position

    def send(self, **request) -> None:
        self._requests.put(election_pb2.CampaignRequest(**request))

    def next(self, kind: str):
        """Waits for the next message, which must be of that kind."""
        response = next(self._responses)
        assert response.WhichOneof("response") == kind, response
        return getattr(response, kind)

    def resign(self) -> bool:
        self.send(resign=election_pb2.CampaignResign())
        led = self.next("resigned").led
        assert next(self._responses, None) is None, "the stream goes on"
        self._requests.put(None)
        return led


def say(*words: object) -> None:
    print(*words, flush=True)


def check() -> None:
    second = 1_000_000_000
    leases = Leases()
    leases.ttl = 10 * second
    leases.sent(0, 100 * second)
    leases.sent(1, 103 * second)

    def grant(owner: bytes, acked: int) -> Lock:
        granted = session_pb2.GrantedLock(name="n", owner_id=owner)
        return leases.granted(
            session_pb2.SessionGranted(locks=[granted], valid_for=Duration(seconds=9), acked_heartbeat=acked)
        )[0]

    def acknowledge(acked: int, moment: int) -> None:
        ack = session_pb2.SessionHeartbeatAck(acked_heartbeat=acked, valid_for=Duration(seconds=9))
        leases.heartbeat(ack, moment * second)

    lock = grant(b"one", 0)
    assert lock.deadline == 109 * second, "counted from when the open was sent"
    acknowledge(1, 108)
    assert lock.deadline == 112 * second, "counted from when the heartbeat was sent, not from when it was answered"
    acknowledge(0, 108)
    acknowledge(77, 108)
    assert lock.deadline == 112 * second, "an earlier heartbeat shortens nothing, an unknown one changes nothing"
    leases.sent(2, 111 * second)
    acknowledge(2, 112)
    assert lock.over.is_set() and not leases.locks, "an answer that comes after the deadline saves nothing"
    leases.sent(3, 130 * second)
    assert grant(b"two", 2).deadline == 0, "a grant that names a forgotten heartbeat is lost"
    say("checked")


def tour(channel: grpc.Channel) -> None:
    session = Session(channel, ttl=10)
    assert session.opened.session_id and session.opened.ttl.seconds == 10
    say("opened")

    assert session.wait_acknowledged(session.heartbeat())
    say("heartbeat acknowledged")

    first = session.acquire("python/tour").result()
    assert len(first.owner_id) == 16 and first.fencing_token > 0 and first.is_held()
    say("granted")

    other = Session(channel, ttl=10)
    waiting = other.acquire("python/tour")
    say("queued at", waiting.queued())
    assert session.release(first) and not first.is_held()
    second = waiting.result()
    assert second.fencing_token > first.fencing_token
    say("granted after waiting")

    refused = session.acquire("python/tour", wait=Duration()).result()
    assert refused.outcome == types_pb2.ACQUIRE_OUTCOME_BUSY, refused
    assert refused.holder.client_name == "python" and refused.holder.fencing_token == second.fencing_token
    say("busy")

    try:
        session.acquire("python/tour").result(timeout=0)
    except TimeoutError:
        say("given up")

    admin = admin_pb2_grpc.AdminServiceStub(channel)
    forced = admin.ForceRelease(admin_pb2.ForceReleaseRequest(name="python/tour"))
    assert forced.released and forced.fencing_token > second.fencing_token, forced
    second.over.wait()
    assert not second.is_held()
    say("lost", second.reason)

    assert not other.release(second)
    say("not released after the loss")

    third = other.acquire("python/tour").result()
    assert third.fencing_token > forced.fencing_token
    assert other.release(third)
    say("released")

    tokens: list = []
    threads = [threading.Thread(target=work, args=(session, tokens)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tokens) == 8 * 10 and tokens == sorted(tokens), tokens
    assert session.in_flight() == 0, "answers pile up"
    say("eight threads took turns")

    other.close()
    session.close()
    say("closed")


def work(session: Session, tokens: list) -> None:
    """Takes the same lock as other threads of the same session, ten times. Actor 0 is a stranger to itself."""
    for _ in range(10):
        lock = session.acquire("python/threads").result()
        tokens.append(lock.fencing_token)
        assert session.release(lock)


def guard(channel: grpc.Channel) -> None:
    session = Session(channel, ttl=5)
    lock = session.acquire("python/guarded").result()
    granted = lock.deadline
    say("holding", lock.fencing_token)
    while lock.deadline == granted:
        assert session.wait_acknowledged(session.heartbeat())
    say("kept")
    lock.over.wait()
    assert not lock.is_held()
    # The deadline is a time of CLOCK.
    say("lost", lock.deadline, lock.reason)


def elect(channel: grpc.Channel) -> None:
    name = "python/election"
    elections = election_pb2_grpc.ElectionServiceStub(channel)
    observed = elections.Observe(election_pb2.ObserveRequest(election=name))
    assert not next(observed).HasField("leader")
    say("nobody leads")

    first = Candidate(channel, name, b"first")
    elected = first.next("elected")
    leader = next(observed).leader
    assert (leader.fencing_token, leader.value) == (elected.fencing_token, b"first"), leader
    say("elected")

    second = Candidate(channel, name, b"second")
    say("waiting at", second.position)
    first.send(proclaim=election_pb2.CampaignProclaim(value=b"changed"))
    first.next("proclaimed")
    assert next(observed).leader.value == b"changed"
    say("proclaimed")

    assert first.resign()
    after = second.next("elected")
    assert after.fencing_token > elected.fencing_token
    while (told := next(observed)).leader.value != b"second":
        assert not told.HasField("leader"), told
    asked = elections.Leader(election_pb2.LeaderRequest(election=name))
    assert asked.leader.fencing_token == after.fencing_token == told.leader.fencing_token
    say("elected after waiting")

    forced = admin_pb2_grpc.AdminServiceStub(channel).ForceRelease(admin_pb2.ForceReleaseRequest(name=name))
    assert forced.released
    say("lost", types_pb2.LostReason.Name(second.next("lost").reason))
    assert not next(observed).HasField("leader")
    observed.cancel()
    say("nobody leads again")


def main() -> None:
    mode, *address = sys.argv[1:]
    if mode == "check":
        return check()
    with grpc.insecure_channel(*address) as channel:
        {"tour": tour, "guard": guard, "elect": elect}[mode](channel)


if __name__ == "__main__":
    main()
