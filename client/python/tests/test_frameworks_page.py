"""Every example of the page on frameworks runs as it stands, in the framework itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Coordinator, free_port

import leasehold_client.sync

HERE = Path(__file__).parent
EXAMPLES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", (HERE.parent / "docs" / "frameworks.md").read_text(), re.DOTALL))
FILES = {"shop_api.py", "views.py", "gunicorn.conf.py", "tasks.py", "test_shop.py"}
PATIENCE = 240

pytestmark = pytest.mark.timeout(3 * PATIENCE)


class Site:
    """Folder with the examples, and the programs that run them."""

    def __init__(self, folder: Path, url: str, broker: str) -> None:
        """Writes the examples."""
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        for name, text in EXAMPLES.items():
            text = text.replace("http://127.0.0.1:7420", url).replace("redis://127.0.0.1:6379/0", broker)
            (folder / name).write_text(text)

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        """Starts a program of Python."""
        environment = {**os.environ, "PYTHONPATH": f"{HERE.parent / 'src'}:{self.folder}"}
        with open(self.folder / "log", "ab") as log:
            arguments = [sys.executable, "-W", "ignore", *command]
            self.processes.append(subprocess.Popen(arguments, env=environment, cwd=self.folder, stdout=log, stderr=log))
        return self.processes[-1]

    def get(self, url: str) -> tuple[int, Any]:
        """Asks a server, once it serves."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())
            except OSError:
                assert time.monotonic() < end and self.processes[-1].poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)

    def charges(self, client: leasehold_client.sync.Client, port: int, order: int) -> None:
        """Has an order charged, and not while another client has it."""
        status, said = self.get(f"http://127.0.0.1:{port}/orders/{order}/charge")
        assert status == 200 and said["charged"] == order, said
        with client.lock(f"orders/{order}", wait=PATIENCE) as lock:
            assert lock.token > said["token"]
            assert self.get(f"http://127.0.0.1:{port}/orders/{order}/charge")[0] == 409

    def close(self) -> None:
        """Ends the programs."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def site(shared: Coordinator, redis: str, tmp_path: Path) -> Iterator[Site]:
    """The examples."""
    site = Site(tmp_path, shared.url, redis)
    yield site
    site.close()


@pytest.fixture
def client(shared: Coordinator) -> Iterator[leasehold_client.sync.Client]:
    """A client of the coordinator of the examples."""
    with leasehold_client.sync.connect(shared.url) as client:
        yield client


def test_no_example_is_left_out() -> None:
    assert set(EXAMPLES) == FILES


def test_fastapi(site: Site, client: leasehold_client.sync.Client) -> None:
    for needed in ("fastapi", "uvicorn"):
        pytest.importorskip(needed)
    port = free_port()
    server = site.run("-m", "uvicorn", "shop_api:app", "--port", str(port), "--log-level", "warning")
    site.charges(client, port, 1)
    server.terminate()
    server.wait(PATIENCE)
    assert "Traceback" not in (site.folder / "log").read_text()


def test_django_under_gunicorn(site: Site, client: leasehold_client.sync.Client) -> None:
    for needed in ("django", "gunicorn"):
        pytest.importorskip(needed)
    (site.folder / "settings.py").write_text("SECRET_KEY, ALLOWED_HOSTS, ROOT_URLCONF = 'x', ['*'], 'urls'\n")
    (site.folder / "urls.py").write_text(
        "import views\nfrom django.urls import path\nurlpatterns = [path('orders/<int:order>/charge', views.charge)]\n"
    )
    (site.folder / "wsgi.py").write_text(
        "import os\nfrom django.core.wsgi import get_wsgi_application\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'\napplication = get_wsgi_application()\n"
    )
    port = free_port()
    server = site.run("-m", "gunicorn", "-c", "gunicorn.conf.py", "-w", "2", "-b", f"127.0.0.1:{port}", "wsgi")
    site.charges(client, port, 2)
    server.terminate()
    assert server.wait(PATIENCE) == 0
    assert "Traceback" not in (site.folder / "log").read_text()


def test_celery(site: Site, client: leasehold_client.sync.Client, redis: str) -> None:
    pytest.importorskip("redis")
    app = pytest.importorskip("celery").Celery("tasks", broker=redis, backend=redis)
    worker = site.run("-m", "celery", "-A", "tasks", "worker", "-P", "prefork", "-c", "2", "-l", "warning")
    while not app.control.ping(timeout=1):
        assert worker.poll() is None, (site.folder / "log").read_text()
    token = app.send_task("tasks.report").get(timeout=PATIENCE)
    with client.lock("report", wait=PATIENCE) as lock:
        assert lock.token > token
        assert app.send_task("tasks.report").get(timeout=PATIENCE) is None
    worker.terminate()
    assert worker.wait(PATIENCE) == 0
    assert "Traceback" not in (site.folder / "log").read_text()


def test_pytest(site: Site) -> None:
    tests = site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py")
    assert tests.wait(PATIENCE) == 0, (site.folder / "log").read_text()
    assert "2 passed" in (site.folder / "log").read_text()
