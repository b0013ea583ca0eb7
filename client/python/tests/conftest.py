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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import leasehold_client

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

    def __init__(
        self,
        store: str = "memory:",
        *flags: str,
        scheme: str = "http",
        host: str = "127.0.0.1",
        port: int | None = None,
        admin_port: int = 0,
    ) -> None:
        """Starts it."""
        self._flags = ["--store", store, "--min-ttl", "500ms", "--log", "warn", *flags]
        self._host, self.port, self._admin_port = host, port or free_port(), admin_port
        self.url = f"{scheme}://{host}:{self.port}"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        listen = ["--listen", f"{self._host}:{self.port}", "--admin-listen", f"127.0.0.1:{self._admin_port}"]
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests that run beside the others last."""
    items.sort(key=lambda item: item.get_closest_marker("beside") is not None)


@pytest.fixture(scope="session", autouse=True)
def beside(request: pytest.FixtureRequest) -> Iterator[None]:
    """Begins the tests that wait for long, in threads. They take no fixtures."""
    waiting = [item for item in request.session.items if isinstance(item, pytest.Function) and item.get_closest_marker("beside")]
    with ThreadPoolExecutor(len(waiting) or 1) as threads:
        for item in waiting:
            item.obj = threads.submit(item.obj).result
        yield


@pytest.fixture(scope="session")
def shared() -> Iterator[Coordinator]:
    """A coordinator in memory that no test disturbs."""
    coordinator = Coordinator()
    yield coordinator
    coordinator.close()


class Redis:
    """A Redis server's process. It keeps its port over restarts, and no data."""

    def __init__(self, directory: Path) -> None:
        """Starts it."""
        program = shutil.which("redis-server")
        assert program, "the tests need redis-server"
        port = free_port()
        self.url = f"redis://127.0.0.1:{port}"
        self._address = ("127.0.0.1", port)
        self._command = [program, "--port", str(port), "--save", "", "--dir", str(directory), "--bind", "127.0.0.1"]
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it serves."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(self._address, 1).close()
                break
            except OSError:
                assert time.monotonic() < until, "redis-server does not serve"

    def kill(self) -> None:
        """Kills it, and waits for its end."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Redis server."""
    server = Redis(tmp_path_factory.mktemp("redis"))
    yield server.url
    server.kill()


Start = Callable[..., Coordinator]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts coordinators that end with the test."""
    started: list[Coordinator] = []

    def begin(store: str = "memory:", *flags: str, **where: Any) -> Coordinator:
        started.append(Coordinator(store, *flags, **where))
        return started[-1]

    yield begin
    for coordinator in started:
        coordinator.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
async def client(shared: Coordinator) -> AsyncIterator[leasehold_client.Client]:
    """A client of an undisturbed coordinator."""
    async with leasehold_client.connect(shared.url, client_name="test", ttl=2) as client:
        yield client


@pytest.fixture
async def other(shared: Coordinator) -> AsyncIterator[leasehold_client.Client]:
    """Another client of it."""
    async with leasehold_client.connect(shared.url, client_name="other", ttl=2) as client:
        yield client
