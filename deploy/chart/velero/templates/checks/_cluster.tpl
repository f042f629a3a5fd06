{{/* Objects of another release or of none where this one would put its own. `helm template` sees no cluster and asks nothing. */}}
{{- define "velero.checkForeign" -}}
{{- $ours := list -}}
{{- $charts := list -}}
{{- $objects := list -}}
{{- range $kind := list "apps/v1 Deployment" "apps/v1 DaemonSet" "v1 Service" "v1 ServiceAccount" "v1 ConfigMap" -}}
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
{{- else -}}
{{- $objects = append $objects $title -}}
{{- end -}}
{{- else if has $title (list "Deployment velero" "DaemonSet node-agent") -}}
{{- fail (printf "%s in namespace %s is not one of the release %s%s: remove that Velero first, as docs/from-velero.md says, or choose another namespace" $title $.Release.Namespace $.Release.Name (ternary (printf " but of the release %s" $release) "" (not (empty $release)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $objects (not $ours) -}}
{{- fail (printf "the release %s in namespace %s is of another chart (%s): an upgrade would remove what it has; choose another name or namespace" $.Release.Name $.Release.Namespace (join ", " (slice $objects 0 (min 3 (len $objects))))) -}}
{{- end -}}
{{- range $chart := $charts -}}
{{- $major := regexFind "[0-9]+" $chart | int -}}
{{- if and (gt $major 0) (lt $major 11) -}}
{{- fail (printf "the release %s in namespace %s is of the chart %s, whose objects have other names: upgrade it to Velero's chart 12 first" $.Release.Name $.Release.Namespace $chart) -}}
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
