#!/bin/sh
# Installs the Debian packages that the tests and the demo run: a real git and
# a real sshd, two Redfish clients, and the C compiler that the race detector
# needs. Does nothing when they are there.
set -eu
missing=
command -v git >/dev/null || missing="$missing git"
[ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
[ -d /usr/lib/python3/dist-packages/sushy ] || missing="$missing python3-sushy"
[ -x /usr/bin/redfishtool ] || missing="$missing redfishtool"
command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "setup: please install:$missing" >&2
	exit 1
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends $missing >/dev/null
