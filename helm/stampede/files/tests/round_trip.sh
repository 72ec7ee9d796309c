# A durable message there and back. URL, STAMPEDE_LOGIN and STAMPEDE_PASSCODE come from the pod.
set -eu
# Where there is no ca.crt, the certificate is of a CA that the image knows.
if [ -e /tls/ca.crt ]; then CA="--ca /tls/ca.crt"; else CA=""; fi
text="helm-test $(date +%s)-$$"
queue="/queue/helm-test.$(hostname)"
stampede send "$queue" "$text" --persistent $CA
test "$(stampede receive "$queue" --count 1 --timeout 20 $CA)" = "$text"
echo "$STAMPEDE_URL: sent, confirmed, received"
