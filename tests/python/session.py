"""Uses Leasehold from Python, with nothing but the stubs that grpcio-tools generates from `proto/`.

    python session.py tour ADDRESS    walks through everything that a session can do, and prints each step
    python session.py hold ADDRESS    takes a lock with a TTL of a minute and keeps it until it is killed
    python session.py elect ADDRESS   walks through an election, as candidates and as an observer
    python session.py lead ADDRESS    campaigns with a TTL of a minute and leads until it is killed

ADDRESS is `host:port` of a coordinator.
"""

import itertools
import queue
import sys
import tempfile
import threading
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc_tools import protoc


def generate_stubs() -> None:
    """Generates the stubs and makes them importable."""
    import grpc_tools

    proto = Path(__file__).resolve().parents[2] / "proto"
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


class Session:
    """A lease stream with heartbeats in the background."""

    def __init__(self, channel: grpc.Channel, ttl: int) -> None:
        self._requests: queue.SimpleQueue = queue.SimpleQueue()
        self._ids = itertools.count(1)
        self._sequences = itertools.count(1)
        self._unread: list = []
        self._responses = lock_pb2_grpc.LockServiceStub(channel).Session(iter(self._requests.get, None))
        request = self.send(open=session_pb2.SessionOpen(client_name="python", ttl=Duration(seconds=ttl)))
        self.opened = self.answer(request).opened
        self._closed = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        interval = self.opened.heartbeat_interval.ToTimedelta().total_seconds()
        while not self._closed.wait(interval):
            self.heartbeat()

    def send(self, **request) -> int:
        """Sends a request and returns its id."""
        number = next(self._ids)
        self._requests.put(session_pb2.SessionRequest(request_id=number, **request))
        return number

    def heartbeat(self) -> int:
        return self.send(heartbeat=session_pb2.SessionHeartbeat(sequence=next(self._sequences)))

    def answer(self, request: int) -> session_pb2.SessionResponse:
        """Waits for the next message about a request; 0 for what the coordinator sends of itself."""
        for place, response in enumerate(self._unread):
            if response.request_id == request:
                return self._unread.pop(place)
        for response in self._responses:
            if response.request_id == request:
                return response
            self._unread.append(response)
        raise EOFError("the stream has ended")

    def acquire(self, name: str, **options) -> int:
        return self.send(acquire=session_pb2.SessionAcquire(name=name, **options))

    def release(self, lock: session_pb2.GrantedLock) -> bool:
        release = session_pb2.SessionRelease(name=lock.name, owner_id=lock.owner_id)
        return self.answer(self.send(release=release)).released.released

    def close(self) -> None:
        answer = self.answer(self.send(close=session_pb2.SessionClose()))
        self._closed.set()
        self._requests.put(None)
        assert answer.WhichOneof("response") == "closed", answer


class Candidate:
    """A candidacy. Its heartbeats go with a TTL of a minute, longer than any of it lasts."""

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


def tour(channel: grpc.Channel) -> None:
    session = Session(channel, ttl=10)
    assert session.opened.session_id and session.opened.ttl.seconds == 10
    say("opened")

    answer = session.answer(session.heartbeat())
    assert answer.heartbeat.acked_heartbeat >= 1, answer
    say("heartbeat acknowledged")

    first = session.answer(session.acquire("python/tour")).granted.locks[0]
    assert len(first.owner_id) == 16 and first.fencing_token > 0, first
    say("granted")

    other = Session(channel, ttl=10)
    waiting = other.acquire("python/tour")
    say("queued at", other.answer(waiting).queued.position)
    assert session.release(first)
    second = other.answer(waiting).granted.locks[0]
    assert second.fencing_token > first.fencing_token
    say("granted after waiting")

    refused = session.answer(session.acquire("python/tour", wait=Duration())).not_granted
    assert refused.outcome == types_pb2.ACQUIRE_OUTCOME_BUSY, refused
    assert refused.holder.client_name == "python" and refused.holder.fencing_token == second.fencing_token
    say("busy")

    admin = admin_pb2_grpc.AdminServiceStub(channel)
    forced = admin.ForceRelease(admin_pb2.ForceReleaseRequest(name="python/tour"))
    assert forced.released and forced.fencing_token > second.fencing_token, forced
    lost = other.answer(0).lost.locks[0]
    assert (lost.name, lost.owner_id) == ("python/tour", second.owner_id)
    say("lost", types_pb2.LostReason.Name(lost.reason))

    assert not other.release(second)
    say("not released after the loss")

    third = other.answer(other.acquire("python/tour")).granted.locks[0]
    assert third.fencing_token > forced.fencing_token
    assert other.release(third)
    say("released")

    other.close()
    session.close()
    say("closed")


def hold(channel: grpc.Channel) -> None:
    session = Session(channel, ttl=60)
    lock = session.answer(session.acquire("python/held")).granted.locks[0]
    say("holding", lock.fencing_token)
    session.answer(0)


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


def lead(channel: grpc.Channel) -> None:
    candidate = Candidate(channel, "python/led", b"python")
    say("leading", candidate.next("elected").fencing_token)
    candidate.next("lost")


def main() -> None:
    mode, address = sys.argv[1:]
    with grpc.insecure_channel(address) as channel:
        {"tour": tour, "hold": hold, "elect": elect, "lead": lead}[mode](channel)


if __name__ == "__main__":
    main()
