{{/* Each guard gives a line for each fault: the value, what is wrong with it, the remedy. */}}
{{- define "dev-hops.faultsOfRelease" -}}
{{- $all := .Values }}
{{- $fullname := include "dev-hops.fullname" . }}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $fullname) }}
the release {{ .Release.Name }} would name its objects {{ $fullname }}-…, and Kubernetes wants small letters, digits and hyphens after a letter: give fullnameOverride
{{- end }}
{{- if not $all.image.repository }}
image.repository is empty: name the image, for example registry.example/dev-hops
{{- end }}
{{- if not (or $all.image.tag $all.image.digest) }}
image.tag and image.digest are both empty: give one of them
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
{{- $monitor := $all.podMonitor }}
{{- if and $monitor.enabled (gt (include "dev-hops.milliseconds" $monitor.scrapeTimeout | int) (include "dev-hops.milliseconds" $monitor.interval | int)) }}
podMonitor.scrapeTimeout is {{ $monitor.scrapeTimeout }}, above podMonitor.interval, {{ $monitor.interval }}: the operator refuses that; lower it
{{- end }}
{{- end }}

{{/* Takes a duration of one unit, as 15s. */}}
{{- define "dev-hops.milliseconds" -}}
{{- get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) (regexFind "[a-z]+$" .) | mul (regexFind "^[0-9]+" .) }}
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
