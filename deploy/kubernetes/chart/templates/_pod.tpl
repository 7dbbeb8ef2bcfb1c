{{- define "rxlab.labels" -}}
app.kubernetes.io/name: rxlab
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "rxlab.image" -}}
image: {{ required "image is required: a registry of yours, and a tag or a digest" .Values.image | quote }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
{{- end }}

{{/* What every pod that only reads has. */}}
{{- define "rxlab.reads" -}}
# The interfaces of the node, and its processes. Nothing here talks to the API.
hostNetwork: true
hostPID: true
dnsPolicy: Default
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 9942
  runAsGroup: 9942
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* An ordinary user has those of its capabilities that the program's file permits (ADR 58). */}}
{{- define "rxlab.securityContext" -}}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
    {{- with . }}
    add: {{ toJson . }}
    {{- end }}
{{- end }}
