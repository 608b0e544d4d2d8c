#!/bin/sh
# Installs Debian's Ansible, the peer of this benchmark and of nothing else. Does
# nothing when it is there.
set -eu
command -v ansible-playbook >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "setup: please install: ansible-core sshpass" >&2
	exit 1
fi
echo "setup: installing ansible-core" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends ansible-core openssh-client >/dev/null
