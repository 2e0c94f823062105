"""What a sealed credential costs: opening rows beside Fernet and a derived key, the hub, a rotation under load, all swaps.

Peers do the same work in the same run: Fernet, which binds nothing, and Fernet with a key that is derived from a password at each
call (PBKDF2, 600,000 rounds). Of times only the ratios say something about another machine.
"""

import argparse
import base64
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import cycle, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID, uuid4

import gevent
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from bench import credentials_rows
from bench.service import note
from worker_app import errors, key_ring
from worker_app.credentials import kinds, rotation
from worker_app.credentials.resolver import CredentialResolver
from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import Stores
from worker_app.migrate.postgres import migrate_postgres
from worker_app.store import sources
from worker_app.store.postgres import Postgres
from worker_app.vault import Place, RingKeys, Sealed, Vault

RESULT: Final = Path(__file__).resolve().parent / "results" / "credentials.json"
ROUNDS: Final = 600_000  # of the peer's derivation
AT_ONCE: Final = 20  # greenlets
GOALS: Final = {"decrypts_per_second": 20_000, "hub_gap_ms": 20.0, "failed_resolves": 0, "swaps_refused_share": 1.0}


def opened_per_second(open_one: Callable[[], object], seconds: float) -> float:
    """How often a call returns in a second, one caller."""
    count, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        open_one()
        count += 1
    return count / passed


def cost(seconds: float) -> dict[str, float]:
    """Opened rows in a second, without a database: ours and the peers'."""
    vault, place = Vault(RingKeys(key_ring.parse(key_ring.generate()))), _place(1)
    sealed = vault.seal(place, kinds.to_document(credentials_rows.token(1)))
    fernet = Fernet(Fernet.generate_key())
    held = fernet.encrypt(vault.open(place, sealed))
    ours = opened_per_second(lambda: vault.open(place, sealed), seconds)
    return {
        "ours": ours,
        "ours_with_types": opened_per_second(
            lambda: kinds.from_document(vault.open(place, sealed), place.host), seconds
        ),
        "fernet": opened_per_second(lambda: fernet.decrypt(held), seconds),
        "derived": opened_per_second(_derived, min(seconds, 2.0)),
    }


def _derived() -> bytes:
    """What a peer does at each call: a key from a password, and a token opened by it."""
    kdf = PBKDF2HMAC(algorithm=SHA256(), length=32, salt=b"bench", iterations=ROUNDS)
    fernet = Fernet(base64.urlsafe_b64encode(kdf.derive(b"a password")))
    return fernet.decrypt(fernet.encrypt(b"{}"))


def hub(url: str, ring: str) -> dict[str, float]:
    """The longest gap of the hub, in ms, while 20 greenlets open a row each; ours from Postgres, the peer's from memory."""
    postgres = Postgres(url, pool_size=AT_ONCE + 1)
    org_id, held = _filled(postgres, ring, AT_ONCE)
    resolver = CredentialResolver(postgres, Vault(RingKeys(key_ring.parse(ring))))
    gevent.joinall(
        [gevent.spawn(resolver.resolve, org_id, item) for item in held], raise_error=True
    )  # pooled connections
    gaps = {
        "nothing": _longest_gap([lambda: gevent.sleep(0.05)] * AT_ONCE),
        "ours": _longest_gap([lambda item=item: resolver.resolve(org_id, item) for item in held]),  # type: ignore[misc]
        "derived": _longest_gap([_derived] * AT_ONCE),
    }
    postgres.close()
    return gaps


def _longest_gap(work: Sequence[Callable[[], object]]) -> float:
    gaps, last = [0.0], time.perf_counter()

    def tick() -> None:
        nonlocal last
        while True:
            gevent.sleep(0.0005)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    ticker = gevent.spawn(tick)
    gevent.sleep(0.02)
    gaps.clear()
    gevent.joinall([gevent.spawn(one) for one in work], raise_error=True)
    gevent.sleep(0.002)
    ticker.kill()
    return round(max(gaps) * 1000, 2)


def rotated(postgres: Postgres, k1: str, rows: int) -> dict[str, float]:
    """A rotation of so many rows while four threads resolve them: rows in a second, resolves meanwhile, failed ones."""
    ring = f"{key_ring.generate('k2')},{k1}"
    org_id, held = _filled(postgres, k1, rows)
    over, counts = threading.Event(), {"resolved": 0, "failed": 0}

    def load(number: int) -> None:
        resolver = CredentialResolver(postgres, Vault(RingKeys(key_ring.parse(ring))))
        for item in cycle(held[number::4]):
            if over.is_set():
                return
            try:
                resolver.resolve(org_id, item)
                counts["resolved"] += 1
            except errors.DevHopsError:
                counts["failed"] += 1

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    found = rotation.rotate(postgres, RingKeys(key_ring.parse(ring)))
    seconds = time.perf_counter() - began
    over.set()
    for thread in threads:
        thread.join(30)
    left = sum(use.rows for use in rotation.uses(postgres) if use.key_id == "k1")
    return {
        "rows": found.rows,
        "seconds": round(seconds, 2),
        "rows_per_second": round(found.rows / seconds),
        **counts,
        "left": left,
    }


def swaps(numbers: int = 3) -> dict[str, int]:
    """Every sealed row opened in every other place: organisations, providers, hosts, ids, versions, so many of each."""
    vault = Vault(RingKeys(key_ring.parse(key_ring.generate())))
    hosts, providers = [f"h{number}.example.com" for number in range(numbers)], ("github", "gitlab", "git")[:numbers]
    uuids = [UUID(int=number + 1) for number in range(numbers)]
    places = [
        Place(org_id, provider, host, credential_id, number)
        for org_id, provider, host, credential_id, number in product(
            uuids, providers, hosts, uuids, range(1, numbers + 1)
        )
    ]
    rows = [vault.seal(place, kinds.to_document(credentials_rows.token(1))) for place in places]
    pairs = [(place, row) for place, row in product(places, rows)]
    refused = sum(_is_refused(vault, place, row) for place, row in pairs)
    return {"pairs": len(pairs) - len(places), "refused": refused, "opened_at_home": len(pairs) - refused}


def _is_refused(vault: Vault, place: Place, row: Sealed) -> bool:
    try:
        vault.open(place, row)
    except errors.CredentialUndecryptable:
        return True
    return False


def _place(number: int) -> Place:
    return Place(UUID(int=number), "github", credentials_rows.HOST, UUID(int=number), number)


def _filled(postgres: Postgres, ring: str, rows: int) -> tuple[UUID, list[UUID]]:
    with postgres.transaction() as tx:
        org_id = sources.add_org(tx, f"bench-{uuid4()}", "UTC").id
    return org_id, list(credentials_rows.fill(postgres, Vault(RingKeys(key_ring.parse(ring))), org_id, rows))


def machine() -> dict[str, Any]:
    """Where and when this runs; a load above 0 at the start means that the figures are those of others too."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cores_count": len(os.sched_getaffinity(0)),
        "load_average_1m_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("cryptography", "gevent", "psycopg2-binary")},
    }


def measure(rows: int, seconds: float) -> dict[str, Any]:
    """The whole document."""
    report: dict[str, Any] = {"machine": machine(), "swaps": swaps(), "opened_per_second": cost(seconds)}
    note(f"opened per second: {_rounded(report['opened_per_second'])}; swaps: {report['swaps']}")
    with TemporaryDirectory() as folder:
        stores = Stores(Folder(Path(folder) / "up"), durable=False)
        addresses = stores.start()
        try:
            migrate_postgres(addresses.database_url, lambda _: None)
            postgres, ring = Postgres(addresses.database_url, pool_size=8), key_ring.generate()
            org_id, held = _filled(postgres, ring, 100)
            resolver, ids = CredentialResolver(postgres, Vault(RingKeys(key_ring.parse(ring)))), cycle(held)
            rate = opened_per_second(lambda: resolver.resolve(org_id, next(ids)), seconds)
            report |= {"resolves_per_second": round(rate), "hub_gap_ms": _in_patched(addresses.database_url, ring)}
            note(f"resolves per second: {rate:.0f}; longest gap of the hub, ms: {report['hub_gap_ms']}")
            report["rotation"] = rotated(postgres, ring, rows)
            note(f"rotation: {report['rotation']}")
            postgres.close()
        finally:
            stores.stop()
            stores.delete_data()
    return report | {"goals": goals(report)}


def _in_patched(url: str, ring: str) -> dict[str, float]:
    """`hub`, in an interpreter that gevent has patched."""
    command = [sys.executable, "-m", "gevent.monkey", "--module", "bench.credentials", "--hub"]
    done = subprocess.run(
        command, input=json.dumps([url, ring]), capture_output=True, text=True, timeout=120, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def goals(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each aim beside what was measured."""
    swapped = report["swaps"]
    measured = {
        "decrypts_per_second": round(report["opened_per_second"]["ours"]),
        "hub_gap_ms": report["hub_gap_ms"]["ours"],
        "failed_resolves": report["rotation"]["failed"],
        "swaps_refused_share": swapped["refused"] / swapped["pairs"],
    }
    least = {"decrypts_per_second", "swaps_refused_share"}

    def is_reached(name: str, aim: float) -> bool:
        return bool(measured[name] >= aim if name in least else measured[name] <= aim)

    return {
        name: {"aim": aim, "measured": measured[name], "reached": is_reached(name, aim)} for name, aim in GOALS.items()
    }


def _rounded(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in found.items()}


def main() -> int:
    """Measure, write the document, and say which aim was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of the rotation")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each rate")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--hub", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hub:
        print(json.dumps(hub(*json.load(sys.stdin))))
        return 0
    report = measure(given.rows, given.seconds)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report["goals"], indent=2))
    return 0 if all(goal["reached"] for goal in report["goals"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
