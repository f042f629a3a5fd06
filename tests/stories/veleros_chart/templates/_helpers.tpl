{{- define "full" -}}
{{- if contains "velero" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-velero{{ end -}}
{{- end -}}

{{- define "labels" -}}
app.kubernetes.io/name: velero
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: velero-{{ .Chart.Version }}
{{- end -}}

{{- define "metadata" -}}
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "labels" .root | nindent 4 }}
    {{- with .component }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
{{- end -}}
