import copy
import json
import logging
import pickle
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

import worker_app
from worker_app.secret import Secret

CANARY = "ghp_canary8f3a"
TOP = Path(worker_app.__file__).parent
MAY_REVEAL = {"vault.py", "providers/github_signer.py"}


@dataclass(frozen=True, slots=True)
class Holder:
    host: str
    token: Secret


@pytest.fixture
def secret() -> Secret:
    return Secret(CANARY)


def test_secret_is_revealed_to_whoever_asks(secret: Secret) -> None:
    assert secret.reveal() == CANARY


def test_secret_shows_stars_in_every_text(secret: Secret) -> None:
    shown = [
        repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{secret:>40}", format(secret, "s"),
        repr([secret]), repr(Holder("h", secret)), str(ValueError(secret)),
    ]  # fmt: skip
    assert [text for text in shown if CANARY in text or "***" not in text] == []


def test_secret_shows_stars_in_a_log(secret: Secret, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning("token %s of %r", secret, Holder("h", secret))
    assert "***" in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_secret_cannot_be_pickled(secret: Secret, protocol: int) -> None:
    for item in (secret, Holder("h", secret), {"token": [secret]}):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(item, protocol)


def test_secret_gives_its_state_to_nobody(secret: Secret) -> None:
    with pytest.raises(TypeError):
        secret.__getstate__()
    with pytest.raises(TypeError):
        vars(secret)


def test_secret_is_not_json(secret: Secret) -> None:
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    assert CANARY not in json.dumps({"token": secret}, default=str)


def test_copies_of_a_secret_are_itself(secret: Secret) -> None:
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret
    assert asdict(Holder("h", secret))["token"] is secret


def test_secret_has_no_hash(secret: Secret) -> None:
    with pytest.raises(TypeError):
        hash(secret)
    with pytest.raises(TypeError):
        {secret: 1}  # noqa: B018 - making it is the test


def test_secret_is_frozen(secret: Secret) -> None:
    with pytest.raises(AttributeError):
        secret._value = "other"
    with pytest.raises(AttributeError):
        secret.more = "other"
    assert secret.reveal() == CANARY


def test_secrets_are_equal_by_their_text_and_to_nothing_else(secret: Secret) -> None:
    assert secret == Secret(CANARY)
    assert secret != Secret("other")
    assert secret != CANARY
    assert Secret("ä") == Secret("ä")


def test_only_signers_and_the_vault_reveal() -> None:
    calls = re.compile(r"""\.reveal\b|['"]reveal['"]""")
    found = {
        str(path.relative_to(TOP))
        for path in TOP.rglob("*.py")
        if calls.search(path.read_text()) and path.name != "secret.py"
    }
    assert found == MAY_REVEAL
