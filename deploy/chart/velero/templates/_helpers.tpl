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

{{- define "velero.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/name: {{ include "velero.name" . }}
{{- end -}}

{{- define "velero.labels" -}}
{{ include "velero.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
component: velero
{{- end -}}

{{- define "velero.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "velero.serverServiceAccount" -}}
{{- if .Values.serviceAccount.server.create -}}
{{- .Values.serviceAccount.server.name | default (printf "%s-server" (include "velero.fullname" .)) -}}
{{- else -}}
{{- .Values.serviceAccount.server.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "velero.secretName" -}}
{{- .Values.credentials.existingSecret | default .Values.credentials.name | default (include "velero.fullname" .) -}}
{{- end -}}

{{/* Whether the server has a Secret with credentials: one is named, or one is made. */}}
{{- define "velero.hasSecret" -}}
{{- if and .Values.credentials.useSecret (or .Values.credentials.existingSecret .Values.credentials.secretContents) -}}true{{- end -}}
{{- end -}}

{{/* Whether backups go to a volume: they do when no location is named. */}}
{{- define "velero.usesVolume" -}}
{{- if and .Values.backupsEnabled .Values.persistence.enabled (not .Values.configuration.backupStorageLocation) -}}true{{- end -}}
{{- end -}}

{{- define "velero.claimName" -}}
{{- .Values.persistence.existingClaim | default (printf "%s-backups" (include "velero.fullname" .)) -}}
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
    "features" .features -}}
{{- range $name, $value := $flags }}
{{- if $value }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}
