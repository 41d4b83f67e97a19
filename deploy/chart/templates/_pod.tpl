{{/* The pod of every role, its parts that other pods share, and the volume of a state. */}}

{{/* Given the top as "top", the "role" (worker, shard or resolver; "" where one process does all), and for shards "of": how many. */}}
{{- define "spotsieve.pod" -}}
{{- $role := .role }}
{{- with .top }}
{{- if and (or (include "spotsieve.has-login" .) (include "spotsieve.has-ca" .)) (not .Values.kafka.secret) }}
{{- fail "kafka.secret must name a secret with a password for SASL, and with ca.pem for SSL, got none; create one, set kafka.privateCa to false for a CA that everybody trusts, or another kafka.securityProtocol" }}
{{- end }}
{{- $resources := .Values.resources }}
{{- $shards := $.of | default .Values.cluster.shards }}
{{- if eq $role "worker" }}{{ $resources = .Values.cluster.workerResources }}{{ end }}
{{- if eq $role "resolver" }}{{ $resources = .Values.cluster.resolverResources }}{{ end -}}
metadata:
  labels:
    {{- include "spotsieve.role-labels" $ | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # A changed configuration starts the pods anew.
    spotsieve/config: {{ .Values.config | sha256sum }}
    # For a Prometheus without the operator that finds pods by annotations. Its job label must be "spotsieve".
    prometheus.io/scrape: "true"
    prometheus.io/port: "9464"
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  terminationGracePeriodSeconds: 15 # it drains, commits and closes within 10 s
  {{- include "spotsieve.identity" . | nindent 2 }}
  initContainers:
    {{- include "spotsieve.copy-kernels" . | nindent 4 }}
    {{- if .Values.topics.create }}
    - name: topics # makes those that are missing, and looks at the others
      image: {{ include "spotsieve.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [topics, create, -c, /etc/spotsieve/spotsieve.toml, --partitions, {{ .Values.topics.partitions | quote }}, --replication, {{ .Values.topics.replication | quote }}]
      env:
        {{- include "spotsieve.environment" . | nindent 8 }}
        {{- with $shards }}
        - {name: SPOTSIEVE_CLUSTER__SHARDS, value: {{ . | quote }}}
        {{- end }}
      securityContext: {{- include "spotsieve.rights" . | nindent 8 }}
      resources:
        requests: {cpu: 100m, memory: 128Mi}
        limits: {memory: 512Mi}
      volumeMounts: {{- include "spotsieve.mounts" . | nindent 8 }}
    {{- end }}
  containers:
    - name: filter
      image: {{ include "spotsieve.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- if eq $role "shard" }}
      args: [run, -c, /etc/spotsieve/spotsieve.toml, --role, shard, --shard, $(POD_INDEX)]
      {{- else if $role }}
      args: [run, -c, /etc/spotsieve/spotsieve.toml, --role, {{ $role }}]
      {{- else }}
      args: [run, -c, /etc/spotsieve/spotsieve.toml]
      {{- end }}
      env:
        {{- include "spotsieve.environment" . | nindent 8 }}
        {{- with $shards }}
        - {name: SPOTSIEVE_CLUSTER__SHARDS, value: {{ . | quote }}}
        {{- end }}
        {{- if eq $role "shard" }}
        # The number of a pod in its StatefulSet is that of its shard.
        - {name: POD_INDEX, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}
        {{- end }}
      ports:
        - {name: metrics, containerPort: 9464}
      # The port answers once Python has read its modules: the other probes wait for that on a cold, slow disk.
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 2
        failureThreshold: 60
      # A worker that waits for its broker, or rebuilds its state, is alive and not ready. One whose event loop or
      # judge stands still is not alive (docs/operations.md has the bounds).
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 3
        failureThreshold: 6
      {{- if eq $role "resolver" }}
      # Alive is enough: one that stands by is never ready, and an update would wait for it for ever.
      readinessProbe:
        httpGet: {path: /healthz, port: metrics}
      {{- else }}
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
      {{- end }}
        timeoutSeconds: 3
      resources: {{- toYaml $resources | nindent 8 }}
      securityContext: {{- include "spotsieve.rights" . | nindent 8 }}
      volumeMounts:
        {{- if ne $role "resolver" }}
        - {name: state, mountPath: /var/lib/spotsieve}
        {{- end }}
        {{- include "spotsieve.mounts" . | nindent 8 }}
  volumes:
    {{- include "spotsieve.config-volumes" . | nindent 4 }}
    {{- include "spotsieve.volumes" . | nindent 4 }}
    {{- if eq $role "worker" }}
    - name: state # no state: a worker keeps pages here that broke the code, 64 MiB at most
      emptyDir: {sizeLimit: 128Mi}
    {{- end }}
  {{- if or (eq $role "shard") (eq $role "resolver") }}
  topologySpreadConstraints: # a lost node takes one shard with it, and not both resolvers, where there are nodes enough
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "spotsieve.role-selector" $ | nindent 10 }}
  {{- end }}
  {{- with include "spotsieve.nodes" . }}{{ . | trim | nindent 2 }}{{ end }}
{{- end }}
{{- end }}

{{/* Who a pod is: its account, its user, and the secrets that its images need. */}}
{{- define "spotsieve.identity" -}}
serviceAccountName: {{ include "spotsieve.service-account" . }}
automountServiceAccountToken: false
enableServiceLinks: false # of a release named spotsieve they set SPOTSIEVE_SERVE_PORT, which looks like a setting
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch # else every start walks through the whole state
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {name: {{ . }}}
  {{- end }}
{{- end }}
{{- end }}

{{- define "spotsieve.copy-kernels" -}}
# The image brings kernels compiled. Its file system is read-only, and numba takes no cache that it cannot write to, so
# they are copied to where the filter looks for them. Another CPU than the image's compiles its own there.
- name: kernels
  image: {{ include "spotsieve.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [cp, -R, /var/cache/spotsieve/., /kernels]
  securityContext: {{- include "spotsieve.rights" . | nindent 4 }}
  resources:
    requests: {cpu: 50m, memory: 32Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - {name: kernels, mountPath: /kernels}
{{- end }}

{{/* The settings, and the secret of the broker. */}}
{{- define "spotsieve.config-volumes" -}}
- name: config
  configMap: {name: {{ include "spotsieve.name" . }}}
{{- with .Values.kafka.secret }}
- name: kafka
  secret:
    secretName: {{ . }}
    defaultMode: 0440 # without it everybody in the container can read the password, and a warning says so
{{- end }}
{{- end }}

{{- define "spotsieve.volumes" -}}
- name: kernels # filled by the first init container
  emptyDir: {sizeLimit: 256Mi}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spotsieve.nodes" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The volume of a state. Given its size and className. */}}
{{- define "spotsieve.claims" -}}
- metadata:
    name: state
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end }}
