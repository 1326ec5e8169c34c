"""Certificates are renewed while everybody stays connected and enrolled."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridgehead.assembly.bus.views import BusView
from bridgehead.bus.access.certificates import (
    certificate_der,
    ensure_certificate,
    expiry,
    key_fingerprint,
    make_certificate,
    pin_for,
)
from bridgehead.bus.access.join_file import Pin
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.sockets.dial import ClientConversation, Target, dial
from bridgehead.bus.wire import frames
from bridgehead.doctor.checkup import judge_bus
from bridgehead.errors import BridgeheadError
from bus.support.running import run, until
from bus.support.serving import Served, served_bus

NAMES = ("localhost", "127.0.0.1")


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    """A private certificate authority."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the house")])
        self.root = self._sign(self._name, self._key.public_key(), ca=True)

    def _sign(self, subject: x509.Name, key: Any, *, ca: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        alternative = [x509.DNSName("localhost")]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=90))
            .add_extension(
                x509.BasicConstraints(ca=ca, path_length=None), critical=True
            )
            .add_extension(x509.SubjectAlternativeName(alternative), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, folder: Path) -> tuple[Path, Path]:
        """A new key and a new certificate for it, with the root behind it."""
        folder.mkdir(exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bus")])
        leaf = self._sign(subject, key.public_key(), ca=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        (folder / "key.pem").write_bytes(private)
        (folder / "cert.pem").write_bytes(pem(leaf) + pem(self.root))
        return folder / "cert.pem", folder / "key.pem"


def write_own(folder: Path, *, days: int, keep_key: bool) -> bytes:
    """Another self-made certificate in the place of the one that is there; its DER."""
    kept = (folder / "key.pem").read_bytes() if keep_key else None
    certificate, private = make_certificate(NAMES, kept, days=days)
    (folder / "key.pem").write_bytes(private)
    (folder / "cert.pem").write_bytes(certificate)
    return certificate_der(folder / "cert.pem")


def secure(folder: Path) -> dict[str, Any]:
    return {"tls_cert": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}


def enrolled(server: Served, name: str, host: str = "127.0.0.1") -> Any:
    return msgspec.structs.replace(
        server.enrol(name), url=server.join_url.replace("127.0.0.1", host)
    )


def renew(server: Served) -> None:
    assert server._certificate is not None
    server._reload_certificate(server._certificate)


def test_a_join_file_outlives_the_certificate_but_not_the_key(tmp_path: Path) -> None:
    async def main() -> None:
        tls = tmp_path / "tls"
        ensure_certificate(tls, "127.0.0.1")
        async with served_bus(tmp_path / "bus", **secure(tls)) as server:
            join = enrolled(server, "kitchen")
            assert join.key_sha256 is not None and join.cert_sha256 is None
            before = await Satellite.connect(join)
            write_own(tls, days=400, keep_key=True)
            renew(server)
            after = await Satellite.connect(enrolled(server, "study"))
            again = await Satellite.connect(join)
            await before.close()
            write_own(tls, days=400, keep_key=False)
            renew(server)
            with pytest.raises(BridgeheadError, match="a different key or certificate"):
                await Satellite.connect(join)
            await after.close()
            await again.close()

    run(main())


def test_an_authority_vouches_for_new_keys_and_for_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        authority = Authority()
        cert, _key = authority.write(tmp_path / "tls")
        assert pin_for(cert) == Pin(ca=pem(authority.root).decode())
        async with served_bus(tmp_path / "bus", **secure(tmp_path / "tls")) as server:
            join = enrolled(server, "kitchen", "localhost")
            await (await Satellite.connect(join)).close()
            authority.write(tmp_path / "tls")
            renew(server)
            await (await Satellite.connect(join)).close()
            Authority().write(tmp_path / "tls")
            renew(server)
            with pytest.raises(Exception, match="certificate verify failed"):
                await Satellite.connect(join)

    run(main())


def test_half_of_a_renewal_is_not_shown(tmp_path: Path) -> None:
    async def main() -> None:
        tls = tmp_path / "tls"
        ensure_certificate(tls, "127.0.0.1")
        async with served_bus(tmp_path / "bus", **secure(tls)) as server:
            join = enrolled(server, "kitchen")
            certificate, private = make_certificate(NAMES)
            for half in (
                b"",
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                certificate,
            ):
                (tls / "cert.pem").write_bytes(
                    half
                )  # the rest, or its key, comes later
                renew(server)
            await (await Satellite.connect(join)).close()
            (tls / "key.pem").write_bytes(private)
            renew(server)
            with pytest.raises(BridgeheadError, match="a different key or certificate"):
                await Satellite.connect(join)

    run(main())


def test_whoever_connected_before_a_renewal_can_still_prove_who_they_are(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        tls = tmp_path / "tls"
        ensure_certificate(tls, "127.0.0.1")
        async with served_bus(tmp_path / "bus", **secure(tls)) as server:
            join = enrolled(server, "kitchen")
            dialled = asyncio.Event()
            renewed = asyncio.Event()
            send = ClientConversation.send

            async def slowly(self: ClientConversation, payload: bytes) -> None:
                if b'"auth"' in payload:
                    dialled.set()
                    await renewed.wait()
                await send(self, payload)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ClientConversation, "send", slowly)
                connecting = asyncio.create_task(Satellite.connect(join))
                await dialled.wait()
                write_own(tls, days=400, keep_key=True)
                renew(server)
                renewed.set()
                await (await connecting).close()

    run(main())


def test_our_own_certificate_is_renewed_in_time_with_the_same_key(
    tmp_path: Path,
) -> None:
    cert, _key = ensure_certificate(tmp_path, "127.0.0.1")
    old = write_own(tmp_path, days=29, keep_key=True)
    ensure_certificate(tmp_path, "127.0.0.1")
    new = certificate_der(cert)
    assert new != old and key_fingerprint(new) == key_fingerprint(old)
    assert expiry(new) - expiry(old) > datetime.timedelta(days=1000)
    ensure_certificate(tmp_path, "127.0.0.1")
    assert certificate_der(cert) == new


@pytest.mark.parametrize(
    ("days", "word"), [(30, None), (10, "ends soon"), (1, "ended")]
)
def test_an_end_is_said_two_weeks_ahead_in_status_events_and_doctor(
    tmp_path: Path, days: int, word: str | None
) -> None:
    async def main() -> None:
        tls = tmp_path / "tls"
        ensure_certificate(tls, "127.0.0.1")
        write_own(tls, days=days, keep_key=True)
        async with served_bus(tmp_path / "bus", **secure(tls)) as server:
            status = server._status((), ())
            said = [link.state for link in status.links if link.link == "certificate"]
            assert said == ([] if word is None else [word])
            diagnosis = judge_bus(BusView(state="x", running=True, status=status))
            assert (diagnosis.kind == "bus.certificate") is (word is not None)
            if word is not None:
                await until(lambda: bool(server.announcements.of("bus.certificate")))

    run(main())


def test_an_old_join_file_still_names_exactly_one_certificate(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(
            tmp_path / "bus", **secure(_own(tmp_path / "tls"))
        ) as server:
            import hashlib

            der = certificate_der(tmp_path / "tls" / "cert.pem")
            for sha256, fits in (
                (hashlib.sha256(der).hexdigest(), True),
                ("0" * 64, False),
            ):
                target = Target(
                    server.join_url, (), frames.SUBPROTOCOL, Pin(cert_sha256=sha256)
                )
                conversation = ClientConversation()
                if fits:
                    await dial(target, conversation)
                    conversation.peer.abort()
                else:
                    with pytest.raises(
                        BridgeheadError, match="a different key or certificate"
                    ):
                        await dial(target, conversation)

    run(main())


def _own(folder: Path) -> Path:
    ensure_certificate(folder, "127.0.0.1")
    return folder
