{{/* With `helm upgrade --reuse-values` the defaults are those of the chart before: here they would be Velero's. */}}
{{- define "velero.checkComplete" -}}
{{- if not (and (hasKey .Values "persistence") (hasKey .Values "replicas") (hasKey .Values "networkPolicy")) -}}
{{- fail "the default values of this chart are missing, as with `helm upgrade --reuse-values` after another chart: use --reset-then-reuse-values, or --reset-values and your values file" -}}
{{- end -}}
{{- $nothing := "%s is null, and its defaults are gone with it: leave it out, or write only what is to be otherwise" -}}
{{- range $name := list "configuration" "credentials" "image" "kubectl" "metrics" "namespace" "networkPolicy" "nodeAgent" "persistence" "podDisruptionBudget" "rbac" "serviceAccount" "upgradeCRDsJob" -}}
{{- if not (kindIs "map" (index $.Values $name)) -}}{{- fail (printf $nothing $name) -}}{{- end -}}
{{- end -}}
{{- range $path := list "kubectl.image" "serviceAccount.server" "metrics.service" "metrics.serviceMonitor" "metrics.nodeAgentPodMonitor" "metrics.prometheusRule" -}}
{{- $words := splitList "." $path -}}
{{- if not (kindIs "map" (index $.Values (first $words) (last $words))) -}}{{- fail (printf $nothing $path) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What Velero's chart had once, or names and does not read. */}}
{{- define "velero.checkRemoved" -}}
{{- $values := .Values -}}
{{- $configuration := .Values.configuration -}}
{{- $maintenance := $configuration.repositoryMaintenanceJob | default dict -}}
{{- $in_config_map := "say it in configuration.repositoryMaintenanceJob.repositoryConfigData, as Velero's chart asks for since 11" -}}
{{- range $refused := list
    (list $values "deployRestic" "" "it is called deployNodeAgent since chart 3")
    (list $values "restic" "" "it is called nodeAgent since chart 3")
    (list $values "resticTimeout" "" "it is called configuration.fsBackupTimeout since chart 3")
    (list $values "defaultVolumesToRestic" "" "it is called configuration.defaultVolumesToFsBackup since chart 3")
    (list $values "defaultResticPruneFrequency" "" "it is called configuration.defaultRepoMaintainFrequency since chart 3")
    (list $configuration "provider" "configuration." "each entry of configuration.backupStorageLocation and volumeSnapshotLocation has a provider since chart 4")
    (list $configuration "resticTimeout" "configuration." "it is called configuration.fsBackupTimeout since chart 3")
    (list $configuration "defaultVolumesToRestic" "configuration." "it is called configuration.defaultVolumesToFsBackup since chart 3")
    (list $configuration "defaultResticPruneFrequency" "configuration." "it is called configuration.defaultRepoMaintainFrequency since chart 3")
    (list $maintenance "requests" "configuration.repositoryMaintenanceJob." $in_config_map)
    (list $maintenance "limits" "configuration.repositoryMaintenanceJob." $in_config_map)
    (list $maintenance "latestJobsCount" "configuration.repositoryMaintenanceJob." $in_config_map)
    (list $values.upgradeCRDsJob "shellCmd" "upgradeCRDsJob." "the Job runs the image of the server, which needs no shell; leave it out")
    (list $values.upgradeCRDsJob "updateCmd" "upgradeCRDsJob." "the Job runs the image of the server, which needs no kubectl; leave it out")
-}}
{{- if hasKey (index $refused 0) (index $refused 1) -}}
{{- fail (printf "%s%s: %s" (index $refused 2) (index $refused 1) (index $refused 3)) -}}
{{- end -}}
{{- end -}}
{{- if eq (toString $configuration.uploaderType) "restic" -}}
{{- fail "configuration.uploaderType is restic, which Velero 1.18 no longer writes; leave it out, or use kopia" -}}
{{- end -}}
{{- if hasKey (.Values.configMaps | default dict) "restic-restore-action-config" -}}
{{- fail "configMaps.restic-restore-action-config: it is called fs-restore-action-config since chart 3" -}}
{{- end -}}
{{- $restore := index (.Values.configMaps | default dict) "fs-restore-action-config" | default dict -}}
{{- if hasKey ($restore.labels | default dict) "velero.io/restic" -}}
{{- fail "configMaps.fs-restore-action-config has the label velero.io/restic: it is called velero.io/pod-volume-restore since chart 3" -}}
{{- end -}}
{{- if contains "velero-restic-restore-helper" (toString ($restore.data | default dict).image) -}}
{{- fail "configMaps.fs-restore-action-config names the image velero-restic-restore-helper, which knows restic alone: leave data.image out" -}}
{{- end -}}
{{- with $configuration.namespace -}}
{{- if ne (toString .) $.Release.Namespace -}}
{{- fail (printf "configuration.namespace is %s, and the objects of the release are in %s, where the server would not look; install the release into %s" . $.Release.Namespace .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An image of the original would run under this chart, with flags and rights that are not made for it. */}}
{{- define "velero.checkImage" -}}
{{- $remedy := "leave image.repository, image.tag and image.digest out, or name a copy of ghcr.io/velero-rust/velero; with `helm upgrade --reuse-values` use --reset-then-reuse-values instead" -}}
{{- $repository := toString .Values.image.repository -}}
{{- if regexMatch "^((index\\.|registry-1\\.)?docker\\.io/)?velero/velero$" $repository -}}
{{- fail (printf "image.repository is %s, the image of the original Velero: %s" $repository $remedy) -}}
{{- end -}}
{{- $tag := include "velero.text" .Values.image.tag -}}
{{- $own := regexFind "^v?[0-9]+\\." .Chart.AppVersion | trimPrefix "v" -}}
{{- $named := regexFind "^v?[0-9]+\\." $tag | trimPrefix "v" -}}
{{- if and $named (ne $own $named) -}}
{{- fail (printf "image.tag is %s, and this chart is made for %s: %s" $tag .Chart.AppVersion $remedy) -}}
{{- end -}}
{{- end -}}

{{/* A proxy is believed only over TLS and with a certificate of its own. */}}
{{- define "velero.checkPage" -}}
{{- $page := .Values.configuration -}}
{{- if and $page.webTLSSecret (not $page.webAddress) -}}
{{- fail "configuration.webTLSSecret is set and there is no page: set configuration.webAddress too, for example to :8086" -}}
{{- end -}}
{{- if and $page.webTrustedUserHeader (not $page.webTLSSecret) -}}
{{- fail "configuration.webTrustedUserHeader needs configuration.webTLSSecret: a Secret with tls.crt, tls.key and, for the certificate of the proxy, ca.crt" -}}
{{- end -}}
{{- if and $page.webTrustedGroupsHeader (not $page.webTrustedUserHeader) -}}
{{- fail "configuration.webTrustedGroupsHeader needs configuration.webTrustedUserHeader: groups of nobody mean nothing" -}}
{{- end -}}
{{- end -}}

{{- define "velero.checkServers" -}}
{{- $replicas := int .Values.replicas -}}
{{- if or (lt $replicas 1) (gt $replicas 3) -}}
{{- fail (printf "replicas is %d: one server works and the others wait for its end; use 1, 2 or 3" $replicas) -}}
{{- end -}}
{{- if and (gt $replicas 1) (include "velero.usesVolume" .) -}}
{{- fail (printf "replicas is %d: backups go to a volume, which the pods of one node alone can use; name a bucket in configuration.backupStorageLocation" $replicas) -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.minAvailable $budget.maxUnavailable -}}
{{- fail "podDisruptionBudget has minAvailable and maxUnavailable: Kubernetes takes one of them" -}}
{{- end -}}
{{- end -}}

{{- define "velero.checkLocations" -}}
{{- $configuration := .Values.configuration -}}
{{- range $field := list "backupStorageLocation" "volumeSnapshotLocation" -}}
{{- if kindIs "map" (index $configuration $field) -}}
{{- fail (printf "configuration.%s is a map: it is a list since chart 4, each entry with its provider" $field) -}}
{{- end -}}
{{- $names := list -}}
{{- range $location := (index $configuration $field) | default list -}}
{{- $name := $location.name | default "default" -}}
{{- if has $name $names -}}
{{- fail (printf "configuration.%s has two entries named %s" $field $name) -}}
{{- end -}}
{{- $names = append $names $name -}}
{{- if contains "-----BEGIN" (toString $location.caCert) -}}
{{- fail (printf "configuration.%s, entry %s: caCert is a certificate as it is, and base64 of it is needed: base64 -w0 FILE" $field $name) -}}
{{- end -}}
{{- $credential := $location.credential | default dict -}}
{{- if ne (empty $credential.name) (empty $credential.key) -}}
{{- fail (printf "configuration.%s, entry %s: credential needs name and key, a Secret and the key in it" $field $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels that pods are found by, and hooks of containers that cannot run. */}}
{{- define "velero.checkPods" -}}
{{- $pods := dict "podLabels" .Values.podLabels "nodeAgent.podLabels" .Values.nodeAgent.podLabels -}}
{{- range $value, $labels := $pods -}}
{{- range $reserved := list "name" "role" "app.kubernetes.io/instance" "app.kubernetes.io/name" -}}
{{- if hasKey ($labels | default dict) $reserved -}}
{{- fail (printf "%s has %s, by which Kubernetes finds the pods of the release; use another label" $value $reserved) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $lifecycles := dict "lifecycle" .Values.lifecycle "nodeAgent.lifecycle" .Values.nodeAgent.lifecycle -}}
{{- range $value, $lifecycle := $lifecycles -}}
{{- range $moment, $handler := $lifecycle | default dict -}}
{{- if hasKey ($handler | default dict) "exec" -}}
{{- fail (printf "%s.%s.exec: the image has no shell and no other program to run; use httpGet, tcpSocket or sleep" $value $moment) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
