{{- define "leasehold.name" -}}
{{- if contains "leasehold" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-leasehold" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "leasehold.selector" -}}
app.kubernetes.io/name: leasehold
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "leasehold.metadata" -}}
name: {{ include "leasehold.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "leasehold.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* How the admin port is asked, which the configuration says. */ -}}
{{- define "leasehold.adminScheme" -}}
{{- if regexMatch "(?m)^admin-tls *= *true" .Values.config }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}
