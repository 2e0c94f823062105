import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from tests import private_keys
from worker_app import errors
from worker_app.credentials import given_keys
from worker_app.secret import Secret

NEEDS_SSH = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen on this machine")
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | dsa.DSAPrivateKey
ED25519 = ed25519.Ed25519PrivateKey.generate()
ECDSA = ec.generate_private_key(ec.SECP256R1())
OPENSSH, PKCS8, PKCS1 = PrivateFormat.OpenSSH, PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL


def written(key: Key, form: PrivateFormat, passphrase: bytes | None = None) -> str:
    hidden: KeySerializationEncryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, form, hidden).decode()


def test_app_key_is_taken_as_github_makes_it() -> None:
    pem = private_keys.pem(private_keys.rsa_key())
    assert given_keys.app_key_of(f"\n{pem}\n") == Secret(pem.strip())
    assert given_keys.app_key_of(pem.replace("\n", "\r\n")).reveal().startswith("-----BEGIN RSA PRIVATE KEY-----\r\n")


def test_app_key_that_signs_nothing_is_refused_and_not_echoed() -> None:
    pem = private_keys.pem(private_keys.rsa_key())
    wrong = [
        "", "ghp_canary8f3a", "\ufffd", pem[:200], pem.replace("RSA PRIVATE", "RSA PUBLIC"),
        private_keys.pem(private_keys.rsa_key(), passphrase=b"x"), private_keys.pem(private_keys.rsa_key(1024)),
        private_keys.pem(ECDSA), written(private_keys.rsa_key(), OPENSSH),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(errors.UsageError, match="no RSA key in PEM without a passphrase") as caught:
            given_keys.app_key_of(text)
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "text",
    [
        written(ED25519, OPENSSH),
        written(ECDSA, OPENSSH),
        written(private_keys.rsa_key(), OPENSSH),
        written(ECDSA, PKCS1),
        written(ECDSA, PKCS8),
        written(private_keys.rsa_key(), PKCS1),
        written(private_keys.rsa_key(), PKCS8),
    ],
)
def test_ssh_key_is_kept_with_one_line_feed_at_its_end(text: str) -> None:
    given = "\r\n" + text.strip().replace("\n", "\r\n") + "\r\n\r\n"
    assert given_keys.ssh_key_of(given) == Secret(text.strip() + "\n")


def test_ed25519_key_in_pem_becomes_what_every_ssh_reads() -> None:
    kept = given_keys.ssh_key_of(written(ED25519, PKCS8)).reveal()
    assert kept.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert given_keys.ssh_key_of(kept) == Secret(kept)


@NEEDS_SSH
@pytest.mark.parametrize(
    ("key", "form"),
    [(key, form) for key in (ED25519, ECDSA, private_keys.rsa_key()) for form in (OPENSSH, PKCS8)]
    + [(ECDSA, PKCS1), (private_keys.rsa_key(), PKCS1)],
)
def test_ssh_reads_what_is_kept(key: Key, form: PrivateFormat, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(given_keys.ssh_key_of(written(key, form)).reveal())
    done = subprocess.run(
        ["ssh-keygen", "-y", "-P", "", "-f", file], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr


def test_ssh_key_that_signs_nothing_is_refused_and_not_echoed() -> None:
    wrong = [
        "", "ghp_canary8f3a", "\ufffd", written(ED25519, OPENSSH)[:200],
        written(ECDSA, PKCS8, b"x"), written(ECDSA, PKCS1, b"x"), written(private_keys.rsa_key(1024), OPENSSH),
        written(dsa.generate_private_key(1024), PKCS8),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(errors.UsageError, match=r"ssh-keygen -t ed25519") as caught:
            given_keys.ssh_key_of(text)
        assert caught.value.__context__ is None
        assert "BEGIN" not in str(caught.value)


@NEEDS_SSH
def test_ssh_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "passphrase", "-f", str(tmp_path / "key")]
    subprocess.run(made, capture_output=True, timeout=20, check=True)
    with pytest.raises(errors.UsageError, match="without a passphrase"):
        given_keys.ssh_key_of((tmp_path / "key").read_text())
