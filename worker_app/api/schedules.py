"""Schedules over HTTP: added, listed, shown, paused, resumed, removed, by the orders that the command line gives too."""

import dataclasses
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from flask import Response, jsonify
from werkzeug.exceptions import NotFound

from worker_app.api import asking, deadline, naming, reading, schedule_order
from worker_app.api.answers import ScheduleDetail
from worker_app.api.bodies import ScheduleOrder
from worker_app.cli.output import document
from worker_app.runtime import Runtime
from worker_app.store import schedules
from worker_app.store.schedules import Schedule
from worker_app.sync import orders


class Schedules:
    """The views of `/schedules`."""

    def __init__(self, runtime: Runtime, reader: reading.Reader) -> None:
        self._runtime = runtime
        self._reader = reader

    def views(self) -> dict[str, Callable[..., Response]]:
        """The views by the names of their operations."""
        return {
            "schedules": self.list,
            "add_schedule": self.add,
            "schedule": self.show,
            "remove_schedule": self.remove,
            "pause_schedule": self.pause,
            "resume_schedule": self.resume,
            "next_slots": self.next,
        }

    def list(self) -> Response:
        """The scheduled jobs, the next one first."""
        with self._reader.transaction() as tx:
            return jsonify(document(schedules.schedules(tx, naming.org_id(tx, asking.query()["org"]))))

    def add(self) -> Response:
        """Write a standing order: 201 with the schedule. The same key and the same order twice are one schedule."""
        order, key = asking.body(ScheduleOrder), asking.key()
        schedule_order.refuse_contradictions(order)
        with self._reader.transaction() as tx:
            subject = schedule_order.subject(tx, order)
        least_seconds = self._runtime.settings.schedule_min_interval_seconds
        with deadline.within(reading.REQUEST_SECONDS, "Postgres"):
            added = schedule_order.place(self._runtime.postgres, order, subject, key, least_seconds)
        answer = jsonify(document(added))
        answer.status_code = 201
        answer.headers["Location"] = f"/schedules/{added.id}"
        return answer

    def show(self, schedule_id: UUID) -> Response:
        """One schedule with its next slots and the next changes of its clock."""
        found = self._found(schedule_id)
        outlook = orders.outlook(found, self._now())
        had = {item.name: getattr(found, item.name) for item in dataclasses.fields(found)}
        return jsonify(document(ScheduleDetail(**had, next=outlook.next, clock_changes=outlook.clock_changes)))

    def remove(self, schedule_id: UUID) -> Response:
        """Forget a schedule; shows what it was."""
        found = self._found(schedule_id)
        with deadline.within(reading.REQUEST_SECONDS, "Postgres"):
            orders.remove(self._runtime.postgres, found)
        return jsonify(document(found))

    def pause(self, schedule_id: UUID) -> Response:
        """Serve no slot until it is resumed."""
        found = self._found(schedule_id)
        with deadline.within(reading.REQUEST_SECONDS, "Postgres"):
            return jsonify(document(orders.pause(self._runtime.postgres, found)))

    def resume(self, schedule_id: UUID) -> Response:
        """Go on with the next slot."""
        found = self._found(schedule_id)
        with deadline.within(reading.REQUEST_SECONDS, "Postgres"):
            return jsonify(document(orders.resume(self._runtime.postgres, found)))

    def next(self, schedule_id: UUID) -> Response:
        """The next slots, by both clocks."""
        found = self._found(schedule_id)
        return jsonify(document(orders.next_slots(found, self._now(), asking.query()["count"])))

    def _found(self, schedule_id: UUID) -> Schedule:
        with self._reader.transaction() as tx:
            found = schedules.schedules(tx, job_id=schedule_id)
        if not found:
            raise NotFound(
                f"schedule_id is {schedule_id}: there is no such schedule; GET /schedules shows those there are"
            )
        return found[0]

    def _now(self) -> datetime:
        with deadline.within(reading.REQUEST_SECONDS, "Postgres"):
            return self._runtime.postgres.now()
