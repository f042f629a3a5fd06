{{- define "velero.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "velero.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "velero.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "velero.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* A value as a text: a big number must not become 1e+06, and nothing is an empty one. */}}
{{- define "velero.text" -}}
{{- if kindIs "invalid" . -}}
{{- else if and (kindIs "float64" .) (eq (float64 (int64 .)) .) -}}
{{ int64 . }}
{{- else -}}
{{ toString . }}
{{- end -}}
{{- end -}}

{{/* A map whose values Kubernetes wants as texts: labels, annotations, data. */}}
{{- define "velero.strings" -}}
{{- $strings := dict -}}
{{- range $key, $value := . -}}
{{- $_ := set $strings $key (include "velero.text" $value) -}}
{{- end -}}
{{- toYaml $strings -}}
{{- end -}}

{{- define "velero.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/name: {{ include "velero.name" . }}
{{- end -}}

{{- define "velero.chartLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
component: velero
{{- end -}}

{{- define "velero.labels" -}}
{{ include "velero.selector" . }}
{{ include "velero.chartLabels" . }}
{{- end -}}

{{/* The labels of the chart and those of values, which go first: a list of the context and of maps. */}}
{{- define "velero.labelsWith" -}}
{{- $labels := dict -}}
{{- range rest . }}{{ $labels = merge $labels (deepCopy (. | default dict)) }}{{ end -}}
{{- include "velero.strings" (merge $labels (include "velero.labels" (first .) | fromYaml)) -}}
{{- end -}}

{{- define "velero.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ include "velero.text" (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- define "velero.kubectlImage" -}}
{{- $image := .Values.kubectl.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ include "velero.text" ($image.tag | default (.Capabilities.KubeVersion.Version | regexFind "v[0-9]+\\.[0-9]+\\.[0-9]+")) }}
{{- end -}}
{{- end -}}

{{/* The Secrets to pull images by, of a list of names. */}}
{{- define "velero.pullSecrets" -}}
{{- with . -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- define "velero.serverServiceAccount" -}}
{{- if .Values.serviceAccount.server.create -}}
{{- .Values.serviceAccount.server.name | default (printf "%s-server" (include "velero.fullname" .)) -}}
{{- else -}}
{{- .Values.serviceAccount.server.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* Whether the pods that move data have an account of their own. A cloud knows the account of the server by its name, and would not know
that one: where that of the server says so, they run as the agents do. */}}
{{- define "velero.hasMoverAccount" -}}
{{- if and .Values.deployNodeAgent .Values.rbac.create -}}
{{- $annotations := .Values.serviceAccount.server.annotations | default dict -}}
{{- if not .Values.serviceAccount.server.create -}}
{{- $found := lookup "v1" "ServiceAccount" .Release.Namespace (include "velero.serverServiceAccount" .) -}}
{{- $annotations = ($found.metadata | default dict).annotations | default dict -}}
{{- end -}}
{{- $known := "" -}}
{{- range list "eks.amazonaws.com/role-arn" "iam.gke.io/gcp-service-account" "azure.workload.identity/client-id" -}}
{{- $known = get $annotations . | default $known -}}
{{- end -}}
{{- if not $known -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Which rights the server gets: "ours", "cluster" or "namespace". */}}
{{- define "velero.rights" -}}
{{- if kindIs "bool" .Values.rbac.clusterAdministrator -}}
{{- ternary "cluster" "namespace" .Values.rbac.clusterAdministrator -}}
{{- else -}}ours{{- end -}}
{{- end -}}

{{- define "velero.secretName" -}}
{{- .Values.credentials.existingSecret | default .Values.credentials.name | default (include "velero.fullname" .) -}}
{{- end -}}

{{/* Whether the pods have the Secret with credentials: one is named, one has content, or somebody else has filled ours. */}}
{{- define "velero.hasSecret" -}}
{{- if .Values.credentials.useSecret -}}
{{- if or .Values.credentials.existingSecret .Values.credentials.secretContents -}}true
{{- else if (lookup "v1" "Secret" .Release.Namespace (include "velero.secretName" .)).data -}}true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether that Secret has credentials for all locations, as far as can be known. */}}
{{- define "velero.hasCloudKey" -}}
{{- if include "velero.hasSecret" . -}}
{{- if or .Values.credentials.existingSecret (hasKey (.Values.credentials.secretContents | default dict) "cloud") -}}true
{{- else if hasKey ((lookup "v1" "Secret" .Release.Namespace (include "velero.secretName" .)).data | default dict) "cloud" -}}true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The data of the Secret, with templates in it evaluated. */}}
{{- define "velero.secretData" -}}
{{- $context := . -}}
{{- range $key, $value := merge (dict) (.Values.credentials.secretContents | default dict) (.Values.credentials.extraEnvVars | default dict) }}
{{ $key }}: {{ tpl (include "velero.text" $value) $context | b64enc | quote }}
{{- end }}
{{- end -}}

{{/* Whether mounts of values have a place for temporary files, as values made for other images may. */}}
{{- define "velero.mountsTmp" -}}
{{- range . }}{{ if eq (toString .mountPath | trimSuffix "/") "/tmp" }}true{{ end }}{{ end -}}
{{- end -}}

{{/* Whether backups go to a volume: they do when nothing is said about locations. */}}
{{- define "velero.usesVolume" -}}
{{- if and .Values.backupsEnabled .Values.persistence.enabled (kindIs "invalid" .Values.configuration.backupStorageLocation) -}}true{{- end -}}
{{- end -}}

{{- define "velero.claimName" -}}
{{- .Values.persistence.existingClaim | default (printf "%s-backups" (include "velero.fullname" .)) -}}
{{- end -}}

{{- define "velero.metricsPort" -}}
{{- .Values.configuration.metricsAddress | default ":8085" | toString | splitList ":" | last -}}
{{- end -}}

{{/* The port of the page; nothing where there is none. */}}
{{- define "velero.webPort" -}}
{{- with .Values.configuration.webAddress }}{{ . | toString | splitList ":" | last }}{{ end -}}
{{- end -}}

{{/* The flags about the certificate of the page. */}}
{{- define "velero.webTLSFlags" -}}
{{- if .webTLSSecret }}
- --web-tls-cert=/web-tls/tls.crt
- --web-tls-key=/web-tls/tls.key
{{- if .webTrustedUserHeader }}
- --web-client-ca=/web-tls/ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{/* The name of the ConfigMap for Jobs that maintain repositories; nothing where there is none. */}}
{{- define "velero.maintenanceConfigMap" -}}
{{- $data := (.Values.configuration.repositoryMaintenanceJob | default dict).repositoryConfigData | default dict -}}
{{- if or $data.global $data.repositories -}}{{ $data.name | default "velero-repo-maintenance" }}{{- end -}}
{{- end -}}

{{/* Whether an object of the Prometheus operator is made: a list of the context and its values. */}}
{{- define "velero.hasMonitor" -}}
{{- $root := first . -}}{{- $monitor := last . -}}
{{- if and $root.Values.metrics.enabled $monitor.enabled -}}
{{- if or (not $monitor.autodetect) ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where the operator finds the metrics: a list of the context, the values of the monitor and the port. */}}
{{- define "velero.endpoint" -}}
{{- $metrics := (first .).Values.metrics -}}{{- $monitor := index . 1 -}}
- port: {{ last . }}
  {{- with $metrics.scrapeInterval }}
  interval: {{ . }}
  {{- end }}
  {{- with $metrics.scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- range list "scheme" "tlsConfig" "metricRelabelings" "relabelings" }}
  {{- if index $monitor . }}
  {{ . }}:
    {{- toYaml (index $monitor .) | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* Variables of values: a list of name and value, or a map. */}}
{{- define "velero.variables" -}}
{{- if kindIs "map" . -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ include "velero.text" $value | quote }}
{{- end }}
{{- else if . -}}
{{- $variables := list -}}
{{- range . -}}
{{- $variable := . -}}
{{- if kindIs "map" . -}}
{{- if hasKey . "value" }}{{ $variable = merge (dict "value" (include "velero.text" .value)) . }}{{ end -}}
{{- end -}}
{{- $variables = append $variables $variable -}}
{{- end -}}
{{- toYaml $variables -}}
{{- end -}}
{{- end -}}

{{/* What server and node agents are told about credentials. */}}
{{- define "velero.credentialVariables" -}}
{{- $context := . -}}
{{- if include "velero.hasCloudKey" . }}
{{- range list "AWS_SHARED_CREDENTIALS_FILE" "GOOGLE_APPLICATION_CREDENTIALS" "AZURE_CREDENTIALS_FILE" "ALIBABA_CLOUD_CREDENTIALS_FILE" }}
- name: {{ . }}
  value: /credentials/cloud
{{- end }}
{{- end }}
{{- with include "velero.variables" .Values.configuration.extraEnvVars }}
{{ . }}
{{- end }}
{{- range $name, $value := .Values.credentials.extraEnvVars }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ include "velero.secretName" $context }}
      key: {{ $name }}
{{- end }}
{{- end -}}

{{/* The annotations of pods: a list of the context and of the values of the monitor that looks after them. */}}
{{- define "velero.podAnnotations" -}}
{{- $root := first . -}}
{{- $annotations := deepCopy ($root.Values.podAnnotations | default dict) -}}
{{- if and $root.Values.metrics.enabled (not (include "velero.hasMonitor" .)) }}{{ $annotations = merge $annotations ($root.Values.metrics.podAnnotations | default dict) }}{{ end -}}
{{- with include "velero.secretData" $root }}{{ $_ := set $annotations "checksum/secret" (sha256sum .) }}{{ end -}}
{{- include "velero.strings" $annotations -}}
{{- end -}}

{{/* The flags of the server that have a value. */}}
{{- define "velero.flags" -}}
{{- $flags := dict
    "uploader-type" .uploaderType
    "backup-sync-period" .backupSyncPeriod
    "fs-backup-timeout" .fsBackupTimeout
    "client-burst" .clientBurst
    "client-page-size" .clientPageSize
    "client-qps" .clientQPS
    "default-backup-storage-location" .defaultBackupStorageLocation
    "default-item-operation-timeout" .defaultItemOperationTimeout
    "default-backup-ttl" .defaultBackupTTL
    "default-volume-snapshot-locations" .defaultVolumeSnapshotLocations
    "disable-controllers" .disableControllers
    "disable-informer-cache" .disableInformerCache
    "garbage-collection-frequency" .garbageCollectionFrequency
    "item-block-worker-count" .itemBlockWorkerCount
    "concurrent-backups" .concurrentBackups
    "lease-duration" .leaseDuration
    "report-schedule" .reportSchedule
    "report-period" .reportPeriod
    "trace-endpoint" .traceEndpoint
    "log-format" .logFormat
    "log-level" .logLevel
    "metrics-address" .metricsAddress
    "plugin-dir" .pluginDir
    "profiler-address" .profilerAddress
    "restore-only" .restoreOnlyMode
    "restore-resource-priorities" .restoreResourcePriorities
    "store-validation-frequency" .storeValidationFrequency
    "terminating-resource-timeout" .terminatingResourceTimeout
    "default-snapshot-move-data" .defaultSnapshotMoveData
    "default-volumes-to-fs-backup" .defaultVolumesToFsBackup
    "default-repo-maintain-frequency" .defaultRepoMaintainFrequency
    "schedule-skip-immediately" .scheduleSkipImmediately
    "web-address" .webAddress
    "web-trusted-user-header" .webTrustedUserHeader
    "web-trusted-groups-header" .webTrustedGroupsHeader
    "features" .features -}}
{{- range $name, $value := $flags }}
{{- if $value }}
{{- /* A big number must not become 1e+06. */}}
{{- if and (kindIs "float64" $value) (eq (float64 (int64 $value)) $value) }}{{ $value = int64 $value }}{{ end }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The security of pods, under its present name and the one it had once. */}}
{{- define "velero.podSecurity" -}}
{{- with merge (deepCopy (.Values.podSecurityContext | default dict)) (.Values.securityContext | default dict) }}{{ toYaml . }}{{ end -}}
{{- end -}}
