#!/bin/sh
# Installs Debian's Ironic, the peer of this benchmark and of nothing else. Its
# services are not started: the benchmark runs its own, on loopback. Does
# nothing when it is there.
set -eu
[ -x /usr/bin/ironic-conductor ] && [ -x /usr/bin/ironic-api ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "setup: please install: ironic-api ironic-conductor" >&2
	exit 1
fi
echo "setup: installing ironic-api ironic-conductor" >&2
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends ironic-api ironic-conductor >/dev/null
