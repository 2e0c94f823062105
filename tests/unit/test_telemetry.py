from worker_app import telemetry

FORBIDDEN = {"org", "org_id", "run", "run_id", "task_id", "pod", "batch"}


def test_table_names_every_number_with_its_meaning() -> None:
    found = telemetry.table()
    assert len(found) > 20
    assert all(name.startswith("dev_hops_") and meaning for name, _, meaning, _ in found)
    assert ("dev_hops_queue_ready", "gauge", "Messages ready in a queue", ("queue",)) in found


def test_no_label_holds_what_grows_without_bound() -> None:
    assert [name for name, _, _, labels in telemetry.table() if FORBIDDEN & set(labels)] == []
