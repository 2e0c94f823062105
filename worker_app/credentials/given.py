"""Given: what a person types becomes a host and a secret, or a message that says what is wrong with it and repeats nothing."""

import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from worker_app import errors
from worker_app.secret import Secret

LEAST_RSA_BITS = 2048  # what GitHub makes for its Apps
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_NO_HOST_OF_PEOPLE = {"api.github.com": "github.com", "www.github.com": "github.com"}


def token_of(text: str) -> Secret:
    """A token as a person gave it, without the white space around it. Raises UsageError for what no header can hold."""
    token = text.strip()
    if not token:
        raise errors.UsageError("the secret is empty; give it on standard input, by --file or by --env")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise errors.UsageError(
            "the token holds a space, a line break or another character that no token has; copy it again, alone"
        )
    return Secret(token)


def private_key_of(text: str) -> Secret:
    """A private key in PEM as a person gave it. Raises UsageError where it is none that a GitHub App signs with."""
    key = text.strip()
    found = _loaded(key)
    if not isinstance(found, rsa.RSAPrivateKey) or found.key_size < LEAST_RSA_BITS:
        raise errors.UsageError(
            "the private key is no RSA key in PEM without a passphrase; give the .pem file as GitHub made it for the App"
        )
    return Secret(key)


def host_of(text: str) -> str:
    """A host as a person sees it, in lower case. Raises UsageError for an address in its place."""
    host = text.strip().lower().removesuffix(":443")
    if not _HOST.fullmatch(host):
        shown = re.sub(r"^.*@", "***@", text)[:100]
        raise errors.UsageError(
            f"host is {shown!r}: write it as in github.com, without scheme, path, user and final dot"
        )
    if host in _NO_HOST_OF_PEOPLE:
        raise errors.UsageError(f"host is {text!r}: write the one that people see, {_NO_HOST_OF_PEOPLE[host]}")
    return host


def _loaded(pem: str) -> object:
    """The private key in `pem`; None where there is none that opens without a passphrase."""
    try:
        return load_pem_private_key(pem.encode("ascii"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
