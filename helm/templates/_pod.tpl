{{/* Pod template of a Deployment. Takes root, component, values (the role's own), secrets (names in secrets.keys) and container
     (YAML of what only this container has: args, env, ports, probes). */}}
{{- define "dev-hops.podTemplate" -}}
metadata:
  labels:
    {{- include "dev-hops.podLabels" . | nindent 4 }}
  annotations:
    {{- include "dev-hops.podAnnotations" . | nindent 4 }}
spec:
  {{- include "dev-hops.podSpec" . | nindent 2 }}
  serviceAccountName: {{ include "dev-hops.serviceAccountName" .root }}
  terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
  {{- include "dev-hops.apart" . | nindent 2 }}
  {{- if and (eq .root.Values.migrations.mode "job") (ne .component "flower") }}
  initContainers:
    - name: schema
      command: [timeout, "600", sh, -c, "until dev-hops migrate status --check; do sleep 5; done"]
      {{- include "dev-hops.container" (merge (dict "resources" .root.Values.migrations.resources) .) | nindent 6 }}
  {{- end }}
  containers:
    - name: {{ .role | default .component }}
      {{- .container | nindent 6 }}
      {{- include "dev-hops.container" (merge (dict "resources" .values.resources) .) | nindent 6 }}
{{- end }}

{{/* Annotations of a Deployment's pod, those of users over the chart's; the checksum is the chart's alone. Takes {root, values}. */}}
{{- define "dev-hops.podAnnotations" -}}
{{- $laid := dict "cluster-autoscaler.kubernetes.io/safe-to-evict" (dig "safeToEvict" true .values | toString) }}
{{- $checksum := dict "checksum/config" (include "dev-hops.config" .root | sha256sum) }}
{{- range list .root.Values.podAnnotations (.values.podAnnotations | default dict) $checksum }}
  {{- $laid = include "dev-hops.overlay" (dict "under" $laid "over" .) | fromYaml }}
{{- end }}
{{- toYaml $laid }}
{{- end }}

{{/* Labels of a pod: those of users, and over them the selector's. Takes {root, component}. */}}
{{- define "dev-hops.podLabels" -}}
{{- $given := include "dev-hops.overlay" (dict "under" .root.Values.commonLabels "over" .root.Values.podLabels) | fromYaml }}
{{- include "dev-hops.overlay" (dict "under" $given "over" (include "dev-hops.selectorLabels" . | fromYaml)) }}
{{- end }}

{{/* What every pod has, that of the migration too. Takes {root, values}. */}}
{{- define "dev-hops.podSpec" -}}
{{- $all := .root.Values -}}
automountServiceAccountToken: false
enableServiceLinks: false  # a Service named `api` would set API_PORT
securityContext:
  {{- with $all.runAsUser }}
  runAsUser: {{ . }}
  runAsGroup: {{ . }}
  fsGroup: {{ . }}
  {{- end }}
  runAsNonRoot: true
  seccompProfile: {type: RuntimeDefault}
{{- with concat $all.image.pullSecrets $all.imagePullSecrets | uniq }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with $all.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector | default $all.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .values.tolerations | default $all.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
volumes:
  - {name: run, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: tmp, emptyDir: {sizeLimit: {{ .values.tmpSizeLimit | default "256Mi" }}}}
  {{- with $all.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
