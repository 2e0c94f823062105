{{/* As in _guards.tpl. */}}
{{- define "dev-hops.faultsOfEnv" -}}
{{- $all := .Values }}
{{- $secrets := include "dev-hops.secretNames" . | fromYaml }}
{{- range $key := $all.flower.enabled | ternary (list "databaseUrl" "redisUrl" "flowerAuth") (list "databaseUrl" "redisUrl") }}
{{- $name := get $secrets $key }}
{{- $isOurs := and $all.secrets.existingSecret (get $all.secrets.keys $key) }}
{{- if not (or $isOurs $all.extraEnvFrom (include "dev-hops.entriesOf" (dict "env" $all.extraEnv "name" $name))) }}
nothing gives {{ $name }}: name its Secret in secrets.existingSecret and its key in secrets.keys.{{ $key }}, or bring {{ $name }} by extraEnv or extraEnvFrom
{{- end }}
{{- end }}
{{- if and (ne $all.migrations.mode "none") $all.migrations.databaseUrlKey (not $all.secrets.existingSecret) }}
migrations.databaseUrlKey is {{ $all.migrations.databaseUrlKey }} and secrets.existingSecret is empty: name the Secret, or bring DATABASE_URL by migrations.extraEnv
{{- end }}
{{- range include "dev-hops.everyEnv" . | fromYamlArray }}
{{- if and .value (has .name (values $secrets)) }}
extraEnv gives {{ .name }} as a value, which everybody can read: use valueFrom, or {{ .name }}_FILE and a mounted Secret
{{- end }}
{{- end }}
{{- end }}

{{/* The entries of `env` that give a setting, by itself or by a file. Takes {env, name}. Empty where there is none. */}}
{{- define "dev-hops.entriesOf" -}}
{{- range .env }}{{ if has .name (list $.name (printf "%s_FILE" $.name)) }}{{ .name }} {{ end }}{{ end }}
{{- end }}

{{/* What every role, a fleet and the migration are given beside the chart's own. */}}
{{- define "dev-hops.everyEnv" -}}
{{- $found := concat .Values.extraEnv .Values.migrations.extraEnv .Values.fleetDefaults.extraEnv }}
{{- range .Values.fleets }}{{ $found = concat $found (.extraEnv | default list) }}{{ end }}
{{- toYaml $found }}
{{- end }}

{{- define "dev-hops.faultsOfVolumes" -}}
{{- $names := list }}
{{- range .Values.extraVolumes }}{{ $names = append $names .name }}{{ end }}
{{- if ne (len $names) (len (uniq $names)) }}
extraVolumes names a volume twice: {{ join ", " $names }}
{{- end }}
{{- $paths := list }}
{{- $writable := list "/tmp" }}
{{- range .Values.extraVolumeMounts }}
  {{- $paths = append $paths (clean .mountPath) }}
  {{- if not (dig "readOnly" true .) }}{{ $writable = append $writable (clean .mountPath) }}{{ end }}
  {{- if has (clean .mountPath) (list "/" "/run/worker" "/tmp") }}
extraVolumeMounts mounts at {{ .mountPath }}, which is not yours: take a folder of its own
  {{- end }}
{{- end }}
{{- if ne (len $paths) (len (uniq $paths)) }}
extraVolumeMounts mounts at one path twice: {{ join ", " $paths }}
{{- end }}
{{- $mirrors := list (.Values.config.GIT_MIRRORS_DIR | default "/tmp/mirrors") }}
{{- range include "dev-hops.everyEnv" . | fromYamlArray }}
{{- if and .value (eq .name "GIT_MIRRORS_DIR") }}{{ $mirrors = append $mirrors .value }}{{ end }}
{{- end }}
{{- range $mirrors }}
{{- $isWritable := false }}
{{- $folder := clean . }}
{{- range $writable }}{{ $isWritable = or $isWritable (eq $folder .) (hasPrefix (printf "%s/" .) $folder) }}{{ end }}
{{- if not $isWritable }}
GIT_MIRRORS_DIR is {{ . }}, where nothing can be written: take a folder below /tmp, or give it a volume in extraVolumes and extraVolumeMounts with `readOnly: false`
{{- end }}
{{- end }}
{{- end }}
