{{/* Keeps the pods of a role apart by host and zone where that can be. Takes {root, component, values}. */}}
{{- define "dev-hops.apart" -}}
{{- $own := dict "matchLabels" (include "dev-hops.selectorLabels" . | fromYaml) }}
{{- $apart := dict "labelSelector" $own "topologyKey" "kubernetes.io/hostname" }}
{{- $preferred := list (dict "weight" 100 "podAffinityTerm" $apart) }}
{{- $affinity := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred) }}
{{- $spread := list }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
{{- $spread = append $spread (dict "maxSkew" 1 "topologyKey" . "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" $own) }}
{{- end -}}
affinity: {{ .values.affinity | default .root.Values.affinity | default $affinity | toJson }}
{{- with kindIs "slice" .root.Values.topologySpreadConstraints | ternary .root.Values.topologySpreadConstraints $spread }}
topologySpreadConstraints: {{ toJson . }}
{{- end }}
{{- end }}
