{{/* What every container has. Takes root, values, secrets and resources; configMap where it is not the release's own. */}}
{{- define "dev-hops.container" -}}
{{- $all := .root.Values -}}
image: {{ include "dev-hops.image" .root | quote }}
imagePullPolicy: {{ $all.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{ toJson .resources }}
envFrom:
  - configMapRef: {name: {{ .configMap | default (include "dev-hops.fullname" .root) }}}
  {{- with $all.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $given := concat $all.extraEnv (.values.extraEnv | default list) }}
{{- $env := concat (.env | default list) (include "dev-hops.secretEnv" . | fromYamlArray) $given }}
{{- with include "dev-hops.lastOfEach" $env | fromYamlArray }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: run, mountPath: /run/worker}
  - {name: tmp, mountPath: /tmp}
  {{- range $all.extraVolumeMounts }}
  - {{ set (deepCopy .) "readOnly" (dig "readOnly" true .) | toJson }}
  {{- end }}
{{- end }}

{{/* The entries of a list of environment, without those that a later one of that name replaces: Kubernetes refuses a name that
     stands twice. A secret's NAME and NAME_FILE count as one, of which the program takes no two. */}}
{{- define "dev-hops.lastOfEach" -}}
{{- $secrets := include "dev-hops.secretNames" . | fromYaml | values }}
{{- $seen := list }}
{{- $kept := list }}
{{- range reverse . }}
  {{- $plain := trimSuffix "_FILE" .name }}
  {{- $name := has $plain $secrets | ternary $plain .name }}
  {{- if not (has $name $seen) }}{{ $kept = prepend $kept . }}{{ end }}
  {{- $seen = append $seen $name }}
{{- end }}
{{- toYaml $kept }}
{{- end }}

{{/* Environment from the Secret, by reference. Takes root and secrets, names in secrets.keys. Only what a role cannot start
     without has to be in the Secret. */}}
{{- define "dev-hops.secretEnv" -}}
{{- $needed := list "databaseUrl" "redisUrl" "flowerAuth" }}
{{- $env := include "dev-hops.secretNames" . | fromYaml }}
{{- $keys := .root.Values.secrets.keys }}
{{- $found := list }}
{{- with .root.Values.secrets.existingSecret }}
  {{- range $.secrets }}
    {{- $ref := dict "name" $.root.Values.secrets.existingSecret "key" (get $keys .) }}
    {{- if not (has . $needed) }}{{ $_ := set $ref "optional" true }}{{ end }}
    {{- if $ref.key }}
      {{- $found = append $found (dict "name" (get $env .) "valueFrom" (dict "secretKeyRef" $ref)) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* The setting that each of secrets.keys becomes. */}}
{{- define "dev-hops.secretNames" -}}
databaseUrl: DATABASE_URL
redisUrl: REDIS_URL
brokerUrl: CELERY_BROKER_URL
resultBackend: CELERY_RESULT_BACKEND
clickhouseUrl: CLICKHOUSE_URL
credentialKeys: CREDENTIAL_KEYS
providerProxy: PROVIDER_PROXY
apiToken: API_TOKEN
autoscaleToken: AUTOSCALE_TOKEN
flowerAuth: FLOWER_BASIC_AUTH
{{- end }}
