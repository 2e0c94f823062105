{{/* Beginning of every name. With a fleet's name it has to stay within 46 letters: a pod's name is cut to 58 before its last
     five, and the alerts read the Deployment out of it. */}}
{{- define "dev-hops.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $full .Values.fullnameOverride | trunc 30 | trimSuffix "-" }}
{{- end }}

{{/* Selects every pod of the release. */}}
{{- define "dev-hops.releaseLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What a selector may hold, since it can never change. Takes {root, component}. */}}
{{- define "dev-hops.selectorLabels" -}}
{{ include "dev-hops.releaseLabels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of an object: the chart's, over those of users. Takes {root, component} and perhaps labels. */}}
{{- define "dev-hops.labels" -}}
{{- $given := include "dev-hops.overlay" (dict "under" .root.Values.commonLabels "over" (.labels | default dict)) | fromYaml }}
{{- include "dev-hops.overlay" (dict "under" $given "over" (include "dev-hops.ownLabels" . | fromYaml)) }}
{{- end }}

{{- define "dev-hops.ownLabels" -}}
{{ include "dev-hops.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: dev-hops
app.kubernetes.io/version: {{ include "dev-hops.version" .root | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{/* Name, namespace and labels of an object. Takes {root, component} and perhaps labels. */}}
{{- define "dev-hops.metadata" -}}
name: {{ include "dev-hops.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "dev-hops.labels" . | nindent 2 }}
{{- end }}

{{- define "dev-hops.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* What is known of the version: the tag, or the beginning of the digest that wins over it. */}}
{{- define "dev-hops.version" -}}
{{- $digest := trimPrefix "sha256:" .Values.image.digest | trunc 12 }}
{{- $digest | default .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimAll "-_." }}
{{- end }}

{{/* Seconds until Kubernetes calls a rollout failed: longer than grace and start, and than a migration that pods wait for. */}}
{{- define "dev-hops.progressDeadline" -}}
{{- eq .Values.migrations.mode "job" | ternary (add .Values.migrations.activeDeadlineSeconds 600) 0 | max 900 }}
{{- end }}

{{- define "dev-hops.serviceAccountName" -}}
{{- default (ternary (include "dev-hops.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{/* {under, over} laid over one another as YAML. Sprig's merge would take a `false` or a 0 for something that is missing. */}}
{{- define "dev-hops.overlay" -}}
{{- $laid := deepCopy .under }}
{{- range $key, $value := .over }}
  {{- $below := get $laid $key }}
  {{- if and (kindIs "map" $value) (kindIs "map" $below) }}
    {{- $value = include "dev-hops.overlay" (dict "under" $below "over" $value) | fromYaml }}
  {{- end }}
  {{- $_ := set $laid $key $value }}
{{- end }}
{{- toYaml $laid }}
{{- end }}
