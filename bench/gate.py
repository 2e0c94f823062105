"""The rate-limit gate beside other limiters: a fleet against a mock provider, and the cost of one call; goals G1 to G6.

One embedded Valkey for all. The sides take turns within a run, so that all see the same machine; what a scenario is stands in
`bench.gate_scenarios`, what a goal is in `bench.gate_goals`. Of times only the ratios say something about another machine.
"""

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import redis

from bench import gate_fleet, gate_goals, gate_report, gate_single
from bench.gate_scenarios import OURS, SCENARIOS, SIDES, Scenario
from bench.service import BenchError, note
from worker_app import errors
from worker_app.embedded.valkey import EmbeddedValkey

RESULT: Final = Path(__file__).resolve().parent / "results" / "gate.json"
SECONDS: Final = 26.0  # five windows of the mock, 1500 requests
LEAST_SECONDS: Final = 2.0
ONE_CLIENT: Final = "one-client"
LIBRARIES: Final = ("limits", "pyrate-limiter", "redis", "gevent")
FAULTS: Final = (AssertionError, OSError, redis.RedisError, errors.DevHopsError)


def machine(client: redis.Redis) -> dict[str, Any]:
    """Where and when this runs. The load is that of others as well: above 0 at the start, the figures are theirs too."""
    server: Any = client.info("server")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "cores_count": len(os.sched_getaffinity(0)),
        "load_average_1m_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "server": f"{server.get('server_name', 'redis')} {server.get('valkey_version', server['redis_version'])}",
        **{"redis_py" if name == "redis" else name: version(name) for name in LIBRARIES},
    }


def fleet(url: str, scenarios: Sequence[Scenario], runs: int, seconds: float) -> list[dict[str, Any]]:
    """Every side of every scenario, so often; a run that failed is told and left out."""
    rows = {(scenario.name, side): _row(scenario, side) for scenario in scenarios for side in scenario.sides}
    for number in range(runs):
        for scenario in scenarios:
            for side in scenario.sides:
                row = rows[scenario.name, side]
                try:
                    found = gate_fleet.measure(url, scenario, side, seconds)
                except BenchError as error:
                    row["failures"].append(str(error))
                    note(f"{scenario.name}, {side}, run {number + 1}: failed: {error}")
                    continue
                row["runs"].append(found)
                note(
                    f"{scenario.name}, {side}, run {number + 1}: {found['accepted']} of {found['possible']} accepted, "
                    f"{found['refused_primary']} + {found['refused_secondary']} refused, {found['refused_late']} late"
                )
    return list(rows.values())


def _row(scenario: Scenario, side: str) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "does": scenario.does,
        "side": side,
        "client": SIDES[side],
        "processes": scenario.processes,
        "greenlets": scenario.greenlets,
        "runs": [],
        "failures": [],
    }


def run(wanted: Sequence[str], runs: int, seconds: float) -> dict[str, Any]:
    """The benchmark as one document; `wanted` are names of scenarios, or that of the measurement of one client."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="dev-hops-bench-", ignore_cleanup_errors=True) as name:
        valkey = EmbeddedValkey(Path(name).resolve() / "redis", password=None, durable=False)
        try:
            valkey.start()
            with redis.Redis.from_url(valkey.url) as client:
                facts = machine(client)
            single = gate_single.measure(valkey.url) if ONE_CLIENT in wanted else None
            found = fleet(valkey.url, [SCENARIOS[name] for name in wanted if name in SCENARIOS], runs, seconds)
        finally:
            _leave_me_alone()
            valkey.delete_data()
    facts["load_average_1m_at_end"] = round(os.getloadavg()[0], 2)
    report: dict[str, Any] = {
        "benchmark": "gate",
        "runs_count": runs,
        "seconds_of_a_run": seconds,
        "seconds": round(time.monotonic() - began),
        "machine": facts,
        "one_client": single,
        "fleet": found,
    }
    return {**report, "goals": gate_goals.judged(report), "compared": []}


def _leave_me_alone() -> None:
    """From here on only the end is left to do, each step with its own deadline."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = (ONE_CLIENT, *SCENARIOS)
    parser = argparse.ArgumentParser(
        description="Measure the rate-limit gate beside limits and PyrateLimiter: a fleet on a mock provider, and one client.",
        epilog="Prints the goals and writes one JSON document; progress goes to standard error. Exit 1 when a goal is not "
        "reached, a run of ours fails, or a ratio is 20 % worse than in --against. Needs the optional dependencies `bench`. "
        f"Scenarios: {', '.join(names)}.",
    )
    parser.add_argument(
        "--runs", type=_positive, default=1, metavar="N", help="measure the fleet so often (default: 1)"
    )
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, metavar="S",
                        help="of a run on a quota (default: 26, which is five windows)")  # fmt: skip
    parser.add_argument("--scenario", action="append", choices=names, metavar="NAME",
                        help="measure this alone; may be given more than once (default: all)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the document in place of the goals")
    parser.add_argument("--markdown", action="store_true", help="print tables in place of the goals")
    parser.add_argument("--against", type=Path, metavar="FILE", help="an earlier document, whose ratios are compared")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE",
                        help="where the document goes (default: bench/results/gate.json)")  # fmt: skip
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    if not text.isdecimal() or int(text) < LEAST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {LEAST_SECONDS:g}")
    return float(text)


def _printed(report: dict[str, Any], options: argparse.Namespace) -> str:
    if options.json:
        return json.dumps(report, indent=2) + "\n"
    return gate_report.markdown(report) if options.markdown else gate_report.lines(report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, judge, write, print; returns the exit code."""
    options = _parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        earlier = json.loads(options.against.read_text(encoding="utf-8")) if options.against else None
        report = run(options.scenario or (ONE_CLIENT, *SCENARIOS), options.runs, options.seconds)
    except FAULTS as error:
        note(f"failed: {type(error).__name__}: {error}")
        return 1
    except KeyboardInterrupt:
        note("interrupted")
        return 130
    if earlier is not None:
        report["compared"] = gate_goals.compared(report, earlier)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(_printed(report, options), end="")
    missed = gate_report.missed(report)
    for text in missed:
        note(f"not reached: {text}")
    has_failed = any(row["failures"] for row in report["fleet"] if row["side"] == OURS)
    return 1 if missed or has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
