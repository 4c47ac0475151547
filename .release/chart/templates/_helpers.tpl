{{- define "flunq.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "flunq.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "flunq.labels" -}}
{{ include "flunq.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
{{- end -}}

{{- /* The Deployments by name, each with its values, its arguments, and whether it answers gRPC. */ -}}
{{- define "flunq.deployments" -}}
{{- $names := list "all" -}}
{{- if .Values.separate -}}
{{- $names = list "worker" "executor" "timer" -}}
{{- if .Values.scheduler.enabled -}}{{- $names = append $names "scheduler" -}}{{- end -}}
{{- end -}}
{{- $deployments := dict -}}
{{- range $name := $names -}}
{{- $args := list "serve" -}}
{{- if ne $name "all" -}}
{{- $args = concat $args (list "--only" $name) -}}
{{- else if $.Values.scheduler.enabled -}}
{{- $args = append $args "--scheduler" -}}
{{- end -}}
{{- if has $name (list "all" "executor") -}}
{{- if $.Values.allowPrivate -}}{{- $args = append $args "--allow-private" -}}{{- end -}}
{{- end -}}
{{- with $.Values.workflowSecrets -}}
{{- if .existingSecret -}}{{- $args = concat $args (list "--secrets" (printf "/etc/flunq/secrets/%s" .key)) -}}{{- end -}}
{{- end -}}
{{- $grpc := and $.Values.scheduler.enabled (has $name (list "all" "scheduler")) -}}
{{- $own := mustMergeOverwrite (deepCopy $.Values.defaults) (index $.Values.deployments $name) -}}
{{- $_ := set $deployments $name (dict "values" $own "args" $args "grpc" $grpc "fullname" (printf "%s-%s" (include "flunq.fullname" $) $name)) -}}
{{- end -}}
{{- toYaml $deployments -}}
{{- end -}}
