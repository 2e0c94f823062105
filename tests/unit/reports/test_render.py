from uuid import UUID

import pytest

from worker_app import errors
from worker_app.reports import render


def test_days_of_a_schedule_are_seven_unless_it_says_so() -> None:
    assert render.check_params({"template": "sync-health"}) == ("sync-health", 7)
    assert render.check_params({"template": "sync-health", "period_days": 30}) == ("sync-health", 30)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, r"params.template is None: there is sync-health; remove the schedule and add it again"),
        ({"template": "x" * 5000}, r"^params.template is 'x{79}: there is sync-health"),
        ({"template": ["sync-health"]}, r"params.template is \['sync-health'\]"),
        ({"template": "sync-health", "period_days": 0}, r"params.period_days is 0: give whole days from 1 to 366"),
        ({"template": "sync-health", "period_days": 367}, r"params.period_days is 367"),
        ({"template": "sync-health", "period_days": True}, r"params.period_days is True"),
        ({"template": "sync-health", "period_days": "7"}, r"params.period_days is '7'"),
        ({"template": "sync-health", "period_days": 7.5}, r"params.period_days is 7.5"),
        ({"template": "sync-health", "period_days": None}, r"params.period_days is None"),
        ([], r"params is \[\]: give an object"),
        ("sync-health", r"params is 'sync-health': give an object"),
    ],
)
def test_order_that_makes_no_sense_is_refused_by_field_value_and_remedy(params: object, message: str) -> None:
    with pytest.raises(errors.UsageError, match=message):
        render.check_params(params)


def test_id_of_a_report_is_made_of_its_run() -> None:
    assert render.output_id(UUID(int=1)) == render.output_id(UUID(int=1)) != render.output_id(UUID(int=2))
