"""Certificates and tokens, and the files that they are read from, which may be replaced at any time."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ._endpoints import Endpoint
from .errors import CredentialsError

log = logging.getLogger("leasehold_client")

UNSETTLED = 1_000_000_000
"""A file that changed less than this before it was read may change again without a newer time: file systems keep times in steps."""
LONGEST_TOKEN = 8 << 10
"""Longest token, in bytes: coordinators take this much as one header."""

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Tls:
    """Settings of the encryption. Files that are replaced are read again."""

    ca: PathLike | None = None
    """The CA of the coordinators' certificates, PEM. Default: the system's."""
    cert: PathLike | None = None
    """The client's certificate chain, PEM."""
    key: PathLike | None = None
    """The client's private key, PEM."""
    server_name: str | None = None
    """The name to verify instead of the URL's."""


class FromFiles:
    """Value made from files. It is made anew when one of them has changed.

    If it can't be made then, for example because a file is half written, it stays as it was.
    """

    def __init__(self, paths: list[Path], make: Callable[[], tuple[bytes | None, ...]]) -> None:
        """Makes it for the first time. Fails if it can't be made."""
        self._paths, self._make = paths, make
        self._lock = threading.Lock()
        # Before they are read: what changes in between is read again.
        self._stamps, self._settled = self._look()
        self._value = make()
        self._version = 0

    def current(self) -> tuple[int, tuple[bytes | None, ...]]:
        """Returns a number that rises whenever another value is made, and the value for the files as they are now."""
        with self._lock:
            stamps, settled = self._look()
            if stamps != self._stamps or not self._settled:
                is_news = stamps != self._stamps
                self._stamps, self._settled = stamps, settled
                try:
                    value = self._make()
                except CredentialsError as error:
                    if is_news:
                        log.warning("a file has changed and can't be used: what was read before stays in use: %s", error)
                else:
                    if value != self._value:
                        self._value = value
                        self._version += 1
            return self._version, self._value

    def _look(self) -> tuple[list[tuple[int, ...] | None], bool]:
        now, settled = time.time_ns(), True
        stamps: list[tuple[int, ...] | None] = []
        for path in self._paths:
            try:
                stat = path.stat()
            except OSError:
                stamps.append(None)
                continue
            settled &= now - stat.st_mtime_ns >= UNSETTLED
            stamps.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
        return stamps, settled


class Credentials:
    """Credentials for these endpoints, and the authorities that they are trusted by. No text shows anything of them."""

    def __init__(
        self,
        endpoints: list[Endpoint],
        tls: Tls | None,
        token: str | None,
        token_file: PathLike | None,
        allow_plaintext: bool,
    ) -> None:
        """Reads what these endpoints need. Fails if it can't be used."""
        if tls is not None:
            if not isinstance(tls, Tls):
                raise TypeError(f"tls: expected leasehold_client.Tls, got {type(tls).__name__}")
            for endpoint in endpoints:
                if not endpoint.is_encrypted:
                    url = f"https://{endpoint.authority}"
                    raise CredentialsError(f"tls was given, but the connection to {endpoint.url} would not be encrypted: write {url}")
        if token is not None and not isinstance(token, str):
            raise TypeError(f"token: expected str, got {type(token).__name__}")
        if token is not None and token_file is not None:
            raise CredentialsError("both a token and a file with one were given")
        if (token is not None or token_file is not None) and not allow_plaintext:
            for endpoint in endpoints:
                if not endpoint.is_encrypted and not endpoint.is_loopback:
                    raise CredentialsError(f"the token would go unencrypted to {endpoint.url}: use https://, or allow_plaintext_token=True")
        self._tls = tls or Tls()
        if (self._tls.cert is None) != (self._tls.key is None):
            raise CredentialsError("a client certificate needs both cert and key")
        self._files: FromFiles | None = None
        if any(endpoint.is_encrypted for endpoint in endpoints):
            given = [self._tls.ca, self._tls.cert, self._tls.key]
            self._files = FromFiles([Path(path) for path in given if path is not None], self._read)
        self._token: bytes | None = None
        self._token_file: FromFiles | None = None
        if token is not None:
            self._token = _header(token.encode(), "the bearer token")
        elif token_file is not None:
            path = Path(token_file)
            self._token_file = FromFiles([path], lambda: (_header(_bytes(path), f"the bearer token in {path}"),))

    @property
    def server_name(self) -> str | None:
        """The name to verify instead of the URL's."""
        return self._tls.server_name

    def _read(self) -> tuple[bytes | None, ...]:
        ca, cert, key = (None if path is None else _bytes(Path(path)) for path in self._parts())
        for what, pem in (("CA", ca), ("certificate", cert), ("key", key)):
            if pem is not None and b"-----BEGIN " not in pem:
                raise CredentialsError(f"the {what} is not PEM")
        if ca is not None:
            try:
                ssl.create_default_context(cadata=ca.decode("ascii", "replace"))
            except (ssl.SSLError, ValueError) as error:
                raise CredentialsError(f"the CA can't be used: {error}") from error
        if self._tls.cert is not None and self._tls.key is not None:
            # A certificate and a key that do not belong together are half replaced.
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(self._tls.cert, self._tls.key)
            except (ssl.SSLError, OSError) as error:
                raise CredentialsError(f"the certificate and key can't be used: {error}") from error
        return ca, cert, key

    def _parts(self) -> tuple[PathLike | None, ...]:
        ca = self._tls.ca
        if ca is None:
            # C core brings authorities of its own; the system's are what an operator maintains.
            system = ssl.get_default_verify_paths().cafile
            ca = system if system and os.path.isfile(system) else None
        return ca, self._tls.cert, self._tls.key

    def certificates(self) -> tuple[int, tuple[bytes | None, ...]]:
        """Returns a number that rises whenever the files have other contents, and the CA, certificate and key."""
        return self._files.current() if self._files else (0, (None, None, None))

    def authorization(self) -> str | None:
        """Returns the value of the `authorization` header, by the file's present contents."""
        token = self._token_file.current()[1][0] if self._token_file else self._token
        return None if token is None else token.decode()

    def version(self) -> int:
        """Returns a number that rises whenever any of the files has other contents."""
        return self.certificates()[0] + (self._token_file.current()[0] if self._token_file else 0)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"could not read {path}: {error.strerror}") from error


def _header(token: bytes, what: str) -> bytes:
    token = token.strip()
    if not 0 < len(token) <= LONGEST_TOKEN or not all(0x21 <= byte <= 0x7E for byte in token):
        raise CredentialsError(f"{what} can't be used: expected 1 to {LONGEST_TOKEN} visible ASCII characters in one line")
    return b"Bearer " + token
