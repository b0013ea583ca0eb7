"""Runs a systemd service without systemd: its command line, user and environment, its words to NOTIFY_SOCKET."""

import os
import pathlib
import re
import select
import shlex
import socket
import subprocess
import time


def parse(path):
    """The directives of a unit file, by section and name, each a list of values in order."""
    sections, section = {}, None
    for line in pathlib.Path(path).read_text().splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        else:
            name, value = line.split("=", 1)
            section.setdefault(name, []).append(value)
    return sections


def seconds(span):
    """A time span as systemd writes it, in seconds."""
    units = {"": 1, "s": 1, "ms": 0.001, "min": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", span))


def environment(files):
    """What EnvironmentFile= directives give; a file that begins with - may be missing."""
    variables = {}
    for file in files:
        path = pathlib.Path(file.removeprefix("-"))
        if file.startswith("-") and not path.exists():
            continue
        for line in path.read_text().splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                name, value = line.split("=", 1)
                variables[name.strip()] = shlex.split(value)[0] if value.strip() else ""
    return variables


class Service:
    """A service that runs. What it says is in `said` (sd_notify), `out` (stdout) and the file `log` (stderr)."""

    def __init__(self, unit, folder, watchdog=None, trace=None):
        """`folder` is the user's own; `watchdog` seconds stand in the place of WatchdogSec=; `trace` is a file that shall
        have the system calls, by strace."""
        self.service = parse(unit)["Service"]
        self.said, self.out = [], []
        address = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(address))
        address.chmod(0o777)
        variables = {"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": str(address)}
        if watchdog:
            variables["WATCHDOG_USEC"] = str(int(watchdog * 1_000_000))
        variables |= environment(self.service.get("EnvironmentFile", []))
        command = shlex.split(self.service["ExecStart"][-1])
        if trace:
            # -D: the service stays our child, and what traces it becomes its grandchild.
            command = ["strace", "-D", "-f", "-qq", "-c", "-o", str(trace), *command]
        self.log = folder / "log"
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", 'export WATCHDOG_PID=$$; exec "$@"', "sh", *command],
            env=variables,
            cwd="/",
            user=self.service["User"][-1],
            group=self.service["Group"][-1],
            extra_groups=[],
            umask=int(self.service["UMask"][-1], 8),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=open(self.log, "wb"),
        )

    def wait_for(self, what, told, within=20.0):
        """Waits until `told` holds, which may look at `said` and `out`."""
        until = time.monotonic() + within
        while not told():
            left = until - time.monotonic()
            readable, _, _ = select.select([self.socket, self.process.stdout], [], [], max(left, 0))
            if self.socket in readable:
                self.said += self.socket.recv(65536).decode().splitlines()
            if self.process.stdout in readable:
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data and not told():
                    self.fail(f"ended before {what}")
                self.out += data.decode().splitlines()
            if not readable:
                self.fail(f"not within {within:g} s: {what}")

    def hears(self, word, after=0, within=20.0):
        """Waits for a word to NOTIFY_SOCKET, after so many that were said before."""
        self.wait_for(word, lambda: any(said.startswith(word) for said in self.said[after:]), within)

    def fail(self, what):
        raise AssertionError(f"the service: {what}; it said {self.said} {self.out}\n{self.log.read_text()}")

    def reload(self):
        """What ExecReload= says."""
        for command in self.service["ExecReload"]:
            subprocess.run(shlex.split(command.replace("$MAINPID", str(self.process.pid))), check=True)

    def ended(self):
        """Waits until it has, for as long as systemd does once it has told it to, and returns its exit status."""
        return self.process.wait(seconds(self.service["TimeoutStopSec"][-1]))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.socket.close()
