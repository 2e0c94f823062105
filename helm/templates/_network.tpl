{{/* A peer of a NetworkPolicy: every pod of that namespace. */}}
{{- define "dev-hops.inNamespace" -}}
namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . }}}}
{{- end }}

{{/* Who may come in. A rule without peers would let everybody in, so there is none where nobody is named. Takes
     networkPolicy.ingress. */}}
{{- define "dev-hops.ingress" -}}
{{- with .monitoringNamespace }}
- from: [{{ include "dev-hops.inNamespace" . | fromYaml | toJson }}]
  ports: [{protocol: TCP, port: 9464}, {protocol: TCP, port: 8000}]
{{- end }}
{{- $peers := .extraApiFrom }}
{{- range list .ingressNamespace .kedaNamespace | compact }}
{{- $peers = append $peers (include "dev-hops.inNamespace" . | fromYaml) }}
{{- end }}
{{- with $peers }}
- from: {{ toJson . }}
  ports: [{protocol: TCP, port: 8000}]
{{- end }}
{{- with .flowerNamespace }}
- from: [{{ include "dev-hops.inNamespace" . | fromYaml | toJson }}]
  ports: [{protocol: TCP, port: 5555}]
{{- end }}
{{- end }}

{{/* Names and stores, which every pod needs. Takes networkPolicy.egress. */}}
{{- define "dev-hops.storeEgress" -}}
- ports:
    {{- range .dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- range .stores }}
- ports: [{protocol: TCP, port: {{ .port }}}]
  {{- with .to }}
  to: {{ toJson . }}
  {{- end }}
{{- end }}
{{- range .otlpPorts }}
- ports: [{protocol: TCP, port: {{ . }}}]
{{- end }}
{{- end }}

{{/* Providers: anywhere but the address at which a cloud gives a machine its rights, and but private networks. */}}
{{- define "dev-hops.providerEgress" -}}
{{- $v4 := list "169.254.169.254/32" }}
{{- $v6 := list "fd00:ec2::254/128" }}
{{- if .blockPrivateRanges }}
{{- $v4 = list "10.0.0.0/8" "100.64.0.0/10" "169.254.0.0/16" "172.16.0.0/12" "192.168.0.0/16" }}
{{- $v6 = list "fc00::/7" "fe80::/10" }}
{{- end }}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: {{ toJson $v4 }}}
    - ipBlock: {cidr: "::/0", except: {{ toJson $v6 }}}
  ports:
    {{- range .providerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
