#!/bin/bash
# Makes a tar of a small Debian or Ubuntu with apt, systemd, git, sshd, ip and ifupdown. Its arguments are the
# file; the codename of a release, which is that of this host where it is empty; and further packages, divided
# by commas. A Debian comes from where this host has its own, an Ubuntu from its archive.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
. /etc/os-release
release=${2:-$VERSION_CODENAME}
case $release in
jammy | noble | questing | resolute)
	# Debian has no package of Ubuntu's keys. Those of this one, of 2012 and 2018, are in its keyring.
	/usr/lib/apt/apt-helper download-file http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb \
		"$work/keys.deb" SHA256:0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f >/dev/null
	dpkg-deb -x "$work/keys.deb" "$work/keys"
	chmod -R a+rX "$work"
	for suite in "$release" "$release-updates" "$release-security"; do
		echo "deb [signed-by=$work/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu $suite main universe"
	done >"$work/sources"
	;;
*) cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null | sed "s/\b$VERSION_CODENAME\b/$release/g" >"$work/sources" || true ;;
esac
apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' >"$work/apt.conf" || true
# Left out by dpkg itself: mmdebstrap would start a Python for each package.
cat >"$work/small" <<-END
	path-exclude=/usr/share/doc/*
	path-exclude=/usr/share/info/*
	path-exclude=/usr/share/lintian/*
	path-exclude=/usr/share/locale/*
	path-exclude=/usr/share/man/*
END
mmdebstrap --quiet --mode=root --variant=essential --aptopt="$work/apt.conf" --aptopt='Acquire::Languages "none"' \
	--setup-hook='mkdir -p "$1/etc/dpkg/dpkg.cfg.d"' --setup-hook="cp $work/small \"\$1/etc/dpkg/dpkg.cfg.d/small\"" \
	--customize-hook='for d in doc info lintian locale man; do find "$1/usr/share/$d" -mindepth 1 -delete 2>/dev/null || true; done' \
	--include="apt,systemd-sysv,dbus,git,openssh-server,iproute2,ifupdown${3:+,$3}" "$release" "$work/system.tar" - <"$work/sources"
mv "$work/system.tar" "$1"
