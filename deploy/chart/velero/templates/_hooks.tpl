{{/* An account with rights in the cluster that lives as long as a hook: a map of `context`, `name`, `events`, `rules` and `mounted`. */}}
{{- define "velero.hookAccount" -}}
{{- $values := .context.Values -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "velero.labelsWith" (list .context $values.serviceAccount.server.labels) | nindent 4 }}
  annotations:
    {{- with $values.serviceAccount.server.annotations }}
    {{- include "velero.strings" . | nindent 4 }}
    {{- end }}
    {{- include "velero.hook" (dict "events" .events "weight" "-5") | nindent 4 }}
automountServiceAccountToken: {{ .mounted }}
{{- with include "velero.pullSecrets" $values.serviceAccount.server.imagePullSecrets }}
{{ . }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "velero.labels" .context | nindent 4 }}
  annotations:
    {{- include "velero.hook" (dict "events" .events "weight" "-5") | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "velero.labels" .context | nindent 4 }}
  annotations:
    {{- include "velero.hook" (dict "events" .events "weight" "-4") | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ .context.Release.Namespace }}
{{- end -}}

{{- define "velero.hook" -}}
helm.sh/hook: {{ .events }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* The head of a Job of a hook, up to its containers: a map of `context`, `name`, `events` and `mounted`. */}}
{{- define "velero.hookJob" -}}
{{- $values := .context.Values -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .context.Release.Namespace }}
  labels:
    {{- include "velero.labelsWith" (list .context $values.kubectl.labels) | nindent 4 }}
  annotations:
    {{- include "velero.hook" (dict "events" .events "weight" "5") | nindent 4 }}
spec:
  backoffLimit: 3
  template:
    metadata:
      labels:
        {{- /* Not those that the Deployment selects its pods by. */}}
        {{- include "velero.strings" (merge (deepCopy ($values.kubectl.labels | default dict)) (include "velero.chartLabels" .context | fromYaml)) | nindent 8 }}
      {{- with $values.kubectl.annotations }}
      annotations:
        {{- include "velero.strings" . | nindent 8 }}
      {{- end }}
    spec:
      restartPolicy: OnFailure
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: {{ .mounted }}
      {{- with include "velero.podSecurity" .context }}
      securityContext:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "velero.pullSecrets" $values.image.imagePullSecrets }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- include "velero.strings" . | nindent 8 }}
      {{- end }}
      {{- range $field := list "affinity" "tolerations" }}
      {{- with index $values $field }}
      {{ $field }}:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
{{- end -}}

{{/* A container that runs kubectl: a map of `context`, `name` and `arguments`. */}}
{{- define "velero.kubectl" -}}
{{- $kubectl := .context.Values.kubectl -}}
- name: {{ .name }}
  image: {{ include "velero.kubectlImage" .context }}
  imagePullPolicy: {{ .context.Values.image.pullPolicy }}
  command: ["/bin/kubectl"]
  args:
    {{- toYaml .arguments | nindent 4 }}
  {{- range $field, $value := dict "securityContext" $kubectl.containerSecurityContext "resources" $kubectl.resources "volumeMounts" $kubectl.extraVolumeMounts }}
  {{- with $value }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}
