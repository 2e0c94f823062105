import json
from collections import Counter
from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest

from worker_app import errors, key_ring, vault
from worker_app.secret import Secret
from worker_app.vault import Place, RingKeys, Sealed, Vault

CANARY = "ghp_canary8f3a"
RING = f"{key_ring.generate('k2')},{key_ring.generate('k1')}"
HERE = Place(UUID(int=1), "github", "github.com", UUID(int=9), 1)
ELSEWHERE = {
    "org_id": UUID(int=2), "provider": "gitlab", "host": "ghe.acme.com", "credential_id": UUID(int=8), "version": 2,
}  # fmt: skip


def vault_of(ring: str = RING) -> Vault:
    return Vault(RingKeys(key_ring.parse(ring)))


@pytest.fixture
def sealed() -> Sealed:
    return vault_of().seal(HERE, {"kind": "github_token", "token": Secret(CANARY)})


def refusal(opener: Vault, place: Place, sealed: Sealed) -> errors.CredentialUndecryptable:
    with pytest.raises(errors.CredentialUndecryptable) as caught:
        opener.open(place, sealed)
    return caught.value


def test_what_is_sealed_opens_where_it_was_written(sealed: Sealed) -> None:
    assert json.loads(vault_of().open(HERE, sealed)) == {"kind": "github_token", "token": CANARY}
    assert sealed.key_id == "k2"


def test_sealed_row_holds_nothing_in_clear(sealed: Sealed) -> None:
    assert CANARY.encode() not in sealed.ciphertext + sealed.wrapped_dek
    assert repr(sealed) == "Sealed(key_id='k2')"


def test_each_seal_has_keys_and_nonces_of_its_own() -> None:
    rows = [vault_of().seal(HERE, {"token": Secret(CANARY)}) for _ in range(50)]
    assert len({row.ciphertext[:12] for row in rows} | {row.wrapped_dek[:12] for row in rows}) == 100
    assert len({row.ciphertext for row in rows} | {row.wrapped_dek for row in rows}) == 100


def test_row_opens_as_what_it_was_written_for_and_as_nothing_else() -> None:
    keys = vault_of()
    places = [
        replace(HERE, **{name: other for (name, other), moved in zip(ELSEWHERE.items(), mask, strict=True) if moved})  # type: ignore[arg-type]
        for mask in product((False, True), repeat=len(ELSEWHERE))
    ]
    rows = [keys.seal(place, {"token": Secret(str(number))}) for number, place in enumerate(places)]
    opened = 0
    for (i, place), (j, row) in product(enumerate(places), enumerate(rows)):
        if i == j:
            assert json.loads(keys.open(place, row)) == {"token": str(i)}
            opened += 1
        else:
            refusal(keys, place, row)
    assert (opened, len(places) ** 2 - opened) == (32, 992)


def test_layers_of_two_rows_do_not_mix(sealed: Sealed) -> None:
    other = vault_of().seal(HERE, {"token": Secret("other")})
    refusal(vault_of(), HERE, replace(sealed, wrapped_dek=other.wrapped_dek))
    refusal(vault_of(), HERE, replace(sealed, ciphertext=other.ciphertext))


def test_parts_that_run_together_are_not_taken_for_others() -> None:
    row = vault_of().seal(replace(HERE, provider="git", host="hub.com"), {"token": Secret(CANARY)})
    refusal(vault_of(), replace(HERE, provider="github", host=".com"), row)


@pytest.mark.parametrize("part", ["wrapped_dek", "ciphertext"])
@pytest.mark.parametrize("size", [0, 5, 12, 20, -1])
def test_row_that_was_cut_or_damaged_does_not_open(sealed: Sealed, part: str, size: int) -> None:
    whole: bytes = getattr(sealed, part)
    for broken in (whole[:size], whole[:-1] + bytes([whole[-1] ^ 1])):
        refusal(vault_of(), HERE, replace(sealed, **{part: broken}))  # type: ignore[arg-type]


def test_ring_reads_with_every_key_and_writes_with_the_first(sealed: Sealed) -> None:
    newer = vault_of(f"{key_ring.generate('k3')},{RING}")
    assert CANARY.encode() in newer.open(HERE, sealed)
    assert newer.seal(HERE, {"token": Secret(CANARY)}).key_id == "k3"


def test_key_that_the_ring_lacks_is_named(sealed: Sealed) -> None:
    error = refusal(vault_of(key_ring.generate("k1")), HERE, sealed)
    assert "CREDENTIAL_KEYS has no key k2" in str(error)


def test_refusal_holds_ids_alone(sealed: Sealed) -> None:
    error = refusal(vault_of(key_ring.generate("k2")), HERE, sealed)
    assert isinstance(error, errors.CredentialRefused)
    assert (error.org_id, error.provider, error.credential_id, error.version, error.key_id) == (
        HERE.org_id, "github", HERE.credential_id, 1, "k2",
    )  # fmt: skip
    assert "sealed by another key or for another place" in str(error)


def test_rewrapped_row_is_on_the_key_that_writes_and_keeps_its_data(sealed: Sealed) -> None:
    newer = vault_of(f"{key_ring.generate('k3')},{RING}")
    rotated = newer.rewrap(HERE, sealed)
    assert (rotated.key_id, rotated.ciphertext) == ("k3", sealed.ciphertext)
    assert rotated.wrapped_dek != sealed.wrapped_dek
    assert newer.open(HERE, rotated) == newer.open(HERE, sealed)


def test_key_id_is_bound_by_the_wrapping_alone(sealed: Sealed) -> None:
    key = key_ring.generate("k2").partition(":")[2]
    rotated = vault_of(f"k3:{key},{RING}").rewrap(HERE, sealed)
    renamed = replace(rotated, key_id="k4")
    refusal(vault_of(f"k4:{key}"), HERE, renamed)  # the same key under another id
    assert CANARY.encode() in vault_of(f"k3:{key}").open(HERE, rotated)


def test_row_of_another_place_or_ring_is_not_rewrapped(sealed: Sealed) -> None:
    for opener, place in ((vault_of(), replace(HERE, version=2)), (vault_of(key_ring.generate("k2")), HERE)):
        with pytest.raises(errors.CredentialUndecryptable) as caught:
            opener.rewrap(place, sealed)
        assert (caught.value.version, caught.value.key_id) == (place.version, "k2")


def test_rewrapped_key_of_the_vault_is_the_same_key(sealed: Sealed) -> None:
    kept = vault_of().new_key("fingerprint")
    newer = vault_of(f"{key_ring.generate('k3')},{RING}")
    key_id, wrapped = newer.rewrapped_key("fingerprint", *kept)
    assert key_id == "k3"
    assert newer.stored_key("fingerprint", key_id, wrapped) == vault_of().stored_key("fingerprint", *kept)
    with pytest.raises(errors.SettingsError):
        newer.rewrapped_key("other", *kept)


class KeyService:
    """A key service in memory: it hands out numbers for what it keeps, counts its calls, and may be away."""

    def __init__(self) -> None:
        self.writes = "arn-1"
        self.is_away = False
        self.calls: Counter[str] = Counter()
        self._kept: dict[bytes, tuple[str, bytes, bytes]] = {}

    def wrap(self, key_id: str, key: bytes, bound: bytes) -> bytes:
        self._answer("wrap")
        handle = b"handle %d" % len(self._kept)
        self._kept[handle] = (key_id, bound, key)
        return handle

    def unwrap(self, key_id: str, wrapped: bytes, bound: bytes) -> bytes:
        self._answer("unwrap")
        *place, key = self._kept.get(wrapped, ("", b"", b""))
        if place != [key_id, bound]:
            raise errors.SealBroken("the service refuses")
        return key

    def _answer(self, call: str) -> None:
        if self.is_away:
            raise errors.TransientError("the key service does not answer")
        self.calls[call] += 1


def test_another_key_provider_seals_opens_and_rewraps_by_one_call_each() -> None:
    service = KeyService()
    vault_of_service = Vault(service)
    sealed = vault_of_service.seal(HERE, {"token": Secret(CANARY)})
    assert (service.calls, sealed.key_id, sealed.wrapped_dek) == ({"wrap": 1}, "arn-1", b"handle 0")
    assert CANARY.encode() in vault_of_service.open(HERE, sealed)
    assert service.calls == {"wrap": 1, "unwrap": 1}
    service.writes = "arn-2"
    rotated = vault_of_service.rewrap(HERE, sealed)
    assert (service.calls, rotated.key_id, rotated.ciphertext) == ({"wrap": 2, "unwrap": 2}, "arn-2", sealed.ciphertext)
    assert CANARY.encode() in vault_of_service.open(HERE, rotated)
    refusal(vault_of_service, replace(HERE, org_id=UUID(int=2)), rotated)


def test_key_provider_that_is_away_is_worth_another_try(sealed: Sealed) -> None:
    service = KeyService()
    service.is_away = True
    for call in (Vault(service).open, Vault(service).rewrap):
        with pytest.raises(errors.TransientError, match="does not answer"):
            call(HERE, sealed)


def test_keys_of_the_vault_open_with_their_ring_and_for_their_purpose() -> None:
    key_id, wrapped = vault_of().new_key("fingerprint")
    assert len(vault_of().stored_key("fingerprint", key_id, wrapped)) == 32
    for opener, purpose in ((vault_of(), "other"), (vault_of(key_ring.generate("k2")), "fingerprint")):
        with pytest.raises(errors.SettingsError, match="key ring whose key of this id wrapped it"):
            opener.stored_key(purpose, key_id, wrapped)


def test_fingerprint_tells_equal_secrets_from_others_for_one_key() -> None:
    first = vault.fingerprint(b"a" * 32, Secret(CANARY))
    assert first == vault.fingerprint(b"a" * 32, Secret(CANARY))
    assert len({first, vault.fingerprint(b"b" * 32, Secret(CANARY)), vault.fingerprint(b"a" * 32, Secret("x"))}) == 3
    assert len(first) == 16


def test_document_takes_secrets_and_plain_values_alone() -> None:
    with pytest.raises(TypeError, match="cannot hold a bytes"):
        vault_of().seal(HERE, {"token": b"x"})
