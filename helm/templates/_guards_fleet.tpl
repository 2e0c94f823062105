{{/* As in _guards.tpl. Both take {root, name, fleet}. */}}
{{- define "dev-hops.faultsOfFleet" -}}
{{- $fleet := .fleet }}
{{- $field := printf "fleets.%s" .name }}
{{- $deployment := printf "%s-%s" (include "dev-hops.fullname" .root) .name }}
{{- if has .name (list "api" "autoscale" "beat" "flower" "migrate") }}
{{ $field }} has a name that another part of the release has: call it worker-{{ .name }}, for example
{{- end }}
{{- if gt (len $deployment) 46 }}
{{ $field }} would make a Deployment {{ $deployment }} of {{ len $deployment }} letters, and the alerts lose it above 46: give a shorter fullnameOverride, or the fleet a shorter name
{{- end }}
{{- if ge (int $fleet.drainSeconds) (int $fleet.terminationGracePeriodSeconds) }}
{{ $field }}.drainSeconds is {{ $fleet.drainSeconds }}, not below terminationGracePeriodSeconds, {{ $fleet.terminationGracePeriodSeconds }}: the kubelet would kill before the drain ends
{{- end }}
{{- if and $fleet.concurrency $fleet.autoscale }}
{{ $field }} has concurrency {{ $fleet.concurrency }} and autoscale {{ $fleet.autoscale }}: keep one; `null` takes the other away
{{- end }}
{{- if not (or $fleet.concurrency $fleet.autoscale) }}
{{ $field }} has neither concurrency nor autoscale: give its slots by one of them
{{- end }}
{{- with $fleet.autoscale }}
{{- $ends := splitList "," . }}
{{- if gt (last $ends | int) (first $ends | int) }}
{{ $field }}.autoscale is {{ . }}: it is `max,min` with max >= min, for example 20,2
{{- end }}
{{- end }}
{{- if ne (len $fleet.queues) (len (uniq $fleet.queues)) }}
{{ $field }}.queues names a queue twice: {{ join ", " $fleet.queues }}
{{- end }}
{{- if and $fleet.isOrdered (or (ne (int $fleet.slots) 1) (ne $fleet.autoscaling.kind "none") (ne (int $fleet.replicas) 1)) }}
{{ $field }} consumes ingest, whose records have an order: give it concurrency 1, replicas 1 and autoscaling.kind none
{{- end }}
{{- end }}

{{- define "dev-hops.faultsOfScaling" -}}
{{- $all := .root.Values }}
{{- $auto := .fleet.autoscaling }}
{{- $keda := .fleet.keda }}
{{- $field := printf "fleets.%s" .name }}
{{- $isKeda := eq $auto.kind "keda" }}
{{- $readsLists := and $isKeda (hasPrefix "redis" $keda.source) }}
{{- $asksApi := and $isKeda (eq $keda.source "api") }}
{{- if ne $auto.kind "none" }}
{{- if gt (int $auto.min) (int $auto.max) }}
{{ $field }}.autoscaling.min is {{ $auto.min }}, above autoscaling.max, {{ $auto.max }}: lower it
{{- end }}
{{- if not (or $all.api.enabled $readsLists) }}
{{ $field }}.autoscaling.kind is {{ $auto.kind }} and api.enabled is false: the autoscaler reads the API; enable it, or set kind to none
{{- end }}
{{- end }}
{{- if and $isKeda (or (lt (int $keda.fallbackReplicas) (int $auto.min)) (gt (int $keda.fallbackReplicas) (int $auto.max))) }}
{{ $field }}.keda.fallbackReplicas is {{ $keda.fallbackReplicas }}: it lies between autoscaling.min and max, {{ $auto.min }} and {{ $auto.max }}
{{- end }}
{{- if and $asksApi (not (and $all.secrets.existingSecret $all.secrets.keys.autoscaleToken)) }}
{{ $field }}.keda.source is api: KEDA needs secrets.existingSecret and secrets.keys.autoscaleToken
{{- end }}
{{- if and $isKeda (eq $keda.source "prometheus") (not $keda.prometheus.serverAddress) }}
{{ $field }}.keda.source is prometheus and keda.prometheus.serverAddress is empty: give http://HOST:9090
{{- end }}
{{- if and $readsLists (not $keda.redis.url) }}
{{ $field }}.keda.source is {{ $keda.source }} and keda.redis.url is empty: give redis://HOST:PORT/DATABASE, without a password
{{- end }}
{{- if and $readsLists (not $all.secrets.existingSecret) (include "dev-hops.redisAuth" .) }}
{{ $field }}.keda.redis names keys and secrets.existingSecret is empty: name the Secret
{{- end }}
{{- if and $isKeda (eq $keda.source "redis-sentinel") (not $keda.redis.sentinelMaster) }}
{{ $field }}.keda.source is redis-sentinel and keda.redis.sentinelMaster is empty: name the master
{{- end }}
{{- if and $readsLists (or $auto.oldestAgeSeconds $auto.perQueue) }}
{{ $field }}.keda.source is {{ $keda.source }}, which sees queue length alone: leave out autoscaling.oldestAgeSeconds and perQueue
{{- end }}
{{- if and $asksApi $auto.perQueue }}
{{ $field }}.autoscaling.perQueue is true and keda.source is api, which tells of fleets alone: use source prometheus, or kind hpa
{{- end }}
{{- end }}
