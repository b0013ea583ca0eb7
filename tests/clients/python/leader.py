"""Leads an election from Python over restarts of coordinators, with nothing but the stubs that grpcio-tools generates.

    python leader.py ELECTION VALUE TTL ADDRESS...

TTL is in seconds; each ADDRESS is `host:port` of a coordinator. The program prints a line for each event, and resigns when its
input ends:

    waiting POSITION            it is a candidate
    leading TOKEN               it is elected; the token stays the same for the whole term
    moved COORDINATOR SECONDS   another stream has resumed the candidacy or the leadership, SECONDS before the leadership's deadline
    lost REASON                 the term is over, and it campaigns anew
    resigned                    the term is over as asked

`Leader` shows the messages of the steps in `docs/clients.md`, for those who write a client; a program uses `client/python`. A candidacy is the exclusive lock of the election on a session, and moves with it.
It lacks: TLS and tokens; a `disconnect_grace`, so that a coordinator that crashes ends the term; further locks on its session.
"""

import itertools
import os
import queue
import sys
import threading

import grpc

from session import Duration, lock_pb2_grpc, now, say, session_pb2, types_pb2

SECOND = 1_000_000_000
# How long an attempt to resume may take, and the pauses before the next one and before a failed campaign is repeated.
ATTEMPT, PAUSE, LATER = SECOND, SECOND // 5, SECOND
# Failures that may pass: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and UNAVAILABLE of google.rpc.Code.
PASSING = (4, 8, 14)
# The actor of the candidacy: a second acquire of the same election by it is an error, and never waits behind the first.
ACTOR = 1
# Request ids. Heartbeats have none.
OPEN, ACQUIRE, RELEASE, CLOSE = range(1, 5)


class Stream:
    """One lease stream, on a connection of its own. All that happens on it goes to `inbox`, with the stream."""

    def __init__(self, address: str, inbox: queue.SimpleQueue) -> None:
        self.requests: queue.SimpleQueue = queue.SimpleQueue()
        # When each heartbeat was sent; 0 is the `open`.
        self.sent: dict = {}
        # The owner id or ticket that it is to take over, and the one that it gives to that.
        self.resumes, self.next_owner_id = None, os.urandom(16)
        self.interval = self.beat_at = 0
        # Without a pool of its own, a channel waits out the pauses of earlier channels to the same address.
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        threading.Thread(target=self._read, args=(inbox,), daemon=True).start()

    def _read(self, inbox: queue.SimpleQueue) -> None:
        ended = None
        try:
            responses = lock_pb2_grpc.LockServiceStub(self.channel).Session(iter(self.requests.get, None))
            # Nothing is resumed before a coordinator has accepted the stream. A call that failed has no headers.
            if responses.initial_metadata():
                inbox.put((self, "accepted", None))
            for response in responses:
                inbox.put((self, response.WhichOneof("response"), response))
        except grpc.RpcError as error:
            ended = error
        inbox.put((self, "ended", ended))

    def send(self, request_id: int = 0, **request) -> None:
        self.requests.put(session_pb2.SessionRequest(request_id=request_id, **request))

    def beat(self) -> None:
        sequence = max(self.sent) + 1
        self.sent[sequence] = now()
        self.sent.pop(sequence - 100, None)
        self.beat_at = self.sent[sequence] + self.interval
        self.send(heartbeat=session_pb2.SessionHeartbeat(sequence=sequence))

    def hang_up(self) -> None:
        self.requests.put(None)
        self.channel.close()


class Leader:
    """A candidacy and its terms. `run` does everything, in one thread; the others only ask `is_leader`."""

    def __init__(self, election: str, value: bytes, ttl: int, addresses: list) -> None:
        self.election, self.value, self.ttl = election, value, ttl
        self.addresses = itertools.cycle(addresses)
        self.inbox: queue.SimpleQueue = queue.SimpleQueue()
        # The stream in use, the one that is to follow it, and earlier attempts, which stay up until one has opened.
        self.stream = self.next = None
        self.attempts: list = []
        self.dial_at = self.campaign_at = 0
        # The owner id of the leadership or the ticket of the place, whichever there is, and those of attempts without an answer.
        self.owner_id, self.tried = None, []
        self.token = self.deadline = 0
        self.is_resigning = False
        # The stream that was asked to end everything.
        self.closing = None

    def is_leader(self) -> bool:
        """Returns whether nobody else can lead: reads the clock, since timers come late after a pause."""
        return self.token != 0 and not self.is_resigning and now() < self.deadline

    def run(self) -> None:
        while True:
            try:
                stream, kind, response = self.inbox.get(timeout=0.05)
            except queue.Empty:
                kind = None
            if self.token and self.deadline <= now():
                # A loss is final, whatever the coordinator believes.
                self.lose("its deadline has passed", give_back=True)
            if kind == "resign":
                self.is_resigning = True
            elif kind is not None and (stream is self.next or stream in self.attempts):
                self.take_attempt(stream, kind, response)
            elif kind is not None and stream is self.stream and self.take(stream, kind, response):
                return
            self.tick()

    def tick(self) -> None:
        if self.stream and self.stream.beat_at <= now():
            self.stream.beat()
        if self.dial_at and self.dial_at <= now():
            if self.next:
                # It may have been carried out, and what it took over ends with it: it stays up.
                self.attempts.append(self.next)
            self.next = Stream(next(self.addresses), self.inbox)
            self.dial_at = now() + ATTEMPT
        if self.campaign_at and self.campaign_at <= now():
            self.campaign()
        if self.is_resigning and self.stream and not self.tried and self.closing is not self.stream:
            self.closing = self.stream
            self.stream.send(CLOSE, close=session_pb2.SessionClose())

    def open(self, stream: Stream) -> None:
        """Opens the session, and resumes what there is under a new owner id."""
        opening = session_pb2.SessionOpen(client_name="python", ttl=Duration(seconds=self.ttl))
        stream.resumes = self.owner_id
        if self.owner_id:
            resume = opening.resume.add(name=self.election, owner_id=self.owner_id, next_owner_id=stream.next_owner_id)
            resume.tried_owner_ids.extend(self.tried[-64:])
            self.tried.append(stream.next_owner_id)
            if self.token:
                resume.hold.fencing_token = self.token
            else:
                resume.wait.acquire_request_id = ACQUIRE
        stream.sent[0] = now()
        stream.send(OPEN, open=opening)

    def take_attempt(self, stream: Stream, kind: str, response) -> None:
        """Takes in what happens on a stream that is to follow. Only what the newest opens counts: it names all before it."""
        if kind == "ended":
            if stream is self.next:
                self.next, self.dial_at = None, now() + PAUSE
            if stream.next_owner_id in self.tried:
                if has_stopped(response):
                    # It asked the store for nothing.
                    self.tried.remove(stream.next_owner_id)
                elif says(response, b"SESSION_ENDED"):
                    self.lose("an operator has ended the session")
                elif not says(response, b"leasehold"):
                    # The coordinator may have taken the leadership over, and given it back as the connection broke. If the
                    # coordinator itself ended the stream, it keeps what it may have taken over, for the next attempt.
                    self.lose("an attempt to resume broke")
        elif kind == "lost" and stream.next_owner_id in self.tried:
            self.lose_unless_resumed(response.lost.locks)
        elif stream is self.next and kind == "accepted":
            self.open(stream)
        elif stream is self.next and kind == "opened" and stream.resumes != self.owner_id:
            # The term was lost, or begun, meanwhile. What this stream took over is released with it.
            stream.hang_up()
            self.next, self.dial_at = None, now()
        elif stream is self.next and kind == "opened":
            self.opened(stream, response.opened)

    def opened(self, stream: Stream, opened) -> None:
        """Goes over to a stream that has opened."""
        for left in [self.stream, *self.attempts]:
            if left:
                left.hang_up()
        self.stream, self.next, self.attempts, self.tried, self.dial_at = stream, None, [], [], 0
        stream.interval = opened.heartbeat_interval.ToNanoseconds()
        stream.beat_at = stream.sent[0] + stream.interval
        for lost in opened.refused:
            self.lose(types_pb2.LostReason.Name(lost.reason))
        for resumed in opened.resumed:
            self.owner_id = resumed.owner_id
            if resumed.WhichOneof("what") == "hold":
                self.lead(resumed.hold.fencing_token, stream.sent[0] + opened.valid_for.ToNanoseconds())
            say("moved", opened.coordinator, max(0, self.deadline - now()) / SECOND)
        self.campaign()

    def campaign(self) -> None:
        self.campaign_at = 0
        if self.owner_id or not self.stream or self.dial_at or self.is_resigning:
            return
        acquire = session_pb2.SessionAcquire(name=self.election, value=self.value, actor=ACTOR)
        self.stream.send(ACQUIRE, acquire=acquire)

    def take(self, stream: Stream, kind: str, response) -> bool:
        """Takes in what happens on the stream in use. Returns whether everything is over."""
        # After an attempt to resume, the old stream says nothing reliable of the leadership.
        is_ours = not self.tried
        if kind == "queued" and is_ours:
            self.owner_id = response.queued.ticket
            say("waiting", response.queued.position)
        elif kind == "granted" and is_ours:
            lock = response.granted.locks[0]
            self.owner_id = lock.owner_id
            sent = stream.sent.get(response.granted.acked_heartbeat, 0)
            self.lead(lock.fencing_token, sent + response.granted.valid_for.ToNanoseconds())
        elif kind == "heartbeat" and is_ours and self.token:
            sent = stream.sent.get(response.heartbeat.acked_heartbeat, 0)
            self.deadline = max(self.deadline, sent + response.heartbeat.valid_for.ToNanoseconds())
        elif kind == "lost" and is_ours:
            self.lose(types_pb2.LostReason.Name(response.lost.locks[0].reason), give_back=True)
        elif kind == "lost":
            self.lose_unless_resumed(response.lost.locks)
        elif kind == "draining":
            stream.interval = min(stream.interval, self.ttl * SECOND // 5)
            stream.beat()
            self.dial_at = now()
        elif kind == "closed":
            stream.hang_up()
            say("resigned")
            return True
        elif kind == "error" and is_ours and response.request_id == ACQUIRE:
            if response.error.code not in PASSING:
                sys.exit(f"{response.error.reason}: {response.error.message}")
            # A wait that failed has lost its place.
            self.owner_id, self.campaign_at = None, now() + LATER
        elif kind == "ended":
            if not has_stopped(response):
                self.lose("the stream has ended")
            # If the coordinator has stopped, the leadership stays until its deadline, and the place for a while.
            self.stream, self.dial_at = None, self.dial_at or now()
            return self.is_resigning and not self.owner_id
        return False

    def lead(self, token: int, deadline: int) -> None:
        is_new = token != self.token
        self.token, self.deadline = token, deadline
        if is_new:
            say("leading", token)

    def lose_unless_resumed(self, locks) -> None:
        """Takes in a loss on a stream that may not be the one that has the leadership. Its own resume is none."""
        if locks[0].reason != types_pb2.LOST_REASON_RESUMED:
            self.lose(types_pb2.LostReason.Name(locks[0].reason))

    def lose(self, reason: str, give_back: bool = False) -> None:
        if self.token:
            say("lost", reason)
        owner_id = self.owner_id
        self.owner_id, self.tried, self.token, self.deadline = None, [], 0, 0
        if give_back and self.stream:
            release = session_pb2.SessionRelease(name=self.election, owner_id=owner_id)
            self.stream.send(RELEASE, release=release)
            self.campaign()


def has_stopped(error) -> bool:
    """Returns whether a stream ended because its coordinator stopped, and not because the connection broke."""
    return says(error, b"DRAINING")


def says(error, what: bytes) -> bool:
    """Returns whether the status that ended a stream has this reason or domain."""
    # A serialized google.rpc.Status; a library that has its stubs compares the fields of the ErrorInfo.
    details = dict(error.trailing_metadata() or ()) if error else {}
    return what in details.get("grpc-status-details-bin", b"")


def main() -> None:
    election, value, ttl, *addresses = sys.argv[1:]
    leader = Leader(election, value.encode(), int(ttl), addresses)
    leader.dial_at = now()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        leader.inbox.put((None, "resign", None))

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    leader.run()


if __name__ == "__main__":
    main()
