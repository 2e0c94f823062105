"""Signs of life of a real worker: a deaf one loses its liveness, one whose broker is away keeps it."""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from socket import gethostname

import pytest
from celery import Celery

from tests.processes import Service, wait_for
from worker_app.embedded.valkey import EmbeddedValkey

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]
LONGEST_TURN_SECONDS = (
    5 + 3 * 5 + 4
)  # the pause, three tries on a Redis that does not answer, a slow machine; 120 is fatal
NODE = f"worker@{gethostname()}"


def age(service: Service, name: str) -> float:
    """Seconds since the worker's last sign of life."""
    return time.time() - (service.folder / "run" / name / "worker.alive").stat().st_mtime


def test_worker_that_takes_nothing_of_what_waits_loses_its_liveness_and_gets_it_back(service: Service) -> None:
    producer = Celery("producer", broker=service.redis_url, set_as_current=False)
    with service.running("w", "worker", WORKER_WATCHDOG_SECONDS="4", CELERY_QUEUES="default,sync") as process:
        service.wait_ready("w", process)
        wait_for(lambda: producer.control.inspect(destination=[NODE], timeout=1).ping(), "remote control answers")
        for queue in ("default", "sync"):
            producer.control.cancel_consumer(queue, destination=[NODE])
        wait_for(lambda: service.log("w").count("Canceling queue") == 2, "both queues are cancelled")
        producer.send_task("worker_app.tasks.rescue", kwargs={}, queue="sync", ignore_result=True)
        wait_for(lambda: "watchdog.alive_withheld" in service.log("w"), "the watchdog barks")
        wait_for(lambda: age(service, "w") > 7, "its last sign of life is too old")
        assert producer.control.inspect(destination=[NODE], timeout=5).ping()  # what other probes ask for is fine
        producer.control.add_consumer("sync", destination=[NODE], reply=True, timeout=5)
        wait_for(
            lambda: age(service, "w") < 6 and "watchdog.alive_again" in service.log("w"), "it takes work and lives"
        )
    producer.close()


def test_broker_outage_costs_no_liveness_and_a_worker_that_is_born_in_it_lives(
    tmp_path: Path, database_url: str
) -> None:
    valkey = EmbeddedValkey(tmp_path, password=None)
    valkey.start()
    service = Service(tmp_path, database_url, valkey.url)
    try:
        with service.running("old", "worker") as old:
            service.wait_ready("old", old)
            os.kill(valkey.pid, signal.SIGSTOP)
            with service.running("new", "worker") as new:
                wait_for(lambda: (tmp_path / "run" / "new" / "worker.alive").exists(), "the new one lives")
                seen = time.time()
                wait_for(lambda: time.time() - seen > 12, "some turns")
                assert age(service, "old") < LONGEST_TURN_SECONDS
                assert age(service, "new") < LONGEST_TURN_SECONDS
                os.kill(valkey.pid, signal.SIGCONT)
                service.wait_ready("new", new)
    finally:
        os.kill(valkey.pid, signal.SIGCONT)
        valkey.stop()


@pytest.mark.parametrize("is_frozen", [False, True], ids=["gone", "frozen"])
def test_worker_ends_in_time_although_its_broker_is_away(tmp_path: Path, database_url: str, is_frozen: bool) -> None:
    valkey = EmbeddedValkey(tmp_path, password=None)
    valkey.start()
    service = Service(tmp_path, database_url, valkey.url)
    try:
        with service.running("w", "worker") as process:
            service.wait_ready("w", process)
            if is_frozen:
                os.kill(valkey.pid, signal.SIGSTOP)
            else:
                valkey.stop()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=20) == 0
    finally:
        if is_frozen:
            os.kill(valkey.pid, signal.SIGCONT)
        valkey.stop()


def test_remapped_sigterm_is_refused_with_the_reason(service: Service) -> None:
    with service.running("w", "worker", REMAP_SIGTERM="SIGQUIT") as process:
        assert process.wait(timeout=30) == 78
    assert "REMAP_SIGTERM is SIGQUIT" in service.log("w")


def test_probe_looks_at_files_alone_and_costs_next_to_nothing(tmp_path: Path, checkout: Path) -> None:
    for name in ("role", "worker.alive", "worker.ready"):
        (tmp_path / name).write_text("worker" if name == "role" else "")
    environment = {"PATH": os.defpath, "RUN_DIR": str(tmp_path)}  # it knows of no broker
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for what in ("alive", "ready"):
        subprocess.run(
            ["sh", checkout / "worker_app" / "cli" / "probe.sh", what], env=environment, check=True, timeout=5
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 2 * 0.05


def test_renewed_worker_takes_work_again_under_the_same_pid(service: Service) -> None:
    ready = service.folder / "run" / "w" / "worker.ready"
    with service.running("w", "worker") as process:
        service.wait_ready("w", process)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: not ready.exists(), "it takes no more")
        service.wait_ready("w", process)
        assert process.poll() is None
        log = service.log("w")
        assert log.count("worker.renews") == 1
        assert "worker.refused" not in log
