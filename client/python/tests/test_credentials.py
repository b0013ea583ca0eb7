"""TLS and tokens from files that change, against real coordinators."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import ipaddress
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from conftest import Start, free_port
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import leasehold_client
import leasehold_client.sync
from leasehold_client import ConnectErrorKind, LockState, LostReason
from leasehold_client._credentials import Credentials
from leasehold_client._endpoints import parse


class Authority:
    """A CA of the tests."""

    def __init__(self, directory: Path) -> None:
        """Makes it, and writes its certificate."""
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        builder = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.path = directory / f"ca-{os.urandom(4).hex()}.pem"
        self.path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + datetime.timedelta(days=1))
        )

    def issue(self, name: str, *sans: x509.GeneralName) -> tuple[Path, Path]:
        """Writes a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key).add_extension(x509.SubjectAlternativeName(sans), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        cert, private = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return cert, private


async def test_tls_trusts_the_ca_and_verifies_the_urls_name(start: Start, tmp_path: Path, name: str) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path)
    cert, key = authority.issue("locks.example", x509.DNSName("locks.example"), x509.DNSName("localhost"))
    coordinator = start("memory:", "--tls-cert", str(cert), "--tls-key", str(key), scheme="https")
    url = coordinator.url.replace("127.0.0.1", "localhost")
    async with leasehold_client.connect(url, tls=leasehold_client.Tls(authority.path)) as client, client.lock(name):
        await client.admin.status()
    # The address is not certified, unless another name is verified instead.
    for tls in (leasehold_client.Tls(authority.path), leasehold_client.Tls(stranger.path, server_name="locks.example")):
        with pytest.raises(leasehold_client.ConnectError) as failed:
            await leasehold_client.connect(coordinator.url, tls=tls).open()
        assert failed.value.kind is ConnectErrorKind.TLS and not failed.value.is_retryable
    named = leasehold_client.Tls(authority.path, server_name="locks.example")
    async with leasehold_client.connect(coordinator.url, tls=named) as client, client.lock(name):
        pass
    with pytest.raises(leasehold_client.ConnectError):
        await leasehold_client.connect(coordinator.url.replace("https", "http")).open()


async def test_a_replaced_client_certificate_moves_the_session(
    start: Start, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold_client._renewing.SPREAD", 0)
    authority = Authority(tmp_path)
    server = authority.issue("server", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    cert, key = authority.issue("client", x509.DNSName("billing.example"))
    config = tmp_path / "leasehold.toml"
    config.write_text('[[permission]]\nidentities = ["cert:*"]\nallow = ["acquire", "inspect"]\nlocks = [""]\n')
    flags = ["--tls-cert", str(server[0]), "--tls-key", str(server[1]), "--tls-client-ca", str(authority.path)]
    coordinator = start("memory:", *flags, "--config", str(config), scheme="https")
    async with leasehold_client.connect(coordinator.url, tls=leasehold_client.Tls(authority.path, cert, key), ttl=4) as client:
        async with client.lock(name) as lock:
            assert client.info
            before = client.info.session_id
            # Half of it first: the key alone can't be used.
            newer = authority.issue("newer", x509.DNSName("billing.example"))
            newer[1].replace(key)
            assert client._settings.credentials.version() == 0
            newer[0].replace(cert)
            while client.info is None or client.info.session_id == before:
                lock.check()
                await asyncio.sleep(0.01)
            lock.check()
            assert await client.admin.check_token(name, lock.token)


def token() -> tuple[str, str]:
    """Returns a token, and the hash by which the coordinator knows it."""
    made = f"lh_{os.urandom(32).hex()}"
    return made, f"sha256:{hashlib.sha256(made.encode()).hexdigest()}"


async def test_a_token_file_is_followed_and_an_identity_that_is_gone_suspends(
    start: Start, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold_client._renewing.SPREAD", 0)
    (first, first_hash), (second, second_hash), (third, third_hash) = token(), token(), token()
    tokens, config, mine = tmp_path / "tokens", tmp_path / "leasehold.toml", tmp_path / "mine"
    config.write_text('[[permission]]\nidentities = ["token:ci"]\nallow = ["acquire", "inspect"]\nlocks = ["test"]\n')
    tokens.write_text(f"ci {first_hash}\nci {second_hash}\n")
    mine.write_text(first + "\n")
    coordinator = start("memory:", "--token-file", str(tokens), "--config", str(config))
    with pytest.raises(leasehold_client.ConnectError) as failed:
        await leasehold_client.connect(coordinator.url, token="lh_wrong").open()
    assert failed.value.kind is ConnectErrorKind.UNAUTHENTICATED and "lh_wrong" not in str(failed.value)
    async with leasehold_client.connect(coordinator.url, token_file=mine, ttl=8) as client, client.lock(name) as lock:
        with pytest.raises(leasehold_client.PermissionDenied):
            await client.lock("other").acquire()
        assert client.info
        before = client.info.session_id
        # Replaced in time: it moves, and stays held.
        mine.write_text(second + "\n")
        while client.info is None or client.info.session_id == before:
            lock.check()
            await asyncio.sleep(0.01)
        lock.check()
        # Gone before it is replaced: suspended, then resumed with the newer one.
        replaced = tmp_path / "tokens.new"
        replaced.write_text(f"ci {third_hash}\n")
        replaced.replace(tokens)
        assert await lock.changed(LockState.HELD) is LockState.SUSPENDED
        mine.write_text(third + "\n")
        await lock.settled()
        assert await client.admin.check_token(name, lock.token)


async def test_an_identity_that_stays_gone_loses_the_lock(start: Start, tmp_path: Path, name: str) -> None:
    made, hashed = token()
    tokens, config = tmp_path / "tokens", tmp_path / "leasehold.toml"
    config.write_text('[[permission]]\nidentities = ["token:ci"]\nallow = ["acquire", "inspect"]\nlocks = ["test"]\n')
    tokens.write_text(f"ci {hashed}\n")
    coordinator = start("memory:", "--token-file", str(tokens), "--config", str(config))
    async with leasehold_client.connect(coordinator.url, token=made, ttl=2) as client:
        with pytest.raises(leasehold_client.LockLost) as lost:
            async with client.lock(name):
                tokens.write_text(f"someone {token()[1]}\n")
                await asyncio.sleep(60)
        assert lost.value.reason is LostReason.UNAUTHENTICATED
        with pytest.raises(leasehold_client.Unauthenticated):
            await client.lock(name).acquire()


def test_a_token_stays_on_this_machine_unless_it_is_encrypted_or_allowed(tmp_path: Path) -> None:
    for url in ("http://locks.example", "http://10.0.0.1", "http://127.0.0.1,http://10.0.0.1", "http://localhost.example"):
        with pytest.raises(leasehold_client.CredentialsError) as failed:
            leasehold_client.connect(url, token="lh_secret")
        assert "secret" not in str(failed.value)
        leasehold_client.connect(url, token="lh_secret", allow_plaintext_token=True)
    for url in ("http://127.0.0.1", "http://[::1]", "http://localhost"):
        leasehold_client.connect(url, token="lh_secret")
    for bad in ("", "two words", "two\nlines", "tökén", "a" * 9000):
        with pytest.raises(leasehold_client.CredentialsError):
            leasehold_client.connect("http://localhost", token=bad)
    with pytest.raises(leasehold_client.CredentialsError, match="could not read"):
        leasehold_client.connect("http://localhost", token_file=tmp_path / "none")


def test_files_that_change_are_read_again_and_invalid_ones_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    credentials = Credentials(parse("http://localhost"), None, None, path, False)
    assert (credentials.authorization(), credentials.version()) == ("Bearer first", 0)
    # Of the same length, and within the same step of the file system's clock.
    path.write_text("other\n")
    assert (credentials.authorization(), credentials.version()) == ("Bearer other", 1)
    path.write_text("two words\n")
    assert (credentials.authorization(), credentials.version()) == ("Bearer other", 1)
    path.unlink()
    assert credentials.authorization() == "Bearer other"


@contextlib.asynccontextmanager
async def server(answer: bytes | None, *, resets_http_2: bool = False) -> AsyncIterator[str]:
    """A server that answers everything with these bytes, and hangs up; with none, it hangs up at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is not None:
            if await reader.read(1) == b"P" and resets_http_2:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            writer.write(answer)
            await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    listener.close()


async def refused(url: str) -> leasehold_client.ConnectError:
    """Returns the error of an attempt to connect."""
    with pytest.raises(leasehold_client.ConnectError) as failed:
        await leasehold_client.connect(url).open()
    with pytest.raises(leasehold_client.CallFailed) as called:
        async with contextlib.AsyncExitStack() as stack:
            client = leasehold_client.connect(url)
            stack.push_async_callback(client.close)
            await client.admin.status()
    assert called.value.is_retryable is failed.value.is_retryable
    return failed.value


async def test_a_port_of_something_else_is_told_from_one_that_nobody_serves(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server", x509.DNSName("localhost"))
    encrypted = start("memory:", "--tls-cert", str(cert), "--tls-key", str(key), scheme="https")
    admin = free_port()
    plain = start("memory:", admin_port=admin)
    mismatches = {
        f"http://127.0.0.1:{encrypted.port}": "write https://",
        f"https://127.0.0.1:{plain.port}": "disagrees with the URL about TLS",
        f"http://127.0.0.1:{admin}": "admin port, 7421 by default",
    }
    for url, says in mismatches.items():
        error = await refused(url)
        assert error.kind is ConnectErrorKind.MISMATCH and not error.is_retryable, (url, error)
        assert says in str(error)
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR unknown command\r\n", b"SSH-2.0-OpenSSH\r\n"):
        async with server(answer) as url:
            error = await refused(url)
            assert error.kind is ConnectErrorKind.MISMATCH and not error.is_retryable, (answer, error)
    async with server(b"HTTP/1.1 200 OK\r\n\r\n", resets_http_2=True) as url:
        error = await refused(url)
        assert error.kind is ConnectErrorKind.MISMATCH and not error.is_retryable, error
    # One that only hangs up may be a coordinator that stops.
    async with server(None) as url:
        error = await refused(url)
        assert error.kind is ConnectErrorKind.UNREACHABLE and error.is_retryable, error
    error = await refused(f"http://127.0.0.1:{free_port()}")
    assert error.kind is ConnectErrorKind.UNREACHABLE and error.is_retryable, error


async def test_a_server_without_sessions_is_no_coordinator() -> None:
    other = grpc.aio.server()
    port = other.add_insecure_port("127.0.0.1:0")
    await other.start()
    with pytest.raises(leasehold_client.ConnectError, match="is no coordinator") as failed:
        await leasehold_client.connect(f"http://127.0.0.1:{port}").open()
    assert failed.value.kind is ConnectErrorKind.MISMATCH and not failed.value.is_retryable
    await other.stop(None)
