import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from worker_app import errors
from worker_app.credentials import known_hosts

HOST = "git.acme.com"
KEY = (
    ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    .public_key()
    .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    .decode()
)


@pytest.mark.parametrize(
    "names",
    [
        HOST,
        f"[{HOST}]:2222",
        f"other.acme.com,{HOST}",
        "GIT.acme.com",
        "*.acme.com",
        "git.acme.co?",
        "*,!other.acme.com",
        f"@cert-authority {HOST}",
    ],
)
def test_line_that_speaks_of_the_host_is_kept(names: str) -> None:
    assert known_hosts.lines_for(HOST, f"# mine\n\n  {names} {KEY} comment \n") == f"{names} {KEY} comment\n"


@pytest.mark.parametrize(
    "line",
    [
        "",
        f"# {HOST} {KEY}",
        f"acme.com {KEY}",
        f"[git.acme]:22 {KEY}",
        f"git.acme {KEY}",
        f"[git.acme.com.evil.org]:22 {KEY}",
        f"git.acme.com.evil.org {KEY}",
        f"*.acme.com,!{HOST} {KEY}",
        f"@revoked {HOST} {KEY}",
        f"@unheard {HOST} {KEY}",
        f"|1|AAAA|AAAA {KEY}",
        f"|1|??|?? {KEY}",
        "[",
    ],
)
def test_file_without_a_key_of_the_host_is_refused_with_the_remedy(line: str) -> None:
    with pytest.raises(errors.UsageError, match=r"has no key of git\.acme\.com.*`ssh-keyscan git\.acme\.com`"):
        known_hosts.lines_for(HOST, f"{line}\nother.acme.com {KEY}\n")


def test_lines_of_other_hosts_are_left_out_and_revoked_keys_kept() -> None:
    text = f"other.acme.com {KEY}\n@revoked {HOST} {KEY}\n{HOST} {KEY}\n"
    assert known_hosts.lines_for(HOST, text) == f"@revoked {HOST} {KEY}\n{HOST} {KEY}\n"


@pytest.mark.parametrize(
    "key", ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 ????", KEY.replace("ssh-ed25519", "ssh-rsa")]
)
def test_line_whose_key_cannot_be_read_is_refused(key: str) -> None:
    with pytest.raises(errors.UsageError, match="line 2 of the file that --known-hosts names holds no key"):
        known_hosts.lines_for(HOST, f"{HOST} {KEY}\n{HOST} {key}\n")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen on this machine")
def test_hashed_names_are_known_as_ssh_hashes_them(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{HOST} {KEY}\nother.acme.com {KEY}\n")
    subprocess.run(["ssh-keygen", "-H", "-f", file], capture_output=True, timeout=20, check=True)
    hashed = file.read_text().splitlines()
    assert HOST not in hashed[0]
    assert known_hosts.lines_for(HOST, file.read_text()) == f"{hashed[0]}\n"
