"""Twenty greenlets with one session of four connections, in a patched interpreter: `python -m gevent.monkey` runs it.

Prints what became of them as JSON; the test beside it has the server, in a process of its own.
"""

import json
import queue
import sys
from pathlib import Path

import gevent

from tests.gates import RecordingGate
from tests.integration.providers.callers import client_of
from worker_app import errors
from worker_app.providers.client import Request
from worker_app.providers.http_session import Session

GREENLETS = 20
CONNECTIONS = 4


def crowd(url: str, session: Session) -> dict[str, object]:
    """Every greenlet walks five pages."""
    gate = RecordingGate(most=10)

    def walk(number: int) -> list[int]:
        client = client_of(url, gate, session)
        return [client.send(Request("repos.get", f"/{number}/{page}")).document for page in range(5)]

    greenlets = [gevent.spawn(walk, number) for number in range(GREENLETS)]
    gevent.joinall(greenlets, timeout=20)
    done = [greenlet.value for greenlet in greenlets]
    return {"done": done, "live": gate.live, "queue": queue.LifoQueue.__module__}


def drip(url: str, session: Session) -> dict[str, object]:
    """Every greenlet gets a reply that never ends, while one more counts the turns of the hub."""
    gate, turns = RecordingGate(), []

    def ask() -> str:
        try:
            return str(client_of(url, gate, session, seconds=1.0).send(Request("repos.get", "/drip")).status)
        except errors.ProviderFault as fault:
            return str(fault).rpartition(" took ")[2]

    def turn() -> None:
        while True:
            turns.append(1)
            gevent.sleep(0.05)

    turning = gevent.spawn(turn)
    greenlets = [gevent.spawn(ask) for _ in range(CONNECTIONS)]
    gevent.joinall(greenlets, timeout=20)
    turning.kill()
    return {"done": [greenlet.value for greenlet in greenlets], "turns": len(turns), "live": gate.live}


def silent(url: str, session: Session) -> dict[str, object]:
    """One request that nobody answers."""
    try:
        return {"done": client_of(url, RecordingGate(), session).send(Request("repos.get", "/silent")).status}
    except errors.ProviderFault as fault:
        return {"done": str(fault)}


def kill(url: str, session: Session) -> dict[str, object]:
    """More greenlets than connections are killed, each a little later in its request; a last one has to find a connection."""
    gate = RecordingGate()
    client = client_of(url, gate, session)
    for number in range(CONNECTIONS + 1):
        asked = gevent.spawn(client.send, Request("repos.get", "/drip"))
        while gate.live == 0:
            gevent.sleep(0)
        gevent.sleep(0.03 * number)
        asked.kill(timeout=5)
    return {"done": [client.send(Request("repos.get", "/1/1")).document], "live": gate.live, "kinds": gate.kinds[:-1]}


def main(name: str, url: str, bundle: str) -> None:
    """Run one of them and print what became of it."""
    session = Session(slots=CONNECTIONS, read_seconds=0.5, ca_bundle=Path(bundle) if bundle else None)
    told = {"crowd": crowd, "drip": drip, "silent": silent, "kill": kill}[name](url, session)
    session.close()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:4])
