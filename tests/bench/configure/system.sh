#!/bin/bash
# Makes a tar of a small Debian with systemd, sshd, Python for the peer, and the
# packages that the design asks for. Its argument is the file.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
. /etc/os-release
cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null >"$work/sources" || true
apt-config dump | grep '^Acquire::' >"$work/apt.conf" || true
exclude=()
for folder in doc info lintian locale man; do exclude+=(--dpkgopt="path-exclude=/usr/share/$folder/*"); done
mmdebstrap --quiet --mode=root --variant=essential --aptopt="$work/apt.conf" --aptopt='Acquire::Languages "none"' "${exclude[@]}" \
	--include=systemd-sysv,dbus,openssh-server,procps,python3,python3-apt,apt,sudo,cron,rsync,less,tree,jq "$VERSION_CODENAME" "$work/system.tar" - <"$work/sources"
mv "$work/system.tar" "$1"
