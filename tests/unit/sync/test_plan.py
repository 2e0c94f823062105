from uuid import UUID, uuid4

from worker_app import jobs
from worker_app.jobs import Run
from worker_app.records import Source
from worker_app.sync import plan

RUN = Run(
    id=UUID(int=1), org_id=UUID(int=2), kind="sync", provider="git", source_id=None, job_id=None, trigger="schedule"
)


def source(state: str = "active") -> Source:
    return Source(
        org_id=RUN.org_id, id=uuid4(), provider="git", host="h", external_name="https://h/a", ext_id="h/a", state=state
    )


def test_plan_has_one_batch_per_source_and_dataset_on_the_providers_queue() -> None:
    sources = [source(), source("empty"), source("inaccessible")]
    batches = plan.plan(RUN, sources, ["commits"])
    assert [(batch.source_id, batch.dataset, batch.queue) for batch in batches] == [
        (item.id, "commits", "sync.git") for item in sources
    ]
    assert batches[0].id == jobs.batch_id(RUN.id, sources[0].id, "commits")


def test_source_that_is_gone_is_not_asked_any_more() -> None:
    assert plan.plan(RUN, [source("gone")], ["commits"]) == []


def test_dataset_that_is_switched_off_gets_no_batch_and_the_others_of_its_source_do() -> None:
    one, other = source(), source()
    off = {(one.id, "work_items"), (other.id, "work_items"), (other.id, "commits")}
    batches = plan.plan(RUN, [one, other], ["commits", "work_items"], off)
    assert [(batch.source_id, batch.dataset) for batch in batches] == [(one.id, "commits")]
