"""What each role takes while it waits: memory, processor time, connections to the stores, and the time until it serves.

Starts every role on stores of its own, some times over, and gives medians. With `--container NAME=CONTAINER` it looks at
running containers in their place: memory and processor time alone, for an engine on this machine.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import redis
from sqlalchemy import text

from bench import idle_fleet, idle_report
from bench.idle_fleet import Started
from bench.idle_look import Look, local_ports
from bench.idle_report import Figures
from bench.service import BenchError, note
from worker_app.embedded.stores import StoreAddresses
from worker_app.store.postgres import Postgres

FOLDER: Final = Path(__file__).resolve().parent / "results"
RESULTS: Final = {"processes": FOLDER / "idle.json", "containers": FOLDER / "idle_containers.json"}
SETTLE_SECONDS: Final = 10.0  # imports that a first timer does, and connections that a start alone needed


def watched(pids: Mapping[str, int], seconds: float) -> dict[str, Figures]:
    """Memory at the end of `seconds` and the processor time in them, by name."""
    before = {name: Look.at(pid) for name, pid in pids.items()}
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    after = {name: Look.at(pid) for name, pid in pids.items()}
    return {
        name: Figures(
            rss_mb=look.rss_mb,
            own_mb=look.own_mb,
            cpu_percent=100 * (look.cpu_seconds - before[name].cpu_seconds) / passed,
            threads=look.threads,
        )
        for name, look in after.items()
    }


def run(seconds: float) -> dict[str, Figures]:
    """Every role once, all at the same time, each started after the one before it served. Raises BenchError."""
    with (
        TemporaryDirectory() as path,
        idle_fleet.stores(Path(path)) as addresses,
        idle_fleet.fleet(Path(path), addresses) as started,
    ):
        time.sleep(SETTLE_SECONDS)
        seen = watched({item.kind.name: item.process.pid for item in started}, seconds)
        clients, connections = _counted(started, addresses)
    return {
        name: replace(
            seen[name],
            start_seconds=item.start_seconds,
            start_cpu_seconds=item.start_cpu_seconds,
            redis_clients=clients[name],
            postgres_connections=connections[name],
        )
        for item in started
        for name in (item.kind.name,)
    }


def _counted(started: Sequence[Started], addresses: StoreAddresses) -> tuple[dict[str, int], dict[str, int]]:
    """The entries of CLIENT LIST and the rows of pg_stat_activity that belong to each process, by its ports."""
    client = redis.Redis.from_url(addresses.redis_url)
    redis_ports = {int(str(item["addr"]).rpartition(":")[2]) for item in client.client_list()}
    client.close()
    postgres = Postgres(addresses.database_url, pool_size=1)
    with postgres.transaction() as tx:
        rows = tx.execute(text("SELECT client_port FROM pg_stat_activity WHERE client_port > 0"))
        postgres_ports = {int(row.client_port) for row in rows}
    postgres.close()
    return (
        _belonging(started, addresses.redis_url, redis_ports),
        _belonging(started, addresses.database_url, postgres_ports),
    )


def _belonging(started: Sequence[Started], url: str, ports: set[int]) -> dict[str, int]:
    port = urlsplit(url).port or 0
    return {item.kind.name: len(local_ports(item.process.pid, port) & ports) for item in started}


def container_pid(container: str) -> int:
    """The process of a running container, on this machine. Raises BenchError."""
    command = ["docker", "inspect", "--format", "{{.State.Pid}}", container]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    pid = int(done.stdout) if done.returncode == 0 else 0
    if not pid:  # of a container that has stopped
        raise BenchError(f"container {container} does not run here: {done.stderr.strip() or 'start it'}")
    return pid


def _named(given: str) -> tuple[str, str]:
    name, _, container = given.partition("=")
    if not name or not container:
        raise argparse.ArgumentTypeError(f"{given!r} is not NAME=CONTAINER, for example worker=dev-hops-worker-1")
    return name, container


def _runs(given: argparse.Namespace) -> Iterator[dict[str, Figures]]:
    pids = {name: container_pid(container) for name, container in given.container}
    for number in range(1, given.runs + 1):
        yield watched(pids, given.seconds) if pids else run(given.seconds)
        note(f"run {number} of {given.runs}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the document, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="how often each role is started (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of waiting that are measured (default: %(default)s)"
    )
    parser.add_argument(
        "--container", action="append", default=[], type=_named, metavar="NAME=CONTAINER", help="look at it instead"
    )
    parser.add_argument("--json", action="store_true", help="print the document instead of the table")
    parser.add_argument("--out", type=Path, help="where the document is written (default: bench/results)")
    given = parser.parse_args(arguments)
    try:
        found = list(_runs(given))
    except BenchError as error:
        note(str(error))
        return 1
    place = "containers" if given.container else "processes"
    made, out = idle_report.document(found, given.seconds, place), given.out or RESULTS[place]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(made, indent=2) if given.json else idle_report.markdown(idle_report.medians(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
