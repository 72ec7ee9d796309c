#!/usr/bin/env bash
# Starts a real Kubernetes API server for tests/operator/api, and prints the path of a kubeconfig as its only line on
# standard output. What is missing is built once, from Debian's own packages: kube-apiserver 1.20 (bookworm has its whole
# source), and in front of it the CRD server of the newest Kubernetes (from sid's Go libraries), because 1.20 knows no CEL.
# First time 8 to 14 minutes on two cores, later some seconds. Needs Debian, root for missing packages, 4 GB of disk.
#   KUBE_LEVEL  api (default): etcd, API server, CRD server; ctl: controllers as well, so that garbage is collected
#   KUBE_CACHE  what was built        KUBE_RUN  state of this instance        KUBE_PORT, KUBE_ETCD_PORT  ports, and the next ones
set -euo pipefail
umask 022
HERE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

KUBE_CACHE=${KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-here}   # built binaries, kept
KUBE_RUN=${KUBE_RUN:-$KUBE_CACHE/run}                                # state of this instance
KUBE_LEVEL=${KUBE_LEVEL:-api}
KUBE_PORT=${KUBE_PORT:-16443}
KUBE_ETCD_PORT=${KUBE_ETCD_PORT:-22379}
KUBE_JOBS=${KUBE_JOBS:-2}
KUBE_KEEP_GOCACHE=${KUBE_KEEP_GOCACHE:-0}
SUITE=bookworm                           # the last suite with all of Kubernetes' source
GOVER=1.19
CRD_SUITE=sid                            # the suite with the newest CRD server's libraries
CRD_GOVER=1.26
SVC_NET=${KUBE_SVC_NET:-10.96.0.0/16}

case $KUBE_LEVEL in
  api) want="kube-apiserver apiextensions-apiserver" ;;
  ctl) want="kube-apiserver apiextensions-apiserver kube-controller-manager" ;;
  *) echo "KUBE_LEVEL must be api or ctl" >&2; exit 2 ;;
esac

mkdir -p "$KUBE_CACHE"/{bin,debs,root} "$KUBE_RUN"
KUBE_CACHE=$(cd "$KUBE_CACHE" && pwd -P); KUBE_RUN=$(cd "$KUBE_RUN" && pwd -P)
BIN=$KUBE_CACHE/bin; ROOT=$KUBE_CACHE/root
export PATH="$BIN:$PATH:/usr/sbin:/sbin"
exec 9>"$KUBE_CACHE/up.lock"; flock 9     # one build or start at a time
say() { echo "kube: $*" >&2; }
die() { say "$*"; exit 1; }

need() {  # need COMMAND-OR-FILE=PACKAGE...: install on the system the packages that are missing
  local x miss=()
  for x; do command -v "${x%%=*}" >/dev/null || [ -e "${x%%=*}" ] || miss+=("${x#*=}"); done
  [ ${#miss[@]} -gt 0 ] || return 0
  say "installing ${miss[*]}"
  ( unset APT_CONFIG; export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update || true
    apt-get -qq install -y --no-install-recommends "${miss[@]}" ) >&2 || die "cannot install ${miss[*]} (root?)"
}

# --- a private apt: the machine's own mirror, one suite, sources too ---------
mirror() {
  local uris
  uris=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n -e 's/^URIs:[[:space:]]*//p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' | tr ' ' '\n' | sed 's#/*$##') || true
  grep '/debian$' <<<"$uris" | sed -n 1p
}
private_apt() {  # private_apt SUITE: from here on apt knows that suite only, and nothing as installed
  local a=$KUBE_CACHE/apt-$1 m k="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
  export APT_CONFIG=$a/apt.conf
  [ -z "$(find "$a/ready" -mmin -60 2>/dev/null)" ] || return 0
  m=$(mirror); [ -n "$m" ] || die "no Debian mirror in the apt sources"
  mkdir -p "$a"/{state/lists/partial,cache/archives/partial}; : > "$a/status"
  printf '%s\n' "deb $k $m $1 main" "deb-src $k $m $1 main" > "$a/sources.list"
  cat > "$a/apt.conf" <<EOF
Dir::State "$a/state"; Dir::State::status "$a/status";
Dir::Cache "$a/cache"; Dir::Etc::sourcelist "$a/sources.list"; Dir::Etc::sourceparts "-";
Acquire::Languages "none"; Acquire::Check-Valid-Until "false"; Acquire::Retries "3"; APT::Sandbox::User "root";
EOF
  apt-get -qq update >&2 || die "apt-get update failed for $1"
  touch "$a/ready"
}
unpack() {  # unpack PACKAGE...: into $ROOT, nothing installed on the system
  ( private_apt $SUITE; cd "$KUBE_CACHE/debs"; for p; do
      ls "${p}"_*.deb >/dev/null 2>&1 || apt-get -qq download "$p" >&2
      dpkg -x "${p}"_*.deb "$ROOT"; done )
}

# --- build -------------------------------------------------------------------
stamp() {  # stamp VERSION PACKAGE...: linker flags with that version for those Go packages
  local v=$1 p ld="-s -w"; shift
  for p; do
    ld="$ld -X $p.gitVersion=v$v -X $p.gitMajor=1 -X $p.gitMinor=$(cut -d. -f2 <<<"$v") -X $p.gitTreeState=clean"
    ld="$ld -X $p.gitCommit=debian -X $p.buildDate=2021-01-13T00:00:00Z"
  done
  echo "$ld"
}
build() {
  local src=$KUBE_CACHE/gopath/src/k8s.io/kubernetes t ld
  say "building $* (once; about 5 minutes on two cores)"
  export GOROOT=$ROOT/usr/lib/go-$GOVER GOPATH=$KUBE_CACHE/gopath GOCACHE=$KUBE_CACHE/gocache
  export GO111MODULE=off GOFLAGS= GOPROXY=off CGO_ENABLED=0 PATH=$ROOT/usr/lib/go-$GOVER/bin:$PATH
  [ -x "$GOROOT/bin/go" ] || unpack golang-$GOVER-go golang-$GOVER-src
  if [ ! -f "$src/.ready" ]; then
    rm -rf "$KUBE_CACHE/src" "$src"; mkdir -p "$KUBE_CACHE/src" "$(dirname "$src")"
    unpack golang-github-modern-go-reflect2-dev
    ( private_apt $SUITE; cd "$KUBE_CACHE/src"; apt-get -qq source --download-only kubernetes >&2
      dpkg-source -x ./kubernetes_*.dsc tree >&2 )
    mv "$KUBE_CACHE/src/tree" "$src"
    patch -s -d "$src" -p1 < "$HERE/crds.patch"
    # The vendored reflect2 panics under Go >= 1.18; Debian packages the fixed one.
    local r=$src/vendor/github.com/modern-go/reflect2
    rm -rf "$r"; cp -r "$ROOT/usr/share/gocode/src/github.com/modern-go/reflect2" "$r"
    [ -n "$(ls "$r"/*.s 2>/dev/null)" ] || : > "$r/reflect2_amd64.s"
    # The tarball lacks the generated OpenAPI definitions.
    ( cd "$src"
      go build -p "$KUBE_JOBS" -o "$BIN/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
      dirs=$(find cmd pkg plugin vendor/k8s.io/*/ -name '*.go' ! -name '*_test.go' \
               -not -path '*/code-generator/*' -not -path '*/sample-apiserver/*' -print0 |
             xargs -0 grep -l '^// *+k8s:openapi-gen=' | xargs -n1 dirname | LC_ALL=C sort -u |
             sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
      "$BIN/openapi-gen" --logtostderr -i "$dirs" -p k8s.io/kubernetes/pkg/generated/openapi \
        -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
        -r "$KUBE_CACHE/violations" --output-base "$KUBE_CACHE/gen" >&2
      cmp -s "$KUBE_CACHE/violations" api/api-rules/violation_exceptions.list || say "OpenAPI report differs from upstream's list"
      cp "$KUBE_CACHE/gen/k8s.io/kubernetes/pkg/generated/openapi/zz_generated.openapi.go" pkg/generated/openapi/ )
    touch "$src/.ready"
  fi
  ld=$(stamp "$(sed -n '1s/.*really\([0-9.]*\)-.*/\1/p' "$src/debian/changelog")" \
    k8s.io/kubernetes/vendor/k8s.io/{client-go/pkg,component-base}/version)
  for t; do
    say "  go build $t"
    ( cd "$src"; go build -p "$KUBE_JOBS" -trimpath -ldflags "$ld" -o "$BIN/$t.new" "k8s.io/kubernetes/cmd/$t" )
    mv "$BIN/$t.new" "$BIN/$t"
  done
  [ "$KUBE_KEEP_GOCACHE" = 1 ] || rm -rf "$GOCACHE" "$KUBE_CACHE/gen" "$KUBE_CACHE/src" "$BIN/openapi-gen"
}
# The newest CRD server, from the Go libraries that sid packages. Of its dependencies only those that hold Go
# source are unpacked, without the largest of those that it never imports.
build_crds() {
  local r=$KUBE_CACHE/crd-root d=$KUBE_CACHE/crd-debs v p
  say "building apiextensions-apiserver (once; 140 MB to fetch, about 5 minutes)"
  mkdir -p "$r" "$d"
  ( private_apt $CRD_SUITE; cd "$d"
    apt-get -qq --no-install-recommends --print-uris install golang-k8s-apiextensions-apiserver-dev golang-$CRD_GOVER-go |
      cut -d' ' -f2 | sed 's/_.*//' | grep -E "^golang-($CRD_GOVER-(go|src)|.*-dev)\$" |
      grep -vE '(circl|pierrec-lz4|aws-sdk-go-v2|google-cloud|google-api|gonum.*|mongo-driver|x-image|nats-server|bubbletea|gofpdf)-dev$' > names
    grep -q . names || die "no golang-k8s-apiextensions-apiserver-dev in $CRD_SUITE"
    xargs apt-get -qq download < names >&2
    for p in ./*.deb; do dpkg -x "$p" "$r"; done )
  v=$(cd "$d" && echo golang-k8s-apiextensions-apiserver-dev_*.deb | sed 's/^[^_]*_0\.\([0-9.]*[0-9]\).*/1.\1/')
  export GOROOT=$r/usr/lib/go-$CRD_GOVER GOPATH=$r/usr/share/gocode GOCACHE=$KUBE_CACHE/gocache-crd
  export GO111MODULE=off GOFLAGS= GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0 PATH=$r/usr/lib/go-$CRD_GOVER/bin:$PATH
  say "  go build apiextensions-apiserver $v"
  go build -p "$KUBE_JOBS" -trimpath -ldflags "$(stamp "$v" k8s.io/{client-go/pkg,component-base}/version)" \
    -o "$BIN/apiextensions-apiserver.new" k8s.io/apiextensions-apiserver
  mv "$BIN/apiextensions-apiserver.new" "$BIN/apiextensions-apiserver"
  [ "$KUBE_KEEP_GOCACHE" = 1 ] || rm -rf "$GOCACHE" "$r" "$d"
}
need curl=curl openssl=openssl
missing=(); crds=
for t in $want; do
  [ -x "$BIN/$t" ] || case $t in apiextensions-apiserver) crds=1 ;; *) missing+=("$t") ;; esac
done
if [ -n "${missing[*]}$crds" ]; then
  need dpkg-source=dpkg-dev patch=patch \
    /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring
  [ ${#missing[@]} -eq 0 ] || ( build "${missing[@]}" )
  [ -z "$crds" ] || ( build_crds )
fi
ETCD=$(command -v etcd) || { ETCD=$ROOT/usr/bin/etcd; [ -x "$ETCD" ] || unpack etcd-server; }
# --- run ---------------------------------------------------------------------
cd "$KUBE_RUN"; mkdir -p log pid
runs() { [ -f "pid/$1" ] && [ "$(readlink "/proc/$(cat "pid/$1")/cwd")" = "$KUBE_RUN" ]; }
free() {  # free NAME PORT: unless NAME runs already, nobody else may have its port
  runs "$1" || ! ( exec 3<>"/dev/tcp/127.0.0.1/$2" ) 2>/dev/null || die "port $2 is taken: set KUBE_PORT and KUBE_ETCD_PORT"
}
up() {  # up NAME COMMAND...: start once, detached, remember the pid
  local n=$1; shift
  if runs "$n"; then return; fi
  setsid "$@" > "log/$n" 2>&1 < /dev/null 9>&- &
  echo $! > "pid/$n"
}
wait_for() {  # wait_for SECONDS NAME COMMAND...
  local end=$((SECONDS+$1)) n=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { tail -5 "log/$n" >&2; die "$n is not ready"; }
    kill -0 "$(cat "pid/$n")" 2>/dev/null || { tail -5 "log/$n" >&2; die "$n ended"; }
    sleep 0.1
  done
}
API=https://127.0.0.1:$KUBE_PORT
made="KUBE_PORT=$KUBE_PORT"
[ ! -f made ] || [ "$(cat made)" = "$made" ] || die "$KUBE_RUN was made with $(cat made): another KUBE_PORT: remove that folder, or say that port"
echo "$made" > made
if [ ! -f admin.kubeconfig ]; then
  ec() { openssl ecparam -name prime256v1 -genkey -noout; }
  ec > ca.key; ec > server.key; openssl genrsa -out sa.key 2048 2>/dev/null
  openssl req -x509 -new -key ca.key -days 3650 -subj /CN=kube-here-ca -out ca.crt 2>/dev/null
  openssl req -new -key server.key -subj /CN=kube-apiserver 2>/dev/null |
    openssl x509 -req -CA ca.crt -CAkey ca.key -set_serial 1 -days 3650 -out server.crt \
      -extfile <(echo "subjectAltName=IP:127.0.0.1,IP:${SVC_NET%.*.*}.0.1,DNS:localhost,DNS:crds.kube-system.svc,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local") 2>/dev/null
  ec > front-ca.key; ec > front.key      # the aggregator's identity towards aggregated API servers
  openssl req -x509 -new -key front-ca.key -days 3650 -subj /CN=kube-here-front-ca -out front-ca.crt 2>/dev/null
  openssl req -new -key front.key -subj /CN=front-proxy 2>/dev/null |
    openssl x509 -req -CA front-ca.crt -CAkey front-ca.key -set_serial 1 -days 3650 -out front.crt 2>/dev/null
  tok() { openssl rand -hex 16; }
  : > tokens.csv; chmod 600 tokens.csv ./*.key
  while read -r who user groups; do
    t=$(tok); echo "$t,$user,$user,\"$groups\"" >> tokens.csv
    ( umask 077; cat > "$who.kubeconfig.new" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "$API", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: $who, user: {token: $t}}]
contexts: [{name: here, context: {cluster: here, user: $who}}]
current-context: here
EOF
    )
    mv "$who.kubeconfig.new" "$who.kubeconfig"
  done <<EOF
controller-manager system:kube-controller-manager -
crds crds system:masters
admin admin system:masters
EOF
  sed -i 's/"-"/""/' tokens.csv
fi
post() {  # post PATH JSON: create an object; one that is there already will do
  local c
  c=$(curl -s --cacert ca.crt -o log/post -w '%{http_code}' -H "Authorization: Bearer $(grep ',admin,' tokens.csv | cut -d, -f1)" \
    -H 'Content-Type: application/json' -d "$2" "$API$1") || true
  [ "$c" = 201 ] || [ "$c" = 409 ]
}
aggregate() {  # aggregate SERVICE PORT GROUP VERSION: the API server forwards that group to a server on loopback
  post /api/v1/namespaces/kube-system/services '{"metadata":{"name":"'"$1"'"},"spec":{"type":"ExternalName",
    "externalName":"localhost","ports":[{"port":'"$2"'}]}}' &&
  post /apis/apiregistration.k8s.io/v1/apiservices '{"metadata":{"name":"'"$4.$3"'"},"spec":{"group":"'"$3"'",
    "version":"'"$4"'","groupPriorityMinimum":16700,"versionPriority":15,"caBundle":"'"$(base64 -w0 ca.crt)"'",
    "service":{"name":"'"$1"'","namespace":"kube-system","port":'"$2"'}}}'
}

E=http://127.0.0.1:$KUBE_ETCD_PORT; P=http://127.0.0.1:$((KUBE_ETCD_PORT+1))
free etcd "$KUBE_ETCD_PORT"; free apiserver "$KUBE_PORT"
up etcd "$ETCD" --name kube --data-dir etcd --listen-client-urls $E --advertise-client-urls $E \
  --listen-peer-urls $P --initial-advertise-peer-urls $P --initial-cluster kube=$P --unsafe-no-fsync
wait_for 20 etcd curl -sf $E/health

front=(--requestheader-client-ca-file=front-ca.crt --requestheader-allowed-names=front-proxy
  --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group
  --requestheader-extra-headers-prefix=X-Remote-Extra-)
# CRDs and their objects live in a server of their own (see crds.patch).
CRD_PORT=$((KUBE_PORT+4)); export KUBE_CRD_PORT=$CRD_PORT
up crds "$BIN/apiextensions-apiserver" --etcd-servers=$E --etcd-prefix=/registry-crds \
    --bind-address=127.0.0.1 --secure-port="$CRD_PORT" --tls-cert-file=server.crt --tls-private-key-file=server.key \
    --client-ca-file=ca.crt "${front[@]}" --authentication-skip-lookup --enable-priority-and-fairness=false \
    --kubeconfig=crds.kubeconfig --authentication-kubeconfig=crds.kubeconfig --authorization-kubeconfig=crds.kubeconfig \
    --disable-admission-plugins=MutatingAdmissionPolicy,ValidatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionWebhook
up apiserver "$BIN/kube-apiserver" --etcd-servers=$E --bind-address=127.0.0.1 --secure-port="$KUBE_PORT" \
  --runtime-config=apiextensions.k8s.io/v1=false,apiextensions.k8s.io/v1beta1=false \
  --tls-cert-file=server.crt --tls-private-key-file=server.key --client-ca-file=ca.crt --token-auth-file=tokens.csv \
  --authorization-mode=Node,RBAC --allow-privileged=true --service-cluster-ip-range="$SVC_NET" \
  --service-account-key-file=sa.key --service-account-signing-key-file=sa.key \
  --service-account-issuer=https://kubernetes.default.svc \
  "${front[@]}" --proxy-client-cert-file=front.crt --proxy-client-key-file=front.key
wait_for 90 apiserver aggregate crds "$CRD_PORT" apiextensions.k8s.io v1
wait_for 90 apiserver sh -c "curl -sf --cacert ca.crt $API/readyz | grep -q ok"
wait_for 30 crds sh -c "curl -sf --cacert ca.crt -H 'Authorization: Bearer $(grep ',admin,' tokens.csv | cut -d, -f1)' \
  $API/apis/apiextensions.k8s.io/v1/customresourcedefinitions | grep -q '\"kind\"'"
if [ "$KUBE_LEVEL" = ctl ]; then
  up controller-manager "$BIN/kube-controller-manager" --kubeconfig=controller-manager.kubeconfig \
    --authentication-kubeconfig=controller-manager.kubeconfig --authorization-kubeconfig=controller-manager.kubeconfig \
    --bind-address=127.0.0.1 --port=0 --secure-port=$((KUBE_PORT+1)) --leader-elect=false \
    --use-service-account-credentials=true --service-account-private-key-file=sa.key --root-ca-file=ca.crt
  wait_for 60 controller-manager curl -skf "https://127.0.0.1:$((KUBE_PORT+1))/healthz"
fi
say "ready: KUBECONFIG=$KUBE_RUN/admin.kubeconfig"
echo "$KUBE_RUN/admin.kubeconfig"
