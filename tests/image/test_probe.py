"""The image's health check: every role under a foreign uid on a read-only root, the cost of a probe, and its rule."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.containers import IMAGE, Container, Yard
from tests.image.stage import HARDENED, Stage

ROLES: dict[str, tuple[str, ...]] = {"worker": (), "beat": ("beat",), "api": ("api",), "flower": ("flower",)}
OPEN = {"FLOWER_BASIC_AUTH": "ops:secret", "API_TOKEN": "t" * 32}
TIMES = 20
PROBES = (("/app/bin/probe",), ("dev-hops", "probe"))
MAX_CPU_SECONDS = 0.05  # of one probe
COST = f"i=0; while [ $i -lt {TIMES} ]; do /app/bin/probe alive || exit 1; i=$((i+1)); done; times"


@dataclass(frozen=True, slots=True)
class Situation:
    """What a container's folder holds, by commands of sh, and how both probes answer to these arguments."""

    made_by: str
    arguments: tuple[str, ...]
    code: int


SITUATIONS = (
    Situation("true", ("alive",), 1),
    Situation("touch worker.alive", ("alive",), 0),
    Situation("true", ("ready",), 1),
    Situation("touch worker.ready", ("ready",), 0),
    Situation("touch -d @1 worker.alive", ("ready",), 1),
    Situation("true", ("alive", "--max-age", "60"), 1),
    Situation("echo beat >role; touch beat.alive", ("ready",), 0),
    Situation("true", ("alive", "--role", "worker"), 1),
    Situation("echo api >role", ("alive",), 1),
    Situation("true", ("ready",), 1),
    Situation("echo flower >role", ("alive",), 1),
    Situation("true", ("nonsense",), 2),
    Situation("true", (), 2),
)


def seconds(line: str) -> float:
    """The sum of a line of `times`, as `0m0.12s 0m0.03s`."""
    parts = [part.rstrip("s").split("m") for part in line.split()]
    return sum(60 * float(minutes) + float(rest) for minutes, rest in parts)


def asking(situation: Situation) -> str:
    """The line of sh that makes the situation and prints with what each probe ends."""
    words = " ".join(situation.arguments)
    asked = "; ".join(f"{' '.join(program)} {words} >/dev/null 2>&1; echo $?" for program in PROBES)
    return f"{situation.made_by}; {asked}"


def test_both_probes_agree_in_the_image(images: Yard) -> None:
    script = "\n".join(["cd /run/worker", *map(asking, SITUATIONS)])
    code, said = images.finished(IMAGE, "sh", "-c", script, name="probe", options=HARDENED)
    assert code == 0, said
    answers = list(map(int, said.split()))
    assert list(zip(answers[::2], answers[1::2], strict=True)) == [(each.code, each.code) for each in SITUATIONS]


@pytest.mark.parametrize("role", ROLES)
def test_role_is_healthy_under_a_foreign_uid_on_a_read_only_root(
    stage: Stage, role: str, note: Callable[[str], None]
) -> None:
    container = stage.role(*ROLES[role], options=(*HARDENED, "--user=12345:0"), **OPEN)
    container.wait_healthy()
    assert container.exec("cat", "/run/worker/role") == role
    assert [container.exit_code_of(*program, "ready") for program in PROBES] == [0, 0]
    said = json.loads(container.exec("dev-hops", "probe", "alive", "--json"))
    assert (said["role"], said["ok"]) == (role, True)
    cost = cost_of_a_probe(container)
    note(f"probe of {role}: {cost * 1000:.0f} ms of processor time")
    assert cost < MAX_CPU_SECONDS


def cost_of_a_probe(container: Container) -> float:
    """Processor seconds of one probe, its children counted."""
    *_, own, children = container.exec("sh", "-c", COST).splitlines()
    return (seconds(own) + seconds(children)) / TIMES


def test_role_without_its_store_never_becomes_healthy_but_says_why(stage: Stage) -> None:
    container = stage.role("beat", DATABASE_URL="postgresql://u:canary-5a1@127.0.0.1:1/n", SCHEMA_WAIT_SECONDS="1")
    assert container.exit_code() == 75
    assert "canary" not in container.logs()
