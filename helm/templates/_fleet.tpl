{{/* The queues that the program knows: those of worker_app/queues.py. */}}
{{- define "dev-hops.queues" -}}
default celery scheduler sync sync.github sync.gitlab sync.jira sync.linear sync.git webhooks reports ingest metrics backfill
{{- end }}

{{/* All fleets as YAML, each over fleetDefaults, with what follows from it: slots, least (pods), isOrdered. */}}
{{- define "dev-hops.fleets" -}}
{{- $fleets := dict }}
{{- range $name, $given := .Values.fleets }}
  {{- $fleet := include "dev-hops.overlay" (dict "under" $.Values.fleetDefaults "over" $given) | fromYaml }}
  {{- $most := splitList "," ($fleet.autoscale | default "") | first }}
  {{- $_ := set $fleet "slots" ($most | default $fleet.concurrency | int) }}
  {{- $_ := set $fleet "least" (eq $fleet.autoscaling.kind "none" | ternary $fleet.replicas $fleet.autoscaling.min | int) }}
  {{- $_ := set $fleet "isOrdered" (has "ingest" $fleet.queues) }}
  {{- $_ := set $fleets $name $fleet }}
{{- end }}
{{- toYaml $fleets }}
{{- end }}

{{/* Work that one pod of a fleet is there for: 80 % of its slots, rounded up, so that a busy fleet is not yet a full one. */}}
{{- define "dev-hops.workPerPod" -}}
{{- .autoscaling.workPerPod | default (div (add (mul 4 .slots) 4) 5) | int }}
{{- end }}

{{- define "dev-hops.readyPerPod" -}}
{{- .autoscaling.readyPerPod | default (mul 2 .slots) | int }}
{{- end }}

{{/* A broker's address in parts: {address, isTLS, database}. Takes keda, whose redis.url holds no password. */}}
{{- define "dev-hops.redisParts" -}}
{{- $port := eq .source "redis" | ternary "6379" "26379" }}
{{- $urls := splitList "," .redis.url }}
{{- $hosts := list }}
{{- range $urls }}
{{- $host := regexReplaceAll "^rediss?://" . "" | splitList "/" | first }}
{{- $hosts = append $hosts (regexMatch ":[0-9]+$" $host | ternary $host (printf "%s:%s" $host $port)) }}
{{- end }}
address: {{ join "," $hosts | quote }}
isTLS: {{ first $urls | hasPrefix "rediss://" }}
database: {{ first $urls | regexFind "/[0-9]+$" | trimPrefix "/" | default "0" | quote }}
{{- end }}
