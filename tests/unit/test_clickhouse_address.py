import pytest

from worker_app import clickhouse_address, errors, settings
from worker_app.store import clickhouse


def test_address_is_taken_apart_and_unquoted() -> None:
    found = clickhouse_address.parse("https://a%40b:s%2Fp%3A%25@ch.example:9443/metrics_1")
    assert (found.scheme, found.host, found.port, found.user, found.password, found.database) == (
        "https", "ch.example", 9443, "a@b", "s/p:%", "metrics_1",
    )  # fmt: skip


@pytest.mark.parametrize(("scheme", "port"), [("http", 8123), ("https", 8443)])
def test_port_and_user_have_the_defaults_of_clickhouse(scheme: str, port: int) -> None:
    found = clickhouse_address.parse(f"{scheme}://h/d")
    assert (found.port, found.user, found.password) == (port, "default", "")


def test_text_of_an_address_has_no_password() -> None:
    found = clickhouse_address.parse("http://u:canary@h/d")
    assert "canary" not in f"{found} {found!r}"
    assert str(found) == "http://h:8123/d"


@pytest.mark.parametrize("url", [
    "", "canary", "clickhouse://u:canary@h/d", "http://u:canary@h", "http://u:canary@h/", "http://u:canary@h/a/b",
    "http://u:canary@/d", "http://u:canary@h:99999/d", "http://u:canary@h:x/d", "http://u:canary@h/d?secure=1",
    "http://u:canary@h/d-1", "http://u:canary@h/d`;", "http://u:canary@[::1/d",
])  # fmt: skip
def test_wrong_address_is_told_with_the_shape_and_without_the_value(url: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT/DATABASE") as caught:
        clickhouse_address.parse(url)
    assert "canary" not in str(caught.value)


def test_settings_refuse_a_wrong_address() -> None:
    with pytest.raises(errors.SettingsError, match=r"CLICKHOUSE_URL is \*\*\*: it is http\[s\]://") as caught:
        settings.load({"CLICKHOUSE_URL": "tcp://u:canary@h/d", "DEV_HOPS_DIR": "/nowhere"})
    assert "canary" not in str(caught.value)


def test_missing_library_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clickhouse, "clickhouse_connect", None)
    with pytest.raises(errors.SettingsError, match=r"pip install 'dev-hops\[clickhouse\]'"):
        clickhouse.connect("http://h/d")
