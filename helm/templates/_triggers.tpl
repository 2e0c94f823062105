{{/* Triggers of KEDA that ask for work, by the API or by Prometheus. Takes {root, name, fleet}. */}}
{{- define "dev-hops.workTriggers" -}}
{{- $auto := .fleet.autoscaling }}
{{- if eq .fleet.keda.source "api" }}
{{- $api := printf "http://%s-api.%s:%v" (include "dev-hops.fullname" .root) .root.Release.Namespace .root.Values.api.service.port }}
{{- $url := printf "%s/autoscale/%s" $api .name }}
{{- $common := dict "url" $url "format" "json" "authMode" "bearer" "activationTargetValue" "0" }}
{{- $auth := dict "name" (printf "%s-autoscale" (include "dev-hops.fullname" .root)) }}
- type: metrics-api
  metricType: AverageValue
  metadata: {{ merge (dict "valueLocation" "work" "targetValue" (include "dev-hops.workPerPod" .fleet)) $common | toJson }}
  authenticationRef: {{ toJson $auth }}
{{- with $auto.oldestAgeSeconds }}
- type: metrics-api
  metricType: Value
  metadata: {{ merge (dict "valueLocation" "oldest_age_seconds" "targetValue" (int64 . | toString)) $common | toJson }}
  authenticationRef: {{ toJson $auth }}
{{- end }}
{{- else }}
{{- $where := printf "namespace=%q," .root.Release.Namespace }}
{{- $common := dict "serverAddress" .fleet.keda.prometheus.serverAddress "activationThreshold" "0" "ignoreNullValues" "false" }}
{{- $query := printf "max by (fleet) (dev_hops_fleet_work{%sfleet=%q})" $where .name }}
- type: prometheus
  metricType: AverageValue
  metadata: {{ merge (dict "query" $query "threshold" (include "dev-hops.workPerPod" .fleet)) $common | toJson }}
{{- with $auto.oldestAgeSeconds }}
{{- $query := printf "max by (fleet) (dev_hops_fleet_oldest_age_seconds{%sfleet=%q})" $where $.name }}
- type: prometheus
  metricType: Value
  metadata: {{ merge (dict "query" $query "threshold" (int64 . | toString)) $common | toJson }}
{{- end }}
{{- range $auto.perQueue | ternary .fleet.queues list }}
{{- $query := printf "max by (queue) (dev_hops_queue_ready{%squeue=%q})" $where . }}
- type: prometheus
  metricType: AverageValue
  metadata: {{ merge (dict "query" $query "threshold" (include "dev-hops.readyPerPod" $.fleet)) $common | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/* Triggers of KEDA that see queue length alone: one for each queue, summed by the formula. Takes {root, fleet}. */}}
{{- define "dev-hops.redisTriggers" -}}
{{- $redis := .fleet.keda.redis }}
{{- $parts := include "dev-hops.redisParts" .fleet.keda | fromYaml }}
{{- range $number, $queue := .fleet.queues }}
- type: {{ $.fleet.keda.source }}
  name: q{{ $number }}
  metadata:
    {{- if eq $.fleet.keda.source "redis" }}
    address: {{ $parts.address | quote }}
    {{- else }}
    addresses: {{ $parts.address | quote }}
    sentinelMaster: {{ $redis.sentinelMaster | quote }}
    {{- end }}
    listName: {{ $queue | quote }}
    listLength: {{ include "dev-hops.readyPerPod" $.fleet | quote }}
    databaseIndex: {{ $parts.database | quote }}
    enableTLS: {{ $parts.isTLS | quote }}
  {{- with include "dev-hops.redisAuth" $ }}
  authenticationRef: {name: {{ include "dev-hops.fullname" $.root }}-{{ $.name }}}
  {{- end }}
{{- end }}
{{- end }}

{{/* What KEDA takes from the Secret to open a fleet's broker. Empty where it needs nothing. */}}
{{- define "dev-hops.redisAuth" -}}
{{- $redis := .fleet.keda.redis }}
{{- $user := dict "username" $redis.usernameKey "password" $redis.passwordKey "sentinelPassword" $redis.sentinelPasswordKey }}
{{- $parameters := set $user "ca" $redis.caKey }}
{{- range $parameter, $key := $parameters }}
{{- if $key }}
- {parameter: {{ $parameter }}, name: {{ $.root.Values.secrets.existingSecret }}, key: {{ $key }}}
{{- end }}
{{- end }}
{{- end }}
