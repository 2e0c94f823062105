"""A certificate of our own for a server on loopback."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def own_certificate(folder: Path) -> tuple[Path, Path]:
    """A file with a key and a certificate for 127.0.0.1 that nobody else signed, and one with the certificate alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "own")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    both, alone = folder / "own.pem", folder / "ca.pem"
    alone.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form, nothing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    both.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, nothing) + alone.read_bytes())
    return both, alone
