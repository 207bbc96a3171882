{{/* The image of every container. */}}
{{- define "holdfast.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Where the container runtime looks for plugins: docs/kubernetes.md says where each distribution says so. */}}
{{- define "holdfast.pluginDirectory" -}}
{{- if .Values.pluginDirectory -}}
{{ .Values.pluginDirectory }}
{{- else if eq .Values.distribution "k3s" -}}
/var/lib/rancher/k3s/data/cni
{{- else if eq .Values.distribution "k3s-old" -}}
/var/lib/rancher/k3s/data/current/bin
{{- else if eq .Values.distribution "openshift" -}}
/var/lib/cni/bin
{{- else if eq .Values.distribution "microshift" -}}
/run/cni/bin
{{- else if eq .Values.distribution "gke" -}}
/home/kubernetes/bin
{{- else if eq .Values.distribution "microk8s" -}}
/var/snap/microk8s/current/opt/cni/bin
{{- else -}}
/opt/cni/bin
{{- end -}}
{{- end -}}
