{{/* What the pods of one role are called and found by. Takes (list . "api"). */}}
{{- define "atelier.name" -}}
{{- $root := index . 0 -}}{{- $role := index . 1 -}}
{{ printf "%s-%s" $root.Release.Name $role | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "atelier.selector" -}}
{{- $root := index . 0 -}}{{- $role := index . 1 -}}
app.kubernetes.io/name: atelier
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ $role }}
{{- end }}

{{- define "atelier.labels" -}}
{{ include "atelier.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
{{- end }}

{{/* Takes (list . "worker"), the Dockerfile's name. */}}
{{- define "atelier.image" -}}
{{- $root := index . 0 -}}{{- $image := $root.Values.image -}}
{{- $tag := toString (default (printf "v%s" $root.Chart.AppVersion) $image.tag) -}}
{{- if hasPrefix "sha256:" $tag }}{{ fail "image.tag: a digest is of one image alone: name a release" }}{{ end -}}
{{ $image.registry }}/{{ $image.name }}-{{ index . 1 }}:{{ $tag }}
{{- end }}

{{/* Of every pod of ours: no root, no capabilities, no token of the cluster's. */}}
{{- define "atelier.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "atelier.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* A secret as a variable. Takes (list . "REDIS_PASSWORD" "redis-password"). */}}
{{- define "atelier.secret" -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef: {name: {{ (index . 0).Values.secret }}, key: {{ index . 2 }}}
{{- end }}

{{/* The job store: everybody's. */}}
{{- define "atelier.redis" -}}
{{ include "atelier.secret" (list . "REDIS_PASSWORD" "redis-password") }}
- name: ATELIER_REDIS_URL
  value: {{ .Values.stores.redisUrl }}
{{- end }}

{{/* The archive, if there is one: of those who move, read and tell what ended a while ago. */}}
{{- define "atelier.archive" -}}
{{- if .Values.stores.archiveUrl -}}
{{ include "atelier.secret" (list . "POSTGRES_PASSWORD" "postgres-password") }}
- name: ATELIER_ARCHIVE_URL
  value: {{ .Values.stores.archiveUrl }}
{{- end }}
{{- end }}

{{/* The object store: of those who read or write images. */}}
{{- define "atelier.objects" -}}
{{ include "atelier.secret" (list . "ATELIER_S3_ACCESS_KEY" "s3-access-key") }}
{{ include "atelier.secret" (list . "ATELIER_S3_SECRET_KEY" "s3-secret-key") }}
{{- end }}

{{/* Pods of one role spread over nodes. Takes (list . "api"). */}}
{{- define "atelier.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "atelier.selector" . | nindent 8 }}
{{- end }}

{{/* Who a worker is, and where others reach it. */}}
{{- define "atelier.worker" -}}
- name: ATELIER_WORKER_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: ATELIER_CONTROL_HOST
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
- {name: ATELIER_METRICS_HOST, value: "0.0.0.0"}
- {name: ATELIER_METRICS_PORT, value: "9100"}
{{- end }}

{{/* The volume of models. */}}
{{- define "atelier.claim" -}}
{{ default (include "atelier.name" (list . "models")) .Values.models.existingClaim }}
{{- end }}
