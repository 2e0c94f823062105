{{/* Redis clients and Postgres connections at most, as YAML. `standing` says how many pods of a rolled role there may be for each
     that is wanted: 2 while the new ones run beside the old ones, which drain. Takes {root, standing}. */}}
{{- define "dev-hops.budget" -}}
{{- $api := .root.Values.api }}
{{- $most := eq $api.autoscaling.kind "none" | ternary $api.replicas $api.autoscaling.max }}
{{- $doors := $api.enabled | ternary (mul $most .standing) 0 }}
{{- $clients := sub $doors 3 | max 0 | mul 25 | add 100 }}
{{- $connections := mul 12 $doors | add 10 }}
{{- range include "dev-hops.fleets" .root | fromYaml }}
{{- $pods := eq .autoscaling.kind "none" | ternary .replicas .autoscaling.max | mul (.isOrdered | ternary 1 $.standing) }}
{{- $clients = add $clients (mul $pods (add (mul 2 .slots) 15)) }}
{{- $connections = add $connections (mul $pods (eq .pool "prefork" | ternary (mul 4 .slots) (add .slots 5))) }}
{{- end }}
clients: {{ $clients }}
connections: {{ $connections }}
{{- end }}

{{/* Memory that a fleet's slots want, in MB. Takes the fleet. */}}
{{- define "dev-hops.megabytesWanted" -}}
{{- mul 15 .slots | add 200 | mulf 1.3 | ceil | int }}
{{- end }}

{{/* Takes a quantity of Kubernetes, as 768Mi. */}}
{{- define "dev-hops.megabytes" -}}
{{- $units := dict "m" 1e-9 "" 1e-6 "k" 1e-3 "M" 1 "G" 1e3 "T" 1e6 "Ki" 0.001024 "Mi" 1.048576 "Gi" 1073.741824 "Ti" 1099511.627776 }}
{{- $text := kindIs "string" . | ternary . (int64 . | toString) }}
{{- get $units (regexFind "[A-Za-z]*$" $text) | mulf (regexFind "^[0-9.]+" $text) | int }}
{{- end }}
