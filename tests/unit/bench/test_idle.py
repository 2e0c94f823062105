import os
import socket
from dataclasses import replace

import pytest

from bench import idle, idle_report
from bench.idle_fleet import KINDS
from bench.idle_look import Look, local_ports
from bench.idle_report import Figures
from worker_app.cli.roles import ROLES
from worker_app.queues import FLEETS

ONE = Figures(rss_mb=100.0, own_mb=60.0, cpu_percent=0.4, threads=2, start_seconds=2.0, redis_clients=13)


def test_a_look_at_this_process_sees_its_memory_and_time() -> None:
    look = Look.at(os.getpid())

    assert look.rss_mb >= look.own_mb > 1
    assert look.cpu_seconds > 0
    assert look.threads >= 1


def test_local_ports_are_those_of_connections_to_the_named_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, socket.create_connection(other.getsockname()):
            assert local_ports(os.getpid(), port) == {client.getsockname()[1]}


def test_medians_leave_out_what_was_not_measured() -> None:
    runs = [
        {"worker": ONE},
        {"worker": replace(ONE, rss_mb=130.0, start_seconds=None)},
        {"worker": replace(ONE, rss_mb=110.0, start_seconds=4.0)},
    ]

    found = idle_report.medians(runs)["worker"]

    assert (found.rss_mb, found.start_seconds, found.postgres_connections) == (110.0, 3.0, None)


def test_the_table_has_a_cell_for_each_heading_and_a_dash_for_what_is_unknown() -> None:
    line = idle_report.markdown({"worker": ONE}).splitlines()[-1]

    assert line == "| worker | 100 | 60 | 0.4 | 2 | 2.0 | – | 13 | – |"
    assert line.count("|") == len(idle_report.HEADS) + 2


def test_the_document_names_its_machine_and_holds_every_run() -> None:
    made = idle_report.document([{"worker": ONE}] * 3, 60.0, "processes")

    assert (made["runs_count"], len(made["runs"])) == (3, 3)
    assert made["machine"]["cores"] == os.cpu_count()
    assert made["medians"]["worker"]["rss_mb"] == 100.0


def test_every_role_and_every_fleet_is_measured() -> None:
    assert {kind.role for kind in KINDS} == set(ROLES)
    assert {kind.changes["DEV_HOPS_FLEET"] for kind in KINDS if kind.role == "worker"} == set(FLEETS)


def test_a_container_without_a_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        idle.main(["--container", "worker"])

    assert "'worker' is not NAME=CONTAINER" in capsys.readouterr().err
