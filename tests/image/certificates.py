"""A certificate of our own for a server that containers reach by a name."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificate(folder: Path, host: str) -> None:
    """Write `own.pem`, a key and its certificate for this host, and `ca.pem`, the certificate alone; all may read both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    alone = signed.public_bytes(serialization.Encoding.PEM)
    form, nothing = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    for file, content in (
        ("ca.pem", alone),
        ("own.pem", key.private_bytes(serialization.Encoding.PEM, form, nothing) + alone),
    ):
        (folder / file).write_bytes(content)
        (folder / file).chmod(0o644)
