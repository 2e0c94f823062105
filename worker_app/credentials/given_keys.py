"""Given keys: a private key that a person gives, checked before it is stored. No message repeats anything of it."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from worker_app import errors
from worker_app.secret import Secret

LEAST_RSA_BITS = 2048  # what GitHub makes for its Apps, and the least that hosts of git take
_OPENSSH = "-----BEGIN OPENSSH PRIVATE KEY-----"


def app_key_of(text: str) -> Secret:
    """The private key of a GitHub App, in PEM. Raises UsageError where it is none that an App signs with."""
    key = text.strip()
    found = _loaded(key)
    if not isinstance(found, rsa.RSAPrivateKey) or found.key_size < LEAST_RSA_BITS or key.startswith(_OPENSSH):
        raise errors.UsageError(
            "the private key is no RSA key in PEM without a passphrase; give the .pem file as GitHub made it for the App"
        )
    return Secret(key)


def ssh_key_of(text: str) -> Secret:
    """A private key as ssh reads it, with line feeds alone and one at its end: OpenSSH's format or PEM, without a passphrase.

    Raises UsageError where it is no Ed25519, ECDSA or RSA key of 2048 bits or more.
    """
    key = "\n".join(text.strip().splitlines()) + "\n"
    found = _loaded(key)
    is_short = isinstance(found, rsa.RSAPrivateKey) and found.key_size < LEAST_RSA_BITS
    if is_short or not isinstance(found, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise errors.UsageError(
            "the private key is no Ed25519, ECDSA or RSA key (2048 bits or more) without a passphrase, in OpenSSH's format or "
            "PEM; make one with `ssh-keygen -t ed25519 -N '' -f FILE` and give the host its public half"
        )
    if isinstance(found, ed25519.Ed25519PrivateKey) and not key.startswith(_OPENSSH):
        # In PEM only a recent ssh reads it: https://www.openssh.com/txt/release-9.6
        key = found.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return Secret(key)


def _loaded(key: str) -> object:
    """The private key in a text; None where there is none that opens without a passphrase."""
    load = load_ssh_private_key if key.startswith(_OPENSSH) else load_pem_private_key
    try:
        return load(key.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
