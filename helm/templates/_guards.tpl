{{/* Each guard gives a line for each fault: the value, what is wrong with it, the remedy. */}}
{{- define "dev-hops.faultsOfRelease" -}}
{{- $all := .Values }}
{{- $given := concat $all.extraEnv $all.extraEnvFrom }}
{{- if not $all.image.repository }}
image.repository is empty: name the image, for example registry.example/dev-hops
{{- end }}
{{- if not (or $all.image.tag $all.image.digest) }}
image.tag and image.digest are both empty: give one of them
{{- end }}
{{- if not (or $all.secrets.existingSecret $given) }}
secrets.existingSecret is empty: name the Secret that holds DATABASE_URL and REDIS_URL, or bring them by extraEnv or extraEnvFrom
{{- end }}
{{- if and $all.flower.enabled (not (or (and $all.secrets.existingSecret $all.secrets.keys.flowerAuth) $given)) }}
flower.enabled is true and nothing gives FLOWER_BASIC_AUTH: name its Secret in secrets.existingSecret and its key in secrets.keys.flowerAuth
{{- end }}
{{- if and $all.flower.enabled (eq (toString $all.config.WORKER_SEND_TASK_EVENTS) "false") }}
config.WORKER_SEND_TASK_EVENTS is false and flower.enabled is true: Flower would show no tasks; take one of them back
{{- end }}
{{- if gt (int $all.api.autoscaling.min) (int $all.api.autoscaling.max) }}
api.autoscaling.min is {{ $all.api.autoscaling.min }}, above api.autoscaling.max, {{ $all.api.autoscaling.max }}: lower it
{{- end }}
{{- if ge (int $all.api.preStopSeconds) (int $all.api.terminationGracePeriodSeconds) }}
api.preStopSeconds is {{ $all.api.preStopSeconds }}, not below api.terminationGracePeriodSeconds, {{ $all.api.terminationGracePeriodSeconds }}: no time is left to end
{{- end }}
{{- if and $all.api.ingress.enabled (not $all.api.ingress.hosts) }}
api.ingress.enabled is true and api.ingress.hosts is empty: name a host
{{- end }}
{{- if and $all.networkPolicy.enabled (not $all.networkPolicy.egress.stores) }}
networkPolicy.enabled is true and networkPolicy.egress.stores is empty: no pod would reach a store; list their ports
{{- end }}
{{- range concat $all.extraEnv (include "dev-hops.envOfFleets" . | fromYamlArray) }}
{{- if and .value (has .name (include "dev-hops.secretNames" $ | fromYaml | values)) }}
extraEnv gives {{ .name }} as a value, which everybody can read: use valueFrom, or {{ .name }}_FILE and a mounted Secret
{{- end }}
{{- end }}
{{- end }}

{{- define "dev-hops.envOfFleets" -}}
{{- $found := list }}
{{- range .Values.fleets }}{{ $found = concat $found (.extraEnv | default list) }}{{ end }}
{{- toYaml (concat $found .Values.fleetDefaults.extraEnv) }}
{{- end }}

{{- define "dev-hops.faultsOfQueues" -}}
{{- $known := include "dev-hops.queues" . | trim | splitList " " }}
{{- $consumed := list }}
{{- range .Values.fleets }}{{ $consumed = concat $consumed (.queues | default list) }}{{ end }}
{{- range $queue := $known }}
{{- if not (has $queue $consumed) }}
fleets: no fleet consumes the queue {{ $queue }}: give it to one
{{- end }}
{{- end }}
{{- if gt (without $consumed "ingest" | len | sub (len $consumed) | int) 1 }}
fleets: ingest is in two fleets: its records have an order, so give it to one
{{- end }}
{{- range uniq $consumed }}
{{- if not (has . $known) }}
fleets: there is no queue {{ . }}; there are {{ join ", " $known }}
{{- end }}
{{- end }}
{{- end }}
