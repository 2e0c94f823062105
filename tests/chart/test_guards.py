"""Values that contradict one another stop the installation with a line that names them and the remedy."""

import pytest

from tests.chart import helm
from tests.chart.values import (
    BASE,
    CLOSED,
    FLOWER,
    INGRESS,
    KEDA,
    KEDA_PROMETHEUS,
    KEDA_REDIS,
    KEDA_SENTINEL,
    MATRIX,
    WATCHED,
    every_fleet,
    fleet,
    over,
)

NO_SECRET = {"secrets": {"existingSecret": ""}, "extraEnvFrom": [{"secretRef": {"name": "own"}}]}
UNWATCHED = {"networkPolicy": {"enabled": True, "ingress": {"monitoringNamespace": ""}}}
CLONES = {"name": "clones", "emptyDir": {}}
WEBHOOKS = {"queues": ["webhooks"], "concurrency": 1}
WITHOUT_API = over({"api": {"enabled": False}})

GUARDS: dict[str, tuple[helm.Values, tuple[str, ...]]] = {
    "drain as long as grace": (
        over(fleet("worker", drainSeconds=300)),
        ("fleets.worker.drainSeconds is 300", "not below terminationGracePeriodSeconds, 300"),
    ),
    "drain longer than grace": (
        over(fleet("worker-heavy", drainSeconds=599, terminationGracePeriodSeconds=500)),
        ("fleets.worker-heavy.drainSeconds is 599", "500"),
    ),
    "both kinds of slots": (
        over(fleet("worker", autoscale="20,2")),
        ("fleets.worker has concurrency 20 and autoscale 20,2", "keep one"),
    ),
    "neither kind of slots": (
        over(fleet("worker", concurrency=None)),
        ("fleets.worker has neither concurrency nor autoscale", "give"),
    ),
    "slots turned round": (
        over(fleet("worker", concurrency=None, autoscale="2,20")),
        ("fleets.worker.autoscale is 2,20", "max,min"),
    ),
    "a queue that nobody consumes": (
        over(fleet("worker-heavy", queues=["metrics"])),
        ("no fleet consumes the queue backfill", "give it to one"),
    ),
    "a fleet taken away with its queues": (
        over({"fleets": {"worker-heavy": None}}),
        ("metrics", "backfill", "no fleet consumes"),
    ),
    "ingest in two fleets": (
        over(
            {
                "fleets": {
                    "second": {"queues": ["ingest"], "concurrency": 1, "replicas": 1, "autoscaling": {"kind": "none"}}
                }
            }
        ),
        ("ingest is in two fleets", "give it to one"),
    ),
    "a queue that does not exist": (
        over({"fleets": {"more": {"queues": ["webhoks"], "concurrency": 1}}}),
        ("there is no queue webhoks; there are default, celery",),
    ),
    "a queue twice in a fleet": (
        over(fleet("worker-heavy", queues=["metrics", "backfill", "metrics"])),
        ("fleets.worker-heavy.queues names a queue twice",),
    ),
    "ingest under another name, scaled": (
        over({"fleets": {"worker-ingest": None, "ordered": {"queues": ["ingest"], "concurrency": 1, "replicas": 1}}}),
        ("fleets.ordered consumes ingest", "autoscaling.kind none"),
    ),
    "ingest under another name, with slots": (
        over(
            {
                "fleets": {
                    "worker-ingest": None,
                    "ordered": {"queues": ["ingest"], "concurrency": 2, "replicas": 1, "autoscaling": {"kind": "none"}},
                }
            }
        ),
        ("fleets.ordered consumes ingest", "concurrency 1"),
    ),
    "ingest under another name, with pods": (
        over(
            {
                "fleets": {
                    "worker-ingest": None,
                    "ordered": {"queues": ["ingest"], "concurrency": 1, "autoscaling": {"kind": "none"}},
                }
            }
        ),
        ("fleets.ordered consumes ingest", "replicas 1"),
    ),
    "no tag and no digest": (over({"image": {"tag": ""}}), ("image.tag and image.digest are both empty", "give one")),
    "no image": (over({"image": {"repository": ""}}), ("image.repository is empty", "name the image")),
    "no stores": (
        over({"secrets": {"existingSecret": ""}}),
        ("nothing gives DATABASE_URL", "nothing gives REDIS_URL", "secrets.existingSecret"),
    ),
    "a closed network without stores": (
        over(CLOSED, {"networkPolicy": {"egress": {"stores": []}}}),
        ("networkPolicy.egress.stores is empty", "list their ports"),
    ),
    "the api away while keda asks it": (
        over(WITHOUT_API, KEDA),
        ("api.enabled is false", "fleets.worker.autoscaling.kind is keda"),
    ),
    "the api away while the hpa needs its metrics": (
        WITHOUT_API,
        ("api.enabled is false", "fleets.worker.autoscaling.kind is hpa"),
    ),
    "flower without its credentials": (
        over(FLOWER, {"secrets": {"keys": {"flowerAuth": ""}}}),
        ("nothing gives FLOWER_BASIC_AUTH", "secrets.keys.flowerAuth"),
    ),
    "stores that an entry of another name gives": (
        over({"secrets": {"existingSecret": ""}, "extraEnv": [{"name": "LOG_LEVEL", "value": "DEBUG"}]}),
        ("nothing gives DATABASE_URL", "nothing gives REDIS_URL"),
    ),
    "one store of two": (
        over({"secrets": {"existingSecret": ""}, "extraEnv": [{"name": "REDIS_URL_FILE", "value": "/etc/s/redis"}]}),
        ("nothing gives DATABASE_URL", "by extraEnv"),
    ),
    "a store whose key is empty": (
        over({"secrets": {"keys": {"databaseUrl": ""}}}),
        ("nothing gives DATABASE_URL", "secrets.keys.databaseUrl"),
    ),
    "a store that one fleet alone is given": (
        over(
            {"secrets": {"keys": {"redisUrl": ""}}},
            fleet("worker", extraEnv=[{"name": "REDIS_URL_FILE", "value": "/a"}]),
        ),
        ("nothing gives REDIS_URL",),
    ),
    "flower with an entry of another name": (
        over(FLOWER, {"secrets": {"keys": {"flowerAuth": ""}}, "extraEnv": [{"name": "LOG_LEVEL", "value": "DEBUG"}]}),
        ("nothing gives FLOWER_BASIC_AUTH",),
    ),
    "an owner's key of no Secret": (
        over(NO_SECRET, {"migrations": {"databaseUrlKey": "OWNER"}}),
        ("migrations.databaseUrlKey is OWNER and secrets.existingSecret is empty", "migrations.extraEnv"),
    ),
    "a secret of the migration as a value": (
        over({"migrations": {"extraEnv": [{"name": "DATABASE_URL", "value": "postgresql://a"}]}}),
        ("extraEnv gives DATABASE_URL as a value", "valueFrom"),
    ),
    "flower without events": (
        over(FLOWER, {"config": {"WORKER_SEND_TASK_EVENTS": False}}),
        ("config.WORKER_SEND_TASK_EVENTS is false", "flower.enabled is true"),
    ),
    "least above most": (
        over(fleet("worker", autoscaling={"min": 11})),
        ("fleets.worker.autoscaling.min is 11, above autoscaling.max, 10",),
    ),
    "least above most of the api": (
        over({"api": {"autoscaling": {"min": 7}}}),
        ("api.autoscaling.min is 7, above api.autoscaling.max, 6",),
    ),
    "an api that never ends": (
        over({"api": {"preStopSeconds": 30}}),
        ("api.preStopSeconds is 30, not below api.terminationGracePeriodSeconds, 30",),
    ),
    "an ingress to nowhere": (
        over({"api": {"ingress": {"enabled": True}}}),
        ("api.ingress.enabled is true and api.ingress.hosts is empty",),
    ),
    "an ingress before a closed door": (
        over(CLOSED, INGRESS, {"networkPolicy": {"ingress": {"ingressNamespace": "", "extraApiFrom": []}}}),
        ("networkPolicy.ingress.ingressNamespace is empty", "name its namespace"),
    ),
    "numbers of the hpa behind a closed door": (
        over(UNWATCHED),
        ("fleets.worker.autoscaling.kind is hpa and networkPolicy.ingress.monitoringNamespace is empty",),
    ),
    "numbers of keda's prometheus behind a closed door": (
        over(KEDA_PROMETHEUS, UNWATCHED),
        ("fleets.worker.autoscaling.kind is keda and networkPolicy.ingress.monitoringNamespace is empty",),
    ),
    "a monitor before a closed door": (
        over(WATCHED, UNWATCHED, MATRIX["no autoscaler"]),
        ("podMonitor.enabled is true and networkPolicy.ingress.monitoringNamespace is empty",),
    ),
    "an answer that may take longer than the next question": (
        over(WATCHED, {"podMonitor": {"interval": "5s"}}),
        ("podMonitor.scrapeTimeout is 10s, above podMonitor.interval, 5s", "lower it"),
    ),
    "the same in other units": (
        over(WATCHED, {"podMonitor": {"interval": "1m", "scrapeTimeout": "60001ms"}}),
        ("podMonitor.scrapeTimeout is 60001ms, above podMonitor.interval, 1m",),
    ),
    "a fleet whose Deployment the alerts would lose": (
        over({"fullnameOverride": "a" * 30}, {"fleets": {"sixteen-letters1": WEBHOOKS}}),
        ("fleets.sixteen-letters1 would make a Deployment", "of 47 letters", "fullnameOverride"),
    ),
    **{
        f"a fleet called {name}": (
            over({"fleets": {name: WEBHOOKS}}),
            (f"fleets.{name} has a name that another part of the release has", f"worker-{name}"),
        )
        for name in ("api", "autoscale", "beat", "flower", "migrate")
    },
    **{
        f"a volume at {path}": (
            over({"extraVolumes": [CLONES], "extraVolumeMounts": [{"name": "clones", "mountPath": path}]}),
            (f"extraVolumeMounts mounts at {path}, which is not yours", "folder of its own"),
        )
        for path in ("/tmp", "/tmp/", "/run/worker", "/run//worker", "/")
    },
    "two volumes at one path": (
        over(
            {
                "extraVolumes": [CLONES],
                "extraVolumeMounts": [{"name": "clones", "mountPath": path} for path in ("/a", "/a/")],
            }
        ),
        ("extraVolumeMounts mounts at one path twice: /a, /a",),
    ),
    "a volume twice": (
        over({"extraVolumes": [CLONES, CLONES]}),
        ("extraVolumes names a volume twice: clones, clones",),
    ),
    **{
        f"clones where nothing is written: {path}": (
            over({"config": {"GIT_MIRRORS_DIR": path}}),
            (f"GIT_MIRRORS_DIR is {path}, where nothing can be written", "readOnly: false"),
        )
        for path in ("/var/tmp/dev-hops", "/tmpfs", "/tmp/../var")
    },
    "clones in a volume that is read only": (
        over(
            {"config": {"GIT_MIRRORS_DIR": "/clones/a"}},
            {"extraVolumes": [CLONES], "extraVolumeMounts": [{"name": "clones", "mountPath": "/clones"}]},
        ),
        ("GIT_MIRRORS_DIR is /clones/a, where nothing can be written",),
    ),
    "a fleet's own clones where nothing is written": (
        over(fleet("worker", extraEnv=[{"name": "GIT_MIRRORS_DIR", "value": "/clones"}])),
        ("GIT_MIRRORS_DIR is /clones, where nothing can be written",),
    ),
    "a fallback below the least": (
        over(KEDA, fleet("worker", keda={"fallbackReplicas": 1})),
        ("fleets.worker.keda.fallbackReplicas is 1", "2 and 10"),
    ),
    "a fallback above the most": (
        over(KEDA, fleet("worker", keda={"fallbackReplicas": 11})),
        ("fleets.worker.keda.fallbackReplicas is 11", "2 and 10"),
    ),
    "keda without a token": (
        over(KEDA, {"secrets": {"keys": {"autoscaleToken": ""}}}),
        ("fleets.worker.keda.source is api", "secrets.keys.autoscaleToken"),
    ),
    "keda without a secret": (over(KEDA, NO_SECRET), ("fleets.worker.keda.source is api", "secrets.existingSecret")),
    "keda before a closed door": (
        over(KEDA, CLOSED, {"networkPolicy": {"ingress": {"kedaNamespace": ""}}}),
        ("networkPolicy.ingress.kedaNamespace is empty", "name its namespace"),
    ),
    "keda without an address of prometheus": (
        over(KEDA_PROMETHEUS, every_fleet(keda={"prometheus": {"serverAddress": ""}})),
        ("keda.prometheus.serverAddress is empty", "give http"),
    ),
    "keda without an address of redis": (
        over(KEDA_REDIS, every_fleet(keda={"redis": {"url": ""}})),
        ("fleets.worker.keda.source is redis and keda.redis.url is empty", "redis://HOST:PORT"),
    ),
    "keda without an address of sentinels": (
        over(KEDA_SENTINEL, every_fleet(keda={"redis": {"url": ""}})),
        ("keda.source is redis-sentinel and keda.redis.url is empty",),
    ),
    "keys of redis without a secret": (
        over(KEDA_REDIS, NO_SECRET),
        ("fleets.worker.keda.redis names keys and secrets.existingSecret is empty", "name the Secret"),
    ),
    "sentinels without a master": (
        over(KEDA_SENTINEL, every_fleet(keda={"redis": {"sentinelMaster": ""}})),
        ("keda.redis.sentinelMaster is empty", "name the master"),
    ),
    "the age of the oldest from redis": (
        over(KEDA_REDIS, every_fleet(autoscaling={"oldestAgeSeconds": 60})),
        ("keda.source is redis", "sees queue length alone", "oldestAgeSeconds"),
    ),
    "a metric for each queue from redis": (
        over(KEDA_REDIS, every_fleet(autoscaling={"perQueue": True})),
        ("keda.source is redis", "perQueue"),
    ),
    "a metric for each queue from the api": (
        over(KEDA, every_fleet(autoscaling={"perQueue": True})),
        ("autoscaling.perQueue is true and keda.source is api", "prometheus"),
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_a_contradiction_is_refused_with_its_values_and_the_remedy(name: str) -> None:
    values, words = GUARDS[name]

    said = helm.refusal(values)

    assert "These values contradict one another" in said
    for word in words:
        assert word in said


ALLOWED: dict[str, helm.Values] = {
    "drain one second below grace": over(fleet("worker", drainSeconds=299)),
    "most slots as many as least": over(fleet("worker", concurrency=None, autoscale="4,4")),
    "least as many as most": over(fleet("worker", autoscaling={"min": 10})),
    "a fallback at the least": over(KEDA, fleet("worker", keda={"fallbackReplicas": 2})),
    "a fallback at the most": over(KEDA, fleet("worker", keda={"fallbackReplicas": 10})),
    "no api, and keda by lists": over(KEDA_REDIS, {"api": {"enabled": False, "autoscaling": {"kind": "none"}}}),
    "no api, and nobody who asks": MATRIX["no api"],
    "flower with its credentials from elsewhere": over(FLOWER, NO_SECRET),
    "ingest under another name": over(
        {
            "fleets": {
                "worker-ingest": None,
                "ordered": {"queues": ["ingest"], "concurrency": 1, "replicas": 1, "autoscaling": {"kind": "none"}},
            }
        }
    ),
    "a digest and no tag": over({"image": {"tag": "", "digest": MATRIX["digest"]["image"]["digest"]}}),
    "a closed door, and keda that asks redis": over(
        KEDA_REDIS, CLOSED, {"networkPolicy": {"ingress": {"kedaNamespace": ""}}}
    ),
    "stores by their names": over(
        {"secrets": {"existingSecret": ""}},
        {"extraEnv": [{"name": f"{name}_FILE", "value": "/etc/s"} for name in ("DATABASE_URL", "REDIS_URL")]},
    ),
    "an ingress whose controller is a peer": over(
        CLOSED, INGRESS, {"networkPolicy": {"ingress": {"ingressNamespace": ""}}}
    ),
    "prometheus as a peer": over(CLOSED, UNWATCHED),
    "keda by the api, and nobody who watches": over(KEDA, UNWATCHED),
    "an answer that may take as long as the interval": over(
        WATCHED, {"podMonitor": {"interval": "1m", "scrapeTimeout": "60s"}}
    ),
    "a Deployment that the alerts just find": over(
        {"fullnameOverride": "a" * 29, "fleets": {"sixteen-letters1": WEBHOOKS}}
    ),
    "clones in a volume of their own": over(
        {"config": {"GIT_MIRRORS_DIR": "/clones"}},
        {
            "extraVolumes": [CLONES],
            "extraVolumeMounts": [{"name": "clones", "mountPath": "/clones/", "readOnly": False}],
        },
    ),
    "an answer that nobody waits for": over({"podMonitor": {"interval": "5s"}}),
    "clones below tmp": over({"config": {"GIT_MIRRORS_DIR": "/tmp/a/b"}}),
    "an owner's key, and nobody who migrates": over(
        NO_SECRET, {"migrations": {"mode": "none", "databaseUrlKey": "OWNER"}}
    ),
    "wrong values of what is off": over(
        {"api": {"enabled": False, "autoscaling": {"kind": "none"}}}, MATRIX["no autoscaler"]
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_just_right_is_taken(name: str) -> None:
    assert helm.render(ALLOWED[name]) != []


def test_all_contradictions_come_in_one_message() -> None:
    said = helm.refusal(
        over({"image": {"tag": ""}}, fleet("worker", drainSeconds=500), fleet("worker-heavy", queues=["metrics"]))
    )

    assert "image.tag" in said
    assert "fleets.worker.drainSeconds" in said
    assert "backfill" in said


def test_the_values_as_they_come_name_what_a_release_needs() -> None:
    said = helm.refusal({})

    for field in ("image.repository", "image.tag", "secrets.existingSecret"):
        assert field in said


def test_an_image_and_a_secret_are_all_that_a_release_needs() -> None:
    assert BASE.keys() == {"image", "secrets"}
    assert helm.render(BASE) != []


def test_a_list_that_carries_a_prefix_of_keys_cannot_be_asked_for() -> None:
    """A key prefix would give each list another name than that of its queue; no value sets one."""
    for config in ({"REDIS_KEY_PREFIX": "a"}, {"CELERY_KEY_PREFIX": "a"}):
        assert "additional properties" in helm.refusal(over(KEDA_REDIS, {"config": config}))
    assert "/fleetDefaults/keda/redis" in helm.refusal(
        over(KEDA_REDIS, every_fleet(keda={"redis": {"keyPrefix": "a"}}))
    )
