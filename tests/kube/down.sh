#!/usr/bin/env bash
# Ends what up.sh has started in KUBE_RUN. The state goes with --wipe; what was built stays.
set -euo pipefail
KUBE_RUN=${KUBE_RUN:-${KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kube-here}/run}
if [ ! -d "$KUBE_RUN/pid" ]; then
  [ "${1:-}" != --wipe ] || rm -rf "$KUBE_RUN"
  exit 0
fi
KUBE_RUN=$(cd "$KUBE_RUN" && pwd -P)
cd "$KUBE_RUN"
for name in controller-manager apiserver crds etcd; do
  [ -f "pid/$name" ] || continue
  pid=$(cat "pid/$name")
  # A pid is believed only if that process still works in this folder: numbers are used again.
  if [ "$(readlink "/proc/$pid/cwd")" = "$KUBE_RUN" ]; then
    kill "$pid"
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "pid/$name"
done
[ "${1:-}" != --wipe ] || { cd /; rm -rf "$KUBE_RUN"; }
