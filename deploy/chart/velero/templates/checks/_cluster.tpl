{{/* Objects of another release or of none where this one would put its own. `helm template` sees no cluster and asks nothing. */}}
{{- define "velero.checkForeign" -}}
{{- $ours := list -}}
{{- $charts := list -}}
{{- $objects := list -}}
{{- $others := list -}}
{{- /* Up to its own number a chart of this name is one of ours; Velero's have been higher for years. */ -}}
{{- $own := regexFind "^[0-9]+" $.Chart.Version | int -}}
{{- range $kind := list "apps/v1 Deployment" "apps/v1 DaemonSet" "apps/v1 StatefulSet" "batch/v1 CronJob" "v1 Service" "v1 ServiceAccount" "v1 ConfigMap" "v1 Secret" "v1 PersistentVolumeClaim" -}}
{{- $words := splitList " " $kind -}}
{{- range $object := (lookup (first $words) (last $words) $.Release.Namespace "").items | default list -}}
{{- $metadata := $object.metadata -}}
{{- $title := printf "%s %s" (last $words) $metadata.name -}}
{{- $release := get ($metadata.annotations | default dict) "meta.helm.sh/release-name" -}}
{{- if eq (toString $release) $.Release.Name -}}
{{- $chart := get ($metadata.labels | default dict) "helm.sh/chart" | toString -}}
{{- if regexMatch "^velero-[0-9]" $chart -}}
{{- $ours = append $ours $title -}}
{{- $charts = append $charts $chart -}}
{{- else if $chart -}}
{{- $others = append $others $title -}}
{{- else -}}
{{- $objects = append $objects $title -}}
{{- end -}}
{{- if and (eq $title "Deployment velero") (gt (regexFind "[0-9]+" $chart | int) $own) -}}
{{- include "velero.checkVersion" (list $ $object) -}}
{{- end -}}
{{- else if has $title (list "Deployment velero" "DaemonSet node-agent") -}}
{{- fail (printf "%s in namespace %s is not one of the release %s%s: remove that Velero first, as docs/from-velero.md says, or choose another namespace" $title $.Release.Namespace $.Release.Name (ternary (printf " but of the release %s" $release) "" (not (empty $release)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Objects of values name no chart; and where this chart is a part of another, the release has more than is of it. */ -}}
{{- $foreign := $others -}}
{{- if not $ours }}{{ $foreign = concat $others $objects }}{{ end -}}
{{- if and $foreign $.Chart.IsRoot -}}
{{- fail (printf "the release %s in namespace %s is of another chart (%s): an upgrade would remove what it has; choose another name or namespace" $.Release.Name $.Release.Namespace (join ", " (slice $foreign 0 (min 3 (len $foreign))))) -}}
{{- end -}}
{{- range $chart := $charts -}}
{{- $major := regexFind "[0-9]+" $chart | int -}}
{{- if gt $major $own -}}
{{- if lt $major 11 -}}
{{- fail (printf "the release %s in namespace %s is of the chart %s, whose objects have other names: upgrade it to Velero's chart 12 first" $.Release.Name $.Release.Namespace $chart) -}}
{{- else if gt $major 12 -}}
{{- fail (printf "the release %s in namespace %s is of the chart %s, and 12 is the newest of Velero's charts that is known here: its objects may hold what would be lost" $.Release.Name $.Release.Namespace $chart) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Which Velero runs in the release: a list of the context and its Deployment. */}}
{{- define "velero.checkVersion" -}}
{{- $root := first . -}}
{{- $deployment := last . -}}
{{- $place := printf "the release %s in namespace %s" $root.Release.Name $root.Release.Namespace -}}
{{- range $container := $deployment.spec.template.spec.containers -}}
{{- $image := toString $container.image -}}
{{- $version := regexReplaceAll "^.*:v?([0-9]+)\\.([0-9]+)([.+@-].*)?$" $image "${1} ${2}" -}}
{{- if and (eq $container.name "velero") (regexMatch "^[0-9]+ [0-9]+$" $version) -}}
{{- $numbers := splitList " " $version -}}
{{- $number := add (mul 1000 (first $numbers | int)) (last $numbers | int) -}}
{{- if and (ge $number 1000) (lt $number 1009) -}}
{{- fail (printf "%s runs %s, older than Velero 1.9: upgrade it to 1.18 first, step by step" $place $image) -}}
{{- else if gt $number 1018 -}}
{{- fail (printf "%s runs %s, newer than Velero 1.18, the newest that is known here: its objects may hold what would be lost" $place $image) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The role of a binding cannot be changed, and Helm would notice in the middle of an upgrade. */}}
{{- define "velero.checkBinding" -}}
{{- if and .Values.rbac.create (eq (include "velero.rights" .) "cluster") -}}
{{- $name := printf "%s-server" (include "velero.fullname" .) -}}
{{- $binding := lookup "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "" $name -}}
{{- if and $binding (ne (toString $binding.roleRef.name) .Values.rbac.clusterAdministratorName) -}}
{{- fail (printf "rbac.clusterAdministratorName is %s, and ClusterRoleBinding %s has the role %s, which cannot be changed: delete the binding first" .Values.rbac.clusterAdministratorName $name $binding.roleRef.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
