{{/* Pod template of a Deployment. Takes root, component, values (the role's own), secrets (names in secrets.keys) and container
     (YAML of what only this container has: args, env, ports, probes). */}}
{{- define "dev-hops.podTemplate" -}}
{{- $annotations := dict "under" .root.Values.podAnnotations "over" (.values.podAnnotations | default dict) -}}
metadata:
  labels:
    {{- include "dev-hops.podLabels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "dev-hops.config" .root | sha256sum }}
    cluster-autoscaler.kubernetes.io/safe-to-evict: {{ dig "safeToEvict" true .values | quote }}
    {{- with include "dev-hops.overlay" $annotations | fromYaml }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
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
{{- with concat $all.image.pullSecrets $all.imagePullSecrets }}
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
