"""Routes: every operation of the door, in one table. What is not here is not served; what is here is described.

`app` makes the rules from it, `asking` the checks of a query, `openapi` the document, docs/generate.py the reference page.
"""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask

from worker_app.api import asking
from worker_app.api.answers import Alive, Asked, Ready, ScheduleDetail
from worker_app.api.autoscale import FleetWork, WorkersHealth
from worker_app.api.bodies import ScheduleOrder, SyncOrder
from worker_app.api.operation import HTML, JSON, Access, Answer, Operation, Parameter
from worker_app.api.status import ServiceStatus
from worker_app.gate.key import WHOLE_KEY
from worker_app.jobs import RunState
from worker_app.queue_depth import QueueDepth
from worker_app.records import Source
from worker_app.store.batch_views import BatchView
from worker_app.store.runs import RunView
from worker_app.store.schedules import Schedule
from worker_app.sync.explain import Explanation
from worker_app.sync.gates import Cleared, GateView
from worker_app.sync.orders import NextSlot

HIGHEST_LIMIT = 1000  # rows of a page
MOST_SLOTS = 1000
RUN, SCHEDULE = "/runs/<uuid:run_id>", "/schedules/<uuid:schedule_id>"

PLACES = {  # parameters of paths
    "run_id": "id of a run",
    "schedule_id": "id of a schedule",
    "provider": "name of a provider",
    "org": "name or id of an organisation",
    "host": "the provider's host",
    "fleet": "name of a fleet",
}
ORG = Parameter("org", "name or id of an organisation: its own alone")
LIMIT = Parameter("limit", "how many at most", int, default=20, least=1, most=HIGHEST_LIMIT)
CURSOR = Parameter("cursor", "where the page begins: from the `Link` header of the page before")
STATE = Parameter("state", "those in this state", choices=tuple(state.value for state in RunState))
SOURCE = Parameter("source", "name, end of a name, or id of a source: its own alone")
COUNT = Parameter("count", "how many slots", int, default=5, least=1, most=MOST_SLOTS)
BUCKET = Parameter("bucket", "only this bucket; `*` is all of the gate", default=WHOLE_KEY)
FORMAT = Parameter("format", "page or document, whatever `Accept` says", choices=("html", "json"))
REFRESH = Parameter("refresh", "`off`: the page does not load itself again", choices=("on", "off"))

OPERATIONS: tuple[Operation, ...] = (
    Operation("livez", "GET", "/livez", "health", "Whether the process turns; it asks no store.",
              (Answer(200, "it does", Alive),), access=Access.OPEN),
    Operation("readyz", "GET", "/readyz", "health", "Whether it can serve: Postgres answers, and its schema can be used.",
              (Answer(200, "it can; Redis is shown and does not decide", Ready),
               Answer(503, "it cannot; `parts` says which part is to blame", Ready)), access=Access.OPEN),
    Operation("metrics", "GET", "/metrics", "health", "Telemetry in the text format of Prometheus, at most 5 s old.",
              (Answer(200, "the names stand in the telemetry reference", media=("text/plain",)),), access=Access.OPEN),
    Operation("login", "POST", "/login", "page", "Trade the token of the form for a cookie of 12 hours that may read.",
              (Answer(303, "to the status page, with the cookie", media=(), headers=("Location", "Set-Cookie")),),
              problems=(401, 413), form=("token",), access=Access.OPEN),
    Operation("root", "GET", "/", "page", "The way to the status page.",
              (Answer(303, "to the status page", media=(HTML,), headers=("Location",)),)),
    Operation("status", "GET", "/status", "page", "The whole service on one page, or as one document.",
              (Answer(200, "what needs a person stands on top; what a store that is away would tell is null", ServiceStatus,
                      media=(JSON, HTML)),), parameters=(FORMAT, REFRESH)),
    Operation("openapi", "GET", "/openapi.json", "health", "This document.", (Answer(200, "OpenAPI 3.1", dict[str, Any]),)),
    Operation("autoscale", "GET", "/autoscale/<fleet>", "fleet", "How much work a fleet has, for what decides on its workers.",
              (Answer(200, "ready and running, without what a closed gate holds back", FleetWork),), access=Access.AUTOSCALE),
    Operation("workers_health", "GET", "/healthz/workers", "fleet", "Whether each fleet has a live worker.",
              (Answer(200, "each has", WorkersHealth), Answer(503, "one has none", WorkersHealth))),
    Operation("queues", "GET", "/queues", "fleet", "Every queue: ready, age, running, held by a closed gate, consumers.",
              (Answer(200, "the queues", list[QueueDepth]),)),
    Operation("gates", "GET", "/gates", "gates", "Every bucket of every gate, the closed ones first.",
              (Answer(200, "`retry_in` and `reset_in` are seconds from now", list[GateView]),)),
    Operation("clear_gate", "DELETE", "/gates/<provider>/<org>/<host>", "gates", "Open a gate before its time.",
              (Answer(200, "`windows` that were open before their time, and `batches` that go on within 30 s", Cleared),),
              parameters=(BUCKET,)),
    Operation("runs", "GET", "/runs", "runs", "The runs, the newest first.",
              (Answer(200, "a page of runs", list[RunView], headers=("Link",)),),
              parameters=(LIMIT, CURSOR, STATE, ORG, SOURCE)),
    Operation("run", "GET", RUN, "runs", "One run.", (Answer(200, "the run", RunView),)),
    Operation("run_batches", "GET", f"{RUN}/batches", "runs", "The batches of a run, in the order of their planning.",
              (Answer(200, "a page of batches", list[BatchView], headers=("Link",)),), parameters=(LIMIT, CURSOR)),
    Operation("explain_run", "GET", f"{RUN}/explain", "runs", "Why a run is where it is: the decisive reason first.",
              (Answer(200, "the reasons, each with its remedy", Explanation),)),
    Operation("cancel_run", "POST", f"{RUN}/cancel", "runs", "End a run: what has not begun at once, what runs after its page.",
              (Answer(202, "the run as it is now", RunView),), problems=(409,)),
    Operation("retry_run", "POST", f"{RUN}/retry", "runs",
              "Try again what failed of a run: its failed batches from where they stood, or all of a run that has none.",
              (Answer(202, "the run, open again", RunView),), problems=(409,)),
    Operation("sync", "POST", "/syncs", "runs", "Sync one source now.",
              (Answer(202, "the run that was asked for", Asked, headers=("Location",)),), problems=(409,), body=SyncOrder,
              is_keyed=True),
    Operation("schedules", "GET", "/schedules", "schedules", "The scheduled jobs, the next one first.",
              (Answer(200, "the schedules", list[Schedule]),), parameters=(ORG,)),
    Operation("add_schedule", "POST", "/schedules", "schedules", "Sync, compute metrics or render a report by a cron line.",
              (Answer(201, "the schedule", Schedule, headers=("Location",)),), problems=(409,), body=ScheduleOrder,
              is_keyed=True),
    Operation("schedule", "GET", SCHEDULE, "schedules", "One schedule, with its next slots and the next changes of its clock.",
              (Answer(200, "the schedule", ScheduleDetail),)),
    Operation("remove_schedule", "DELETE", SCHEDULE, "schedules", "Forget a schedule; its runs stay.",
              (Answer(200, "the schedule as it was", Schedule),)),
    Operation("pause_schedule", "POST", f"{SCHEDULE}/pause", "schedules", "Serve no slot until it is resumed.",
              (Answer(200, "the schedule", Schedule),)),
    Operation("resume_schedule", "POST", f"{SCHEDULE}/resume", "schedules",
              "Go on with the next slot; one that was set aside is tried again by the next tick.",
              (Answer(200, "the schedule", Schedule),)),
    Operation("next_slots", "GET", f"{SCHEDULE}/next", "schedules", "The next slots, in UTC and on the schedule's own clock.",
              (Answer(200, "the slots", list[NextSlot]),), parameters=(COUNT,)),
    Operation("sources", "GET", "/sources", "sources", "The sources with their state, by name.",
              (Answer(200, "the sources", list[Source]),), parameters=(ORG,)),
)  # fmt: skip
BY_NAME = {operation.name: operation for operation in OPERATIONS}


def install(app: Flask, views: Mapping[str, Callable[..., Any]]) -> None:
    """Serve the operations of these names by these views."""
    known = app.extensions.setdefault(asking.OPERATIONS, {})
    for name, view in views.items():
        known[name] = operation = BY_NAME[name]
        app.add_url_rule(operation.rule, endpoint=name, view_func=view, methods=[operation.method])
