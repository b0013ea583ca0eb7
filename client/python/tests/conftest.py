"""Real coordinators and Redis servers for the tests, as processes that may be killed and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import leasehold

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
SERVER = Path(os.environ.pop("LEASEHOLD_SERVER", HERE.parent.parent.parent / "target" / "debug" / "leasehold-server"))


def free_port() -> int:
    """Returns a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Coordinator:
    """A coordinator's process. It keeps its port over restarts."""

    def __init__(self, store: str = "memory:", *flags: str, scheme: str = "http") -> None:
        """Starts it."""
        self._flags = ["--store", store, "--min-ttl", "500ms", "--log", "warn", *flags]
        self._port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self._port}"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        listen = ["--listen", f"127.0.0.1:{self._port}", "--admin-listen", "127.0.0.1:0"]
        process = subprocess.Popen([str(SERVER), *self._flags, *listen], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        line = process.stdout.readline()
        assert "listening" in line, line
        return process

    def restart(self) -> None:
        """Starts it again after it has ended."""
        self.process.wait()
        self.close()
        self.process = self._start()

    def kill(self) -> None:
        """Kills it, and waits for its end."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """Has it drain."""
        self.process.terminate()

    def stop(self) -> None:
        """Stops it with SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Has it go on after `stop`."""
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


@pytest.fixture(scope="session")
def shared() -> Iterator[Coordinator]:
    """A coordinator in memory that no test disturbs."""
    coordinator = Coordinator()
    yield coordinator
    coordinator.close()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server."""
    program = shutil.which("redis-server")
    assert program, "the tests need redis-server"
    port = free_port()
    directory = tmp_path_factory.mktemp("redis")
    arguments = ["--port", str(port), "--save", "", "--dir", str(directory), "--bind", "127.0.0.1"]
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < until, "redis-server does not serve"
    yield f"redis://127.0.0.1:{port}"
    process.kill()
    process.wait()


Start = Callable[..., Coordinator]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts coordinators that end with the test."""
    started: list[Coordinator] = []

    def begin(store: str = "memory:", *flags: str, scheme: str = "http") -> Coordinator:
        started.append(Coordinator(store, *flags, scheme=scheme))
        return started[-1]

    yield begin
    for coordinator in started:
        coordinator.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
async def client(shared: Coordinator) -> AsyncIterator[leasehold.Client]:
    """A client of an undisturbed coordinator."""
    async with leasehold.connect(shared.url, client_name="test", ttl=2) as client:
        yield client


@pytest.fixture
async def other(shared: Coordinator) -> AsyncIterator[leasehold.Client]:
    """Another client of it."""
    async with leasehold.connect(shared.url, client_name="other", ttl=2) as client:
        yield client
