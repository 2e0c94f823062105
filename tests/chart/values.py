"""Values that the chart is rendered with: the least that it needs, and a matrix in which every branch is taken both ways."""

from collections.abc import Mapping
from typing import Any

from tests.chart.helm import Values

DIGEST = "sha256:" + "0123456789abcdef" * 4
BASE: Values = {
    "image": {"repository": "registry.example/dev-hops", "tag": "1.2.3"},
    "secrets": {"existingSecret": "hops-secrets"},
}
REDIS = "rediss://redis.example:6390/3"


def over(*layers: Values) -> dict[str, Any]:
    """The layers on top of BASE, as helm merges them: maps key by key, everything else whole."""
    laid: dict[str, Any] = {}
    for layer in (BASE, *layers):
        laid = _laid(laid, layer)
    return laid


def _laid(under: Values, top: Values) -> dict[str, Any]:
    laid = dict(under)
    for key, value in top.items():
        below = laid.get(key)
        laid[key] = _laid(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return laid


def fleet(name: str, **given: Any) -> dict[str, Any]:
    """Values of one fleet."""
    return {"fleets": {name: given}}


def every_fleet(**given: Any) -> dict[str, Any]:
    """Values that every fleet takes where it has none of its own."""
    return {"fleetDefaults": given}


FOURTH_FLEET = {
    "fleets": {
        "worker": {
            "queues": [
                "default",
                "celery",
                "scheduler",
                "sync",
                "sync.github",
                "sync.gitlab",
                "sync.jira",
                "sync.linear",
                "sync.git",
                "reports",
            ]
        },
        "worker-webhooks": {"queues": ["webhooks"], "concurrency": 10},
    }
}
NO_AUTOSCALER = over(every_fleet(autoscaling={"kind": "none"}), {"api": {"autoscaling": {"kind": "none"}}})
KEDA = over(every_fleet(autoscaling={"kind": "keda"}))
KEDA_PROMETHEUS = over(
    every_fleet(
        autoscaling={"kind": "keda", "oldestAgeSeconds": 60},
        keda={"source": "prometheus", "prometheus": {"serverAddress": "http://prometheus.monitoring:9090"}},
    )
)
KEDA_REDIS = over(
    every_fleet(
        autoscaling={"kind": "keda"},
        keda={
            "source": "redis",
            "redis": {"url": REDIS, "usernameKey": "REDIS_USER", "passwordKey": "REDIS_PASSWORD", "caKey": "REDIS_CA"},
        },
    )
)
KEDA_REDIS_PLAIN = over(
    every_fleet(autoscaling={"kind": "keda"}, keda={"source": "redis", "redis": {"url": "redis://redis.example:6379"}})
)
KEDA_SENTINEL = over(
    every_fleet(
        autoscaling={"kind": "keda"},
        keda={
            "source": "redis-sentinel",
            "redis": {
                "url": "redis://s1.example:26379/2,redis://s2.example:26379/2",
                "sentinelMaster": "hops",
                "sentinelPasswordKey": "SENTINEL_PASSWORD",
            },
        },
    )
)
WATCHED = {
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "runbookBaseUrl": "https://docs.example/hops",
    },
    "dashboards": {"enabled": True, "annotations": {"folder": "hops"}},
}
CLOSED = {
    "networkPolicy": {
        "enabled": True,
        "ingress": {
            "flowerNamespace": "office",
            "extraApiFrom": [{"ipBlock": {"cidr": "10.1.2.0/24"}}],
        },
        "egress": {
            "dnsPorts": [53, 5353],
            "otlpPorts": [4318],
            "extra": [{"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}], "ports": [{"port": 8080, "protocol": "TCP"}]}],
        },
    }
}
CLOSED_TO_ALL = {
    "networkPolicy": {
        "enabled": True,
        "ingress": {"monitoringNamespace": "", "ingressNamespace": "", "kedaNamespace": "", "flowerNamespace": ""},
        "egress": {"providerPorts": [], "blockPrivateRanges": False},
    },
    "fleetDefaults": {"autoscaling": {"kind": "none"}},  # nobody may come in who would tell an autoscaler
}
INGRESS = {
    "api": {
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"a.example/b": "c"},
            "hosts": [{"host": "hops.example", "paths": ["/status", "/runs"]}, {"host": "all.example"}],
            "tls": [{"secretName": "hops-tls", "hosts": ["hops.example"]}],
        }
    }
}
FLOWER = {"flower": {"enabled": True}}
DECORATED = {
    "commonLabels": {"team": "hops"},
    "deploymentAnnotations": {"reloader.stakater.com/auto": "true"},
    "podAnnotations": {"pod.example/a": "b"},
    "podLabels": {"pod.example/l": "m"},
    "extraEnv": [{"name": "LOG_FORMAT", "value": "text"}],
    "extraEnvFrom": [{"configMapRef": {"name": "more"}}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "company-ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/company"}],
    "priorityClassName": "batch",
    "nodeSelector": {"pool": "batch"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [],
    "config": {"LOG_LEVEL": "DEBUG"},
    "image": {"pullSecrets": [{"name": "registry"}]},
    "imagePullSecrets": [{"name": "mirror"}],
    "serviceAccount": {"annotations": {"cloud.example/role": "hops"}},
    "api": {"service": {"annotations": {"a.example/s": "t"}}},
    "flower": {"service": {"annotations": {"a.example/s": "t"}}},
}

MATRIX: dict[str, Values] = {
    "default": over(),
    "digest": over({"image": {"digest": DIGEST}}),
    "no autoscaler": NO_AUTOSCALER,
    "keda by the api": KEDA,
    "keda by prometheus": KEDA_PROMETHEUS,
    "keda by redis": KEDA_REDIS,
    "keda by redis without tls": KEDA_REDIS_PLAIN,
    "keda by sentinels": KEDA_SENTINEL,
    "hpa with every metric": over(
        every_fleet(autoscaling={"oldestAgeSeconds": 60, "perQueue": True, "workPerPod": 10, "readyPerPod": 5})
    ),
    "slots by autoscale": over(fleet("worker", concurrency=None, autoscale="20,2")),
    "prefork": over(fleet("worker-heavy", pool="prefork", concurrency=2)),
    "flower": over(FLOWER),
    "migrations as a job": over({"migrations": {"mode": "job", "databaseUrlKey": "OWNER_URL"}}, FLOWER),
    "migrations by nobody": over({"migrations": {"mode": "none"}}),
    "no api": over(NO_AUTOSCALER, {"api": {"enabled": False}}),
    "fourth fleet": over(FOURTH_FLEET),
    "one pod of each": over(
        every_fleet(autoscaling={"min": 1}, keda={"fallbackReplicas": 1}), {"api": {"autoscaling": {"min": 1}}}
    ),
    "no budgets": over(every_fleet(pdb=False, safeToEvict=False), {"api": {"pdb": False}}),
    "stores by other means": over(
        {"secrets": {"existingSecret": ""}, "extraEnvFrom": [{"secretRef": {"name": "own"}}]}
    ),
    "no service account": over({"serviceAccount": {"create": False}}),
    "own service account": over({"serviceAccount": {"create": True, "name": "own"}}),
    "platform chooses the user": over({"runAsUser": None}),
    "watched": over(WATCHED),
    "network closed": over(CLOSED, FLOWER),
    "network closed to all": over(CLOSED_TO_ALL),
    "ingress": over(INGRESS),
    "everything": over(WATCHED, CLOSED, INGRESS, FLOWER, DECORATED),
    "named by hand": over({"fullnameOverride": "a" * 30, "nameOverride": "other"}),
}
