{{/* Names, labels and what several templates need. Names that outlive an upgrade never change (ADR 6). */}}

{{- define "stampede.broker" -}}
{{- default .Release.Name .Values.names.broker | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "stampede.acceptor" -}}
{{- default (printf "%s-stomp" (.Release.Name | trunc 34 | trimSuffix "-")) .Values.names.acceptor | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "stampede.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "stampede.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* dict "root" $ "component" "operator" */}}
{{- define "stampede.selector" -}}
app.kubernetes.io/name: stampede
app.kubernetes.io/instance: {{ include "stampede.broker" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "stampede.labels" -}}
{{ include "stampede.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Restricted pod security. dict "root" $ "user" 10001 */}}
{{- define "stampede.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
fsGroup: {{ .user }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "stampede.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "stampede.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "stampede.etcdEndpoints" -}}
{{- if eq .Values.etcd.mode "external" -}}
{{ required "etcd.external.endpoints is empty: name host:port of your etcd, or set etcd.mode to bundled" .Values.etcd.external.endpoints }}
{{- else -}}
{{- $name := printf "%s-etcd" (include "stampede.name" .) -}}
{{- $hosts := list -}}
{{- range $n := until (int .Values.etcd.bundled.replicas) -}}
{{- $hosts = append $hosts (printf "%s-%d.%s.%s.svc:2379" $name $n $name $.Release.Namespace) -}}
{{- end -}}
{{ join "," $hosts }}
{{- end -}}
{{- end -}}

{{/* Secret of the certificates between components. */}}
{{- define "stampede.componentsSecret" -}}
{{ default (printf "%s-components" (include "stampede.broker" .)) .Values.tls.components.secretName }}
{{- end -}}

{{/* The same of owners and of edges alone: dict "root" $ "role" "owner". "existing": as said, else that of all. */}}
{{- define "stampede.roleSecret" -}}
{{- $tls := .root.Values.tls.components -}}
{{- $said := index (dict "owner" $tls.ownersSecretName "edge" $tls.edgesSecretName) .role -}}
{{- if $said -}}
{{ $said }}
{{- else if eq $tls.mode "existing" -}}
{{ include "stampede.componentsSecret" .root }}
{{- else -}}
{{ include "stampede.broker" .root }}-{{ .role }}-components
{{- end -}}
{{- end -}}

{{/* Names in the certificate of a role: its own one counts where cluster.roleDomain is stampede.internal. */}}
{{- define "stampede.roleNames" -}}
{{- $names := ternary (include "stampede.componentNames" .root | fromYamlArray) (list) (eq .role "owner") -}}
{{ append $names (printf "%s.stampede.internal" .role) | toYaml }}
{{- end -}}

{{/* Secret of a user of the bundled etcd: dict "root" $ "user" "owner". */}}
{{- define "stampede.etcdUserSecret" -}}
{{ include "stampede.name" .root }}-etcd-{{ .user }}
{{- end -}}

{{/* What etcd's own members show. */}}
{{- define "stampede.etcdSecret" -}}
{{- if eq .Values.tls.components.mode "existing" -}}
{{ include "stampede.componentsSecret" . }}
{{- else -}}
{{ include "stampede.name" . }}-etcd-tls
{{- end -}}
{{- end -}}

{{/* What our processes show to etcd: "" = plain text. */}}
{{- define "stampede.etcdClientSecret" -}}
{{- if eq .Values.etcd.mode "external" -}}
{{ .Values.etcd.external.tlsSecretName }}
{{- else -}}
{{ include "stampede.componentsSecret" . }}
{{- end -}}
{{- end -}}

{{/* Names in the certificates, as lists in YAML. */}}
{{- define "stampede.componentNames" -}}
{{- $owner := printf "%s-owner.%s.svc" (include "stampede.broker" .) .Release.Namespace -}}
{{ list $owner (printf "*.%s" $owner) (printf "*.%s.cluster.local" $owner) "localhost" | toYaml }}
{{- end -}}

{{- define "stampede.etcdNames" -}}
{{- $etcd := printf "%s-etcd" (include "stampede.name" .) -}}
{{- $service := printf "%s.%s.svc" $etcd .Release.Namespace -}}
{{- $names := list $service (printf "*.%s" $service) (printf "*.%s.cluster.local" $service) "localhost" -}}
{{- /* A member looks up the names of a peer's certificate: wildcards would need reverse DNS. */ -}}
{{- range $n := until 5 }}{{ $names = append $names (printf "%s-%d.%s" $etcd $n $service) }}{{ end -}}
{{ $names | toYaml }}
{{- end -}}

{{- define "stampede.clientNames" -}}
{{- $service := printf "%s.%s.svc" (include "stampede.acceptor" .) .Release.Namespace -}}
{{- $admin := printf "%s-edge-admin" (include "stampede.acceptor" .) -}}
{{- $admins := list $admin (printf "%s.%s.svc" $admin .Release.Namespace) -}}
{{ concat (list (include "stampede.acceptor" .) $service (printf "%s.cluster.local" $service) "localhost") $admins .Values.tls.clients.dnsNames | toYaml }}
{{- end -}}

{{- define "stampede.clientsSecret" -}}
{{- if ne .Values.tls.clients.mode "none" -}}
{{ default (printf "%s-tls" (include "stampede.acceptor" .)) .Values.tls.clients.secretName }}
{{- end -}}
{{- end -}}

{{- define "stampede.pdbVersion" -}}
{{- if .Capabilities.APIVersions.Has "policy/v1" -}}policy/v1{{- else -}}policy/v1beta1{{- end -}}
{{- end -}}

{{/* What the chart knows better than the user, laid under broker.spec. */}}
{{- define "stampede.brokerSpec" -}}
{{- $etcd := dict "endpoints" (splitList "," (include "stampede.etcdEndpoints" . | nospace)) -}}
{{- with include "stampede.etcdClientSecret" . }}{{ $_ := set $etcd "tlsSecretName" . }}{{ end -}}
{{- if eq .Values.etcd.mode "external" }}{{ with .Values.etcd.external.userSecretName }}{{ $_ := set $etcd "userSecretName" . }}{{ end }}{{ end -}}
{{- $tls := dict "secretName" (include "stampede.componentsSecret" .) -}}
{{- range $role := list "owner" "edge" -}}
{{- $secret := include "stampede.roleSecret" (dict "root" $ "role" $role) -}}
{{- if ne $secret (include "stampede.componentsSecret" $) }}{{ $_ := set $tls (printf "%ssSecretName" $role) $secret }}{{ end -}}
{{- if eq $.Values.etcd.mode "bundled" -}}
{{- $login := dict -}}
{{- if ne $secret (include "stampede.componentsSecret" $) }}{{ $_ := set $login "tlsSecretName" $secret }}{{ end -}}
{{- if ne $.Values.etcd.bundled.users "none" }}{{ $_ := set $login "userSecretName" (include "stampede.etcdUserSecret" (dict "root" $ "user" $role)) }}{{ end -}}
{{- if $login }}{{ $_ := set $etcd (printf "%ss" $role) $login }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.etcd.mode "bundled") (ne .Values.etcd.bundled.users "none") -}}
{{- $_ := set $etcd "userSecretName" (include "stampede.etcdUserSecret" (dict "root" $ "user" "operator")) -}}
{{- $_ := set $etcd "rootSecretName" (include "stampede.etcdUserSecret" (dict "root" $ "user" "root")) -}}
{{- if eq .Values.etcd.bundled.users "required" }}{{ $_ := set $etcd "authEnabled" true }}{{ end -}}
{{- end -}}
{{- $spec := dict "etcd" $etcd "imagePullPolicy" .Values.image.pullPolicy -}}
{{- $pulls := list }}{{ range .Values.image.pullSecrets }}{{ $pulls = append $pulls (dict "name" .) }}{{ end -}}
{{- if $pulls }}{{ $_ := set $spec "imagePullSecrets" $pulls }}{{ end -}}
{{- $_ := set $spec "tls" $tls -}}
{{- if eq .Values.redis.mode "bundled" -}}
{{- $redis := printf "%s-redis" (include "stampede.name" .) -}}
{{- $_ := set $spec "redis" (dict "url" (printf "redis://%s.%s.svc:6379/0" $redis .Release.Namespace) "passwordSecretName" $redis) -}}
{{- else if eq .Values.redis.mode "external" -}}
{{- $redis := dict "url" (required "redis.external.url is empty: name your Redis, or set redis.mode to none" .Values.redis.external.url) -}}
{{- with .Values.redis.external.passwordSecretName }}{{ $_ := set $redis "passwordSecretName" . }}{{ end -}}
{{- $_ := set $spec "redis" $redis -}}
{{- end -}}
{{- /* With fewer than three owners there cannot be three copies. */ -}}
{{- $owners := default 3 (default dict .Values.broker.spec.owners).replicas | int -}}
{{- if lt $owners 3 }}{{ $_ := set $spec "replication" (dict "factor" $owners "minInSync" $owners) }}{{ end -}}
{{- $scrapers := deepCopy .Values.networkPolicy.scrapers -}}
{{- with include "stampede.metricsSecret" . }}{{ $_ := set $scrapers "tokenSecretName" . }}{{ end -}}
{{- $_ := set $spec "scrapers" $scrapers -}}
{{- if .Values.operator.readNodes }}{{ $_ := set $spec "zonesFromNodes" true }}{{ end -}}
{{- if (default dict .Values.uninstall).deleteClaims }}{{ $_ := set $spec "owners" (dict "storage" (dict "whenDeleted" "Delete")) }}{{ end -}}
{{- mergeOverwrite $spec (deepCopy .Values.broker.spec) | toYaml -}}
{{- end -}}

{{- define "stampede.acceptorSpec" -}}
{{- $listeners := list (dict "name" "stomp" "port" 61613) (dict "name" "stomp-ws" "port" 61614 "transport" "websocket") -}}
{{- if .Values.tls.clients.only }}{{ $listeners = list }}{{ end -}}
{{- with include "stampede.clientsSecret" . -}}
{{- $listeners = append $listeners (dict "name" "stomp-tls" "port" 61612 "tls" (dict "secretName" .)) -}}
{{- end -}}
{{- $spec := dict "brokerRef" (dict "name" (include "stampede.broker" .)) "listeners" $listeners -}}
{{- if .Values.tls.clients.only }}{{ $_ := set $spec "settings" (dict "edge" (dict "clearText" "refuse")) }}{{ end -}}
{{- with include "stampede.clientsSecret" . -}}
{{- $admin := printf "%s-edge-admin" (include "stampede.acceptor" $) -}}
{{- $names := concat (list $admin (printf "%s.%s.svc" $admin $.Release.Namespace)) $.Values.tls.clients.dnsNames -}}
{{- $_ := set $spec "adminTls" (dict "secretName" . "hosts" $names) -}}
{{- end -}}
{{- mergeOverwrite $spec (deepCopy .Values.acceptor.spec) | toYaml -}}
{{- end -}}

{{/* "yes" when this release brings the kind: dict "root" $ "crd" "addresses.stampede.dev". One that is there already and was not
brought by this release is left alone. */}}
{{- define "stampede.bringsCrd" -}}
{{- if .root.Values.crds.install -}}
{{- if .root.Values.gitOps -}}yes{{- else -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .crd -}}
{{- $notes := dig "metadata" "annotations" (dict) (default dict $there) -}}
{{- $same := and (eq (get $notes "meta.helm.sh/release-name") .root.Release.Name) (eq (get $notes "meta.helm.sh/release-namespace") .root.Release.Namespace) -}}
{{- if or (not $there) $same -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Who reads metrics, in a NetworkPolicy. */}}
{{- define "stampede.scrapers" -}}
- namespaceSelector: {{ with .Values.networkPolicy.scrapers.namespaceLabels }}{{ dict "matchLabels" . | toJson }}{{ else }}{}{{ end }}
  podSelector: {{ dict "matchLabels" .Values.networkPolicy.scrapers.podLabels | toJson }}
{{- end -}}

{{/* The Secret whose `password` whoever reads metrics shows; "": none. */}}
{{- define "stampede.metricsSecret" -}}
{{- if .Values.metrics.token.create -}}
{{- if .Values.metrics.token.secretName }}{{ fail "metrics.token.create makes a Secret of its own; leave metrics.token.secretName empty, or create off" }}{{ end -}}
{{- printf "%s-metrics" (include "stampede.name" .) -}}
{{- else -}}
{{- .Values.metrics.token.secretName -}}
{{- end -}}
{{- end -}}

{{/* The same in an endpoint of a ServiceMonitor. */}}
{{- define "stampede.metricsAuthorization" -}}
{{- with include "stampede.metricsSecret" . -}}
authorization: {type: Bearer, credentials: {name: {{ . }}, key: password}}
{{- end -}}
{{- end -}}

{{/* Where the page of an alert is: below metrics.rules.runbooks, or in the sources. */}}
{{- define "stampede.runbook" -}}
{{- with .root.Values.metrics.rules.runbooks -}}
runbook_url: {{ printf "%s/%s.md" (trimSuffix "/" .) $.alert | quote }}
{{- else -}}
runbook: docs/runbooks/{{ .alert }}.md
{{- end }}
{{- end }}

{{/* Certificates that nobody else makes: by Helm, or with gitOps by the operator. */}}
{{- define "stampede.signed" -}}
{{- $wanted := list }}
{{- if eq .Values.tls.components.mode "selfSigned" }}
{{- $wanted = append $wanted (dict "secret" (include "stampede.componentsSecret" .) "names" (include "stampede.componentNames" . | fromYamlArray) "component" "components") }}
{{- range $role := list "owner" "edge" }}
{{- $wanted = append $wanted (dict "secret" (include "stampede.roleSecret" (dict "root" $ "role" $role)) "names" (include "stampede.roleNames" (dict "root" $ "role" $role) | fromYamlArray) "component" "components") }}
{{- end }}
{{- if eq .Values.etcd.mode "bundled" }}
{{- $wanted = append $wanted (dict "secret" (include "stampede.etcdSecret" .) "names" (include "stampede.etcdNames" . | fromYamlArray) "component" "etcd") }}
{{- end }}
{{- end }}
{{- if eq .Values.tls.clients.mode "selfSigned" }}
{{- $wanted = append $wanted (dict "secret" (include "stampede.clientsSecret" .) "names" (include "stampede.clientNames" . | fromYamlArray) "component" "edge") }}
{{- end }}
{{ toYaml $wanted }}
{{- end -}}

{{/* What the operator is to make where there is none (gitOps), else what it is to renew: the certificates that Helm made; "":
nothing (operator/broker_operator/kube/made_secrets.py). */}}
{{- define "stampede.madeSecrets" -}}
{{- $certificates := list -}}
{{- range include "stampede.signed" . | fromYamlArray }}{{ $certificates = append $certificates (dict "secret" .secret "names" .names) }}{{ end -}}
{{- $passwords := list -}}
{{- if and (eq .Values.etcd.mode "bundled") (ne .Values.etcd.bundled.users "none") -}}
{{- range $user := list "root" "operator" "owner" "edge" -}}
{{- $passwords = append $passwords (dict "secret" (include "stampede.etcdUserSecret" (dict "root" $ "user" $user)) "username" $user) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.redis.mode "bundled" }}{{ $passwords = append $passwords (dict "secret" (printf "%s-redis" (include "stampede.name" .))) }}{{ end -}}
{{- if .Values.metrics.token.create }}{{ $passwords = append $passwords (dict "secret" (include "stampede.metricsSecret" .)) }}{{ end -}}
{{- $made := dict "release" (include "stampede.name" .) "passwords" $passwords "certificates" $certificates -}}
{{- if not .Values.gitOps }}{{ $_ := set $made "passwords" list }}{{ $_ := set $made "renewed" true }}{{ end -}}
{{- if $certificates -}}
{{- $_ := set $made "authority" (printf "%s-ca" (include "stampede.name" .)) -}}
{{- $_ := set $made "subject" (printf "Stampede %s" (include "stampede.broker" .)) -}}
{{- $_ := set $made "days" (mul 365 (int .Values.tls.components.years) | int) -}}
{{- end -}}
{{- if or .Values.gitOps $certificates }}{{ toJson $made }}{{ end -}}
{{- end -}}
