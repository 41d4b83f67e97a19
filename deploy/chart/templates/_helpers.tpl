{{/* Names and labels that several manifests share. */}}

{{- define "spotsieve.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* What never changes while the release lives: selectors are immutable. */}}
{{- define "spotsieve.selector" -}}
app.kubernetes.io/name: spotsieve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spotsieve.labels" -}}
{{ include "spotsieve.selector" . }}
{{ include "spotsieve.common-labels" . }}
{{- end }}

{{- define "spotsieve.common-labels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of a resource, as a whole line of its metadata; given other ones as "own". */}}
{{- define "spotsieve.annotations" -}}
{{- with merge (dict) (.own | default dict) .top.Values.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* `serve` and the resize Job have an app name of their own, so the selectors of the service do not match them. Given "top", "name". */}}
{{- define "spotsieve.other-selector" -}}
app.kubernetes.io/name: spotsieve-{{ .name }}
app.kubernetes.io/instance: {{ .top.Release.Name }}
{{- end }}

{{- define "spotsieve.other-labels" -}}
{{ include "spotsieve.other-selector" . }}
{{ include "spotsieve.common-labels" .top }}
{{- end }}

{{/* The same of one role, given the top as "top", the "role" ("" where one process does all), and "of" for one set of shards. */}}
{{- define "spotsieve.role-selector" -}}
{{ include "spotsieve.selector" .top }}
{{- include "spotsieve.role" . }}
{{- end }}

{{- define "spotsieve.role-labels" -}}
{{ include "spotsieve.labels" .top }}
{{- include "spotsieve.role" . }}
{{- end }}

{{- define "spotsieve.role" -}}
{{- with .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .of }}
spotsieve/shards: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "spotsieve.image" -}}
{{- with .Values.image -}}
{{ with .registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "spotsieve.has-login" -}}
{{- if hasPrefix "SASL" .Values.kafka.securityProtocol }}yes{{ end }}
{{- end }}

{{- define "spotsieve.has-ca" -}}
{{- if and .Values.kafka.privateCa (hasSuffix "SSL" .Values.kafka.securityProtocol) }}yes{{ end }}
{{- end }}

{{/* The environment of the filter and of what makes its topics. */}}
{{- define "spotsieve.environment" -}}
- {name: SPOTSIEVE_KAFKA__BOOTSTRAP_SERVERS, value: {{ .Values.kafka.bootstrapServers | quote }}}
- {name: SPOTSIEVE_KAFKA__SECURITY_PROTOCOL, value: {{ .Values.kafka.securityProtocol }}}
{{- if include "spotsieve.has-login" . }}
- {name: SPOTSIEVE_KAFKA__SASL_MECHANISM, value: {{ .Values.kafka.saslMechanism }}}
- {name: SPOTSIEVE_KAFKA__SASL_USERNAME, value: {{ .Values.kafka.saslUsername | quote }}}
# Files, not secretKeyRef: a variable is seen by whoever may describe the process.
- {name: SPOTSIEVE_KAFKA__SASL_PASSWORD_FILE, value: /etc/spotsieve/kafka/password}
{{- end }}
{{- if include "spotsieve.has-ca" . }}
- {name: SPOTSIEVE_KAFKA__SSL_CAFILE, value: /etc/spotsieve/kafka/ca.pem}
{{- end }}
{{- range $name, $value := .Values.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spotsieve.service-account" -}}
{{- with .Values.serviceAccount }}{{ .name | default (ternary (include "spotsieve.name" $) "default" .create) }}{{ end }}
{{- end }}

{{/* What every container may do: nothing. */}}
{{- define "spotsieve.rights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where the containers that speak to Kafka find settings and secrets. */}}
{{- define "spotsieve.mounts" -}}
- {name: config, mountPath: /etc/spotsieve/spotsieve.toml, subPath: spotsieve.toml, readOnly: true}
{{- if .Values.kafka.secret }}
- {name: kafka, mountPath: /etc/spotsieve/kafka, readOnly: true}
{{- end }}
{{ include "spotsieve.writable" . }}
{{- end }}

{{/* What must be writable beside the state where the root file system is not, and the volumes of one's own. */}}
{{- define "spotsieve.writable" -}}
- {name: kernels, mountPath: /var/cache/spotsieve}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
