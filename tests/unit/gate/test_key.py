import pickle
import subprocess
import sys

import pytest

from worker_app.gate.key import GateKey


def test_key_that_goes_to_another_process_is_the_same_key() -> None:
    key = GateKey("github", "acme", "github.com")
    code = (
        "import pickle, sys; from worker_app.gate.key import GateKey; "
        "print(pickle.load(sys.stdin.buffer) in {GateKey('github', 'acme', 'github.com')})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(key), capture_output=True, timeout=20, check=True
    )
    assert done.stdout == b"True\n"


@pytest.mark.parametrize(
    "host", ["", "GitHub.com", "https://github.com", "github.com:443", "github.com.", "a|b", "a b", "a" * 260]
)
def test_host_that_no_person_sees_so_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="host "):
        GateKey("github", "acme", host)


def test_both_keys_of_redis_share_one_hash_tag() -> None:
    assert GateKey("github", "acme", "github.com").text == "{github|acme|github.com}"
