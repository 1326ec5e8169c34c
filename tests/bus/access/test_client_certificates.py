"""Mutual TLS with certificates made here: who the certificate names is who takes part."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridgehead.bus.access.certificates import certified_participant
from bridgehead.bus.access.enrolment import revoke
from bridgehead.bus.access.join_file import JoinFile
from bridgehead.bus.client.participant import NotAdmitted, Satellite
from bridgehead.bus.wire.message import Message
from bridgehead.errors import BridgeheadError
from bus.support.gateways import ServedBridge, served_bridge
from bus.support.running import run

URN = "urn:bridgehead:participant:"


class Authority:
    """A certificate authority that lives for one test."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name = (
            folder,
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        )
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._build(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(True, 0), True
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(
            own.sign(self._key, hashes.SHA256()).public_bytes(
                serialization.Encoding.PEM
            )
        )

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    def issue(self, *names: x509.GeneralName) -> tuple[tuple[str, str], bytes]:
        """Files of a client certificate and its key, and the certificate in DER."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
        built = self._build(subject, key.public_key())
        if names:
            built = built.add_extension(x509.SubjectAlternativeName(list(names)), False)
        certificate = built.sign(self._key, hashes.SHA256())
        cert, private = self._folder / "client.pem", self._folder / "client.key"
        cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return (str(cert), str(private)), certificate.public_bytes(
            serialization.Encoding.DER
        )


def uri(name: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(URN + name)


@pytest.mark.parametrize(
    ("names", "participant"),
    [
        ((), None),
        ((uri("den"),), "den"),
        ((uri("den"), x509.DNSName("other")), "den"),
        ((uri("den"), uri("hall")), None),
        ((x509.DNSName("den"),), "den"),
        ((x509.DNSName("den"), x509.DNSName("hall")), None),
        (
            (x509.UniformResourceIdentifier("https://x.example"), x509.DNSName("den")),
            "den",
        ),
    ],
)
def test_one_name_in_the_certificate_is_the_participant(
    tmp_path: Path, names: tuple[x509.GeneralName, ...], participant: str | None
) -> None:
    _files, der = Authority(tmp_path, "ours").issue(*names)
    assert certified_participant(der) == participant


def join_of(served: ServedBridge, participant: str) -> JoinFile:
    return msgspec.structs.replace(served.enrol(participant), key=None)


def test_a_certificate_takes_the_place_of_key_and_token(tmp_path: Path) -> None:
    async def main() -> None:
        authority = Authority(tmp_path / "ca", "ours")
        async with served_bridge(
            tmp_path, secure=True, client_ca=authority.file
        ) as served:
            files, _ = authority.issue(uri("den"))
            keyed = served.enrol("den")
            satellite = await Satellite.connect(
                join_of(served, "den"), client_cert=files, claimed_id="den-pi"
            )
            assert satellite.source == "den-pi"
            await satellite.send(Message("ovos.stop"))
            await served.until_heard("ovos.stop")
            await satellite.close()
            with pytest.raises(NotAdmitted):
                await Satellite.connect(keyed)
            with pytest.raises(NotAdmitted):
                await Satellite.connect(served.enrol("tok", token=True))

    run(main())


def test_strangers_revoked_ones_and_other_authorities_are_refused(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        ours, theirs = (
            Authority(tmp_path / "ca", "ours"),
            Authority(tmp_path / "other", "theirs"),
        )
        async with served_bridge(tmp_path, secure=True, client_ca=ours.file) as served:
            join = join_of(served, "den")
            unknown, _ = ours.issue(uri("nobody"))
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join, client_cert=unknown)
            foreign, _ = theirs.issue(uri("den"))
            with pytest.raises(BridgeheadError):
                await Satellite.connect(join, client_cert=foreign)
            good, _ = ours.issue(uri("den"))
            revoke(served.folder, "den")
            served.gateway.reload()
            with pytest.raises(NotAdmitted):
                await Satellite.connect(join, client_cert=good)
            assert served.heard == []

    run(main())
