{{/* The name of everything: the release's, with the chart's where that is not in it. At most 52 characters, as more is
added to it and 63 are the most of a label. */}}
{{- define "guardproxy.name" -}}
{{- $release := .Release.Name -}}
{{- $name := ternary $release (printf "%s-guardproxy" $release) (contains "guardproxy" $release) -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "guardproxy.selector" -}}
app.kubernetes.io/name: guardproxy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "guardproxy.labels" -}}
{{ include "guardproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "guardproxy.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "guardproxy.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* guardproxy.yaml: what is given, under what the chart has to know itself. */}}
{{- define "guardproxy.config" -}}
{{- $ours := dict "listen" (dict "host" "0.0.0.0" "port" 8787 "workers" (int .Values.workers)) -}}
{{- $_ := set $ours "admin" (dict "host" "0.0.0.0" "port" 8788) -}}
{{- $_ := set $ours "store" (dict "url" "${GUARDPROXY_REDIS_URL}") -}}
{{- if .Values.secretKeys.upstreamKey -}}
{{- $_ := set $ours "upstream" (dict "api_key" "${GUARDPROXY_UPSTREAM_KEY}") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $ours | toYaml -}}
{{- end -}}

{{/* Of both pods: nobody is root, nothing is written but to volumes, no call is allowed that the runtime does not allow
by default. */}}
{{- define "guardproxy.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "guardproxy.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "guardproxy.adminScheme" -}}
{{- ternary "HTTPS" "HTTP" (not (empty (dig "admin" "tls" "cert" "" .Values.config))) -}}
{{- end -}}

{{- define "guardproxy.adminService" -}}
{{- if or .Values.adminService.enabled .Values.serviceMonitor.enabled }}yes{{ end -}}
{{- end -}}
