{{/* As in _guards.tpl. What a closed network would keep from those who have to come in or go out. */}}
{{- define "dev-hops.faultsOfNetwork" -}}
{{- $all := .Values }}
{{- $in := $all.networkPolicy.ingress }}
{{- if $all.networkPolicy.enabled }}
{{- if not $all.networkPolicy.egress.stores }}
networkPolicy.enabled is true and networkPolicy.egress.stores is empty: no pod would reach a store; list their ports
{{- end }}
{{- if and $all.api.enabled $all.api.ingress.enabled (not (or $in.ingressNamespace $in.extraApiFrom)) }}
api.ingress.enabled is true and networkPolicy.ingress.ingressNamespace is empty: the controller would not reach the API; name its namespace, or its peers in extraApiFrom
{{- end }}
{{- if and $all.podMonitor.enabled (not $in.monitoringNamespace) }}
podMonitor.enabled is true and networkPolicy.ingress.monitoringNamespace is empty: Prometheus would reach no pod; name its namespace
{{- end }}
{{- range $name, $fleet := include "dev-hops.fleets" . | fromYaml }}
{{- $kind := $fleet.autoscaling.kind }}
{{- $asksPrometheus := or (eq $kind "hpa") (and (eq $kind "keda") (eq $fleet.keda.source "prometheus")) }}
{{- if and $asksPrometheus (not (or $in.monitoringNamespace $in.extraApiFrom)) }}
fleets.{{ $name }}.autoscaling.kind is {{ $kind }} and networkPolicy.ingress.monitoringNamespace is empty: Prometheus, whose numbers it reads, would not reach the API; name its namespace
{{- end }}
{{- if and (eq $kind "keda") (eq $fleet.keda.source "api") (not $in.kedaNamespace) }}
fleets.{{ $name }}.keda.source is api and networkPolicy.ingress.kedaNamespace is empty: KEDA would not reach the API; name its namespace
{{- end }}
{{- end }}
{{- end }}
{{- end }}
