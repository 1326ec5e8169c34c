"""Certificates of a gateway: the configured files or one of our own, TLS contexts, the
URL participants are told (bus §10.1).
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridgehead.bus.access.join_file import Pin
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.settings import Address, BusSettings
from bridgehead.errors import ConfigError
from bridgehead.host.directories import make_private_dir
from bridgehead.host.files import write_atomic

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

YEARS: Final = 10
RENEWED_BEFORE: Final = datetime.timedelta(days=30)
WARNED_BEFORE: Final = datetime.timedelta(days=14)
FRAMED_PATH: Final = "/bridge/v1"


class GatewayCertificate:
    """The gateway's certificate: shown by `context`, read anew when its files change,
    renewed where it is our own.
    """

    def __init__(self, settings: BusSettings, folder: StateFolder) -> None:
        serving = settings.serving
        self._own: tuple[Path, str] | None = None
        if serving.tls_cert is not None and serving.tls_key is not None:
            self._cert = Path(serving.tls_cert)
            self._key = Path(serving.tls_key)
        else:
            self._own = (folder.tls_folder, Address.parse(serving.listen).host)
            self._cert, self._key = ensure_certificate(*self._own)
        authority = Path(serving.client_ca) if serving.client_ca is not None else None
        self._stamp = self._files()
        self.context = server_context(
            self._cert, self._key, client_ca=authority, allow_tls12=serving.allow_tls12
        )
        self.certificate = certificate_der(self._cert)

    @classmethod
    def prepare(
        cls, settings: BusSettings, folder: StateFolder
    ) -> GatewayCertificate | None:
        """Return the configured certificate or a self-made one.

        None where connections are plain.
        """
        return cls(settings, folder) if settings.uses_tls else None

    @property
    def expires(self) -> datetime.datetime:
        return expiry(self.certificate)

    @property
    def pin(self) -> Pin:
        """Return what join files say: the key, unless an authority vouches for it,
        whose certificates change their keys.
        """
        return pin_for(self._cert)

    def reload(self) -> bool:
        """Show the certificate that is in the files now.

        True where that is another one.

        Files that do not fit each other yet are left for the next time.
        """
        if self._own is not None:
            ensure_certificate(*self._own)
        if (stamp := self._files()) == self._stamp:
            return False
        # Tried on another context first: half of a pair would be of no use to those who
        # connect meanwhile.
        server_context(self._cert, self._key, client_ca=None, allow_tls12=False)
        self.context.load_cert_chain(self._cert, self._key)
        self._stamp = stamp
        self.certificate = certificate_der(self._cert)
        return True

    def _files(self) -> tuple[object, ...]:
        try:
            return tuple(
                (s.st_mtime_ns, s.st_size, s.st_ino)
                for s in (self._cert.stat(), self._key.stat())
            )
        except OSError:
            return ()


def expiry(certificate: bytes) -> datetime.datetime:
    """Return when a certificate (DER) ends."""
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).not_valid_after_utc


def key_fingerprint(certificate: bytes) -> str:
    """SHA-256 of the public key of a certificate (DER), as a join file names it."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_der_x509_certificate(certificate).public_key()
    return hashlib.sha256(
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ).hexdigest()


def pin_for(path: Path) -> Pin:
    """Return how the bridge with this certificate file is recognised after the
    certificate was renewed.

    By the authority where the file ends in its certificate; not at all where a public
    one vouches for it, because that is how TLS works by itself; else by the key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    chain = x509.load_pem_x509_certificates(path.read_bytes())
    top = chain[-1]
    if len(chain) > 1 and top.issuer == top.subject:
        return Pin(ca=top.public_bytes(Encoding.PEM).decode())
    public = ssl.create_default_context().get_ca_certs(binary_form=True)
    if top.issuer != top.subject and any(
        top.issuer.public_bytes() in authority for authority in public
    ):
        return Pin()
    return Pin(key_fingerprint(chain[0].public_bytes(Encoding.DER)))


def public_url(settings: BusSettings, bound: str | None = None) -> str:
    """Return the URL join files carry: the configured one, or made from the address of
    the gateway.
    """
    address = Address.parse(bound or settings.serving.listen)
    host = socket.gethostname() if address.host in ("0.0.0.0", "::") else address.host
    scheme = "wss" if settings.uses_tls else "ws"
    return f"{scheme}://{Address(host, address.port)}{FRAMED_PATH}"


def ensure_certificate(folder: Path, host: str) -> tuple[Path, Path]:
    """Return the self-made certificate and key in `folder`, made at the first call.

    Renewed in time, with the same key.
    """
    cert = folder / "cert.pem"
    key = folder / "key.pem"
    there = cert.exists() and key.exists()
    ends_soon = datetime.datetime.now(datetime.UTC) + RENEWED_BEFORE
    if not there or expiry(certificate_der(cert)) < ends_soon:
        make_private_dir(folder)
        names = dict.fromkeys(
            (socket.gethostname(), "localhost", "127.0.0.1", "::1", host)
        ).keys() - {"0.0.0.0", "::"}
        certificate, private = make_certificate(
            names, key.read_bytes() if there else None
        )
        write_atomic(key, private, private=True)
        write_atomic(cert, certificate, private=True)
    return cert, key


def make_certificate(
    names: Iterable[str], kept_key: bytes | None = None, *, days: int = 365 * YEARS
) -> tuple[bytes, bytes]:
    """Return a self-made certificate for these names and addresses, and its key, both
    PEM.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    if kept_key is None:
        key = ec.generate_private_key(ec.SECP256R1())
    else:
        loaded = serialization.load_pem_private_key(kept_key, None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        key = loaded
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bridgehead bus")])
    begins = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _general_name(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def certificate_der(path: Path) -> bytes:
    """Return the first certificate of a PEM file in DER."""
    try:
        text = path.read_text("ascii")
        begin = text.index("-----BEGIN CERTIFICATE-----")
        end = text.index("-----END CERTIFICATE-----")
        return ssl.PEM_cert_to_DER_cert(
            text[begin : end + len("-----END CERTIFICATE-----")] + "\n"
        )
    except (OSError, ValueError) as error:
        raise UnusableCertificate(path, str(error)) from error


def server_context(
    cert: Path, key: Path, *, client_ca: Path | None, allow_tls12: bool
) -> ssl.SSLContext:
    """TLS for a listener; with `client_ca` clients may show a certificate, and only
    that authority's count.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = (
        ssl.TLSVersion.TLSv1_2 if allow_tls12 else ssl.TLSVersion.TLSv1_3
    )
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise UnusableCertificate(cert, str(error)) from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise UnusableCertificate(client_ca, str(error)) from error
        # Optional in the handshake, so that who shows none is refused with a reason at
        # the upgrade.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def certified_participant(certificate: bytes) -> str | None:
    """Return the participant a client certificate names (bus §10.2 point 3).

    None for none or several.
    """
    from cryptography import x509

    loaded = x509.load_der_x509_certificate(certificate)
    try:
        names = loaded.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return None
    prefix = "urn:bridgehead:participant:"
    uris = [
        uri
        for uri in names.get_values_for_type(x509.UniformResourceIdentifier)
        if uri.startswith(prefix)
    ]
    if uris:
        return uris[0][len(prefix) :] if len(uris) == 1 else None
    hosts = names.get_values_for_type(x509.DNSName)
    return hosts[0] if len(hosts) == 1 else None


class UnusableCertificate(ConfigError):
    """A certificate, key or authority file cannot be used."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"{path} cannot be used for TLS: {cause}",
            hint="use PEM files, with the matching key",
        )
