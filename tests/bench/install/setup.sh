#!/bin/sh
# Installs the peers of this benchmark: Debian's nginx and dnsmasq, and zstd. Their services
# are not started: the benchmark runs its own. Does nothing when they are there.
set -eu
missing=
[ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
[ -x /usr/sbin/dnsmasq ] || missing="$missing dnsmasq-base"
command -v zstd >/dev/null || missing="$missing zstd"
command -v ip >/dev/null || missing="$missing iproute2"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "setup: please install:$missing" >&2
	exit 1
fi
echo "setup: installing$missing" >&2
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends $missing >/dev/null
