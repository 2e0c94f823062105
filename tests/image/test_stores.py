"""Queues counted by redis-cli and by us, addresses from files, TLS to Redis, and how soon a new worker takes work."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.containers import IMAGE, docker
from tests.image.certificates import certificate
from tests.image.stage import HARDENED, PASSWORD, QUOTED, Stage


def test_llen_counts_what_dev_hops_queues_shows(stage: Stage) -> None:
    for number in range(3):
        stage.redis.lpush("sync.github", json.dumps({"headers": {}, "number": number}))
    code, said = stage.yard.finished(IMAGE, "queues", "--json", environment=stage.environment(), name="queues")
    assert code == 0, said
    shown = {item["queue"]: item["ready"] for item in json.loads(said)}
    assert shown["sync.github"] == stage.depth("sync.github") == 3
    assert shown["sync.git"] == stage.depth("sync.git") == 0


def test_addresses_with_special_characters_come_from_files_and_are_shown_nowhere(stage: Stage) -> None:
    given = stage.environment()
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for name in ("DATABASE_URL", "REDIS_URL"):
            Path(folder, name).write_text(given[name] + "\n")
        files = {f"{name}_FILE": f"/run/secrets/{name}" for name in ("DATABASE_URL", "REDIS_URL")}
        options = (*HARDENED, f"--volume={folder}:/run/secrets:ro")
        worker = stage.worker(options=options, DATABASE_URL="", REDIS_URL="", **files)
    assert PASSWORD not in worker.logs()
    assert QUOTED not in worker.logs()
    assert QUOTED not in docker("top", worker.name)


def test_worker_takes_work_over_rediss(stage: Stage) -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        certificate(Path(folder), "redis-tls")
        tls = stage.yard.run(
            "redis:8",
            "redis-server",
            *("--port", "0", "--tls-port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no"),
            *("--requirepass", PASSWORD, "--tls-auth-clients", "no", "--maxmemory-policy", "noeviction"),
            *("--tls-cert-file", "/tls/own.pem", "--tls-key-file", "/tls/own.pem", "--tls-ca-cert-file", "/tls/ca.pem"),
            name="tls",
            options=["--network-alias=redis-tls", f"--volume={folder}:/tls:ro"],
        )
        stage.started.append(tls)
        options = (*HARDENED, f"--volume={folder}:/tls:ro")
        url = f"rediss://:{QUOTED}@redis-tls:6379/0?ssl_cert_reqs=required&ssl_ca_certs=/tls/ca.pem"
        worker = stage.worker(options=options, REDIS_URL=url)
        shown = json.loads(worker.exec("dev-hops", "queues", "--json"))
    assert next(item["consumers"] for item in shown if item["queue"] == "sync.github") == 1
    assert QUOTED not in worker.logs()


def test_time_from_start_to_taking_work_is_noted(stage: Stage, note: Callable[[str], None]) -> None:
    began = time.monotonic()
    stage.worker(CELERY_AUTOSCALE="20,2")
    note(f"cold start: a worker takes work {time.monotonic() - began:.1f} s after `docker run`")
