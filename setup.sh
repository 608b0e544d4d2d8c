#!/bin/sh
# Installs what the tests run; with the word "demo" only what the demo does,
# which is a real git and a real sshd, with "demo-libvirt" a real git and what has
# and makes virtual machines, with "demo-install" a real git, QEMU with firmware and what makes
# images. For the tests, from Debian: two Redfish clients,
# libvirtd and QEMU with what makes the Debian of their guests, Prometheus and
# Alertmanager, whose services are kept from starting, the C compiler that the race
# detector needs, systemd, which checks the unit files, and its containers, in which
# the packages are installed, what builds and reads packages of Debian and RPM and
# images, a TPM for guests, a token and what makes its keys, dnf, Python's environments, netplan, NetworkManager and ifupdown, which
# read the configuration that Slipway writes for them, lldpd, clients, a relay and a server of
# DHCP, whose services are kept from starting too, what opens files of age, what runs programs of arm64, what unpacks the ramdisk, Chromium, and npm. From npm: GitHub's
# description of its API, and axe-core, which looks for faults in pages. Does
# nothing when they are there.
set -eu
what=${1-tests}
missing=
command -v git >/dev/null || missing="$missing git"
[ "$what" = demo-libvirt ] || [ "$what" = demo-install ] || [ -x /usr/sbin/sshd ] || missing="$missing openssh-server"
if [ "$what" != demo ]; then
	[ "$what" = demo-install ] || [ -x /usr/sbin/libvirtd ] || missing="$missing libvirt-daemon libvirt-daemon-driver-qemu"
	[ -x /usr/bin/qemu-system-x86_64 ] || missing="$missing qemu-system-x86"
	command -v qemu-img >/dev/null || missing="$missing qemu-utils"
	command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
	command -v ip >/dev/null || missing="$missing iproute2"
fi
if [ "$what" = demo-install ]; then
	[ -d /usr/share/OVMF ] || missing="$missing ovmf"
	command -v ssh >/dev/null || missing="$missing openssh-client"
elif [ "$what" != demo ] && [ "$what" != demo-libvirt ]; then
	[ -d /usr/lib/python3/dist-packages/sushy ] || missing="$missing python3-sushy"
	[ -x /usr/bin/redfishtool ] || missing="$missing redfishtool"
	[ -d /usr/share/OVMF ] || missing="$missing ovmf"
	command -v swtpm >/dev/null || missing="$missing swtpm"
	[ -e /usr/lib/softhsm/libsofthsm2.so ] || missing="$missing softhsm2"
	command -v pkcs11-tool >/dev/null || missing="$missing opensc"
	command -v xorriso >/dev/null || missing="$missing xorriso"
	command -v age >/dev/null || missing="$missing age"
	command -v cpio >/dev/null || missing="$missing cpio"
	command -v zstd >/dev/null || missing="$missing zstd"
	command -v xz >/dev/null || missing="$missing xz-utils"
	command -v sfdisk >/dev/null || missing="$missing fdisk"
	[ -x /sbin/setcap ] || [ -x /usr/sbin/setcap ] || missing="$missing libcap2-bin"
	command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
	command -v promtool >/dev/null || missing="$missing prometheus"
	command -v prometheus-alertmanager >/dev/null || missing="$missing prometheus-alertmanager"
	command -v npm >/dev/null || missing="$missing npm"
	command -v systemd-analyze >/dev/null || missing="$missing systemd"
	command -v systemd-nspawn >/dev/null || missing="$missing systemd-container"
	command -v dpkg-scanpackages >/dev/null || missing="$missing dpkg-dev"
	command -v gpg >/dev/null || missing="$missing gpg gpg-agent"
	command -v dnf >/dev/null || missing="$missing dnf"
	command -v rpmbuild >/dev/null || missing="$missing rpm"
	command -v createrepo_c >/dev/null || missing="$missing createrepo-c"
	/usr/bin/python3 -m ensurepip --version >/dev/null 2>&1 || missing="$missing python3-venv"
	command -v netplan >/dev/null || missing="$missing netplan.io"
	command -v nmcli >/dev/null || missing="$missing network-manager"
	command -v ifquery >/dev/null || missing="$missing ifupdown"
	command -v lldpcli >/dev/null || missing="$missing lldpd"
	command -v skopeo >/dev/null || missing="$missing skopeo"
	command -v udhcpc >/dev/null || missing="$missing udhcpc"
	[ -x /usr/sbin/dhclient ] || missing="$missing isc-dhcp-client"
	[ -x /usr/sbin/dhcrelay ] || missing="$missing isc-dhcp-relay"
	[ -x /usr/sbin/dnsmasq ] || missing="$missing dnsmasq-base"
	command -v qemu-aarch64-static >/dev/null || missing="$missing qemu-user-static"
	command -v tftp >/dev/null || missing="$missing tftp-hpa"
	command -v curl >/dev/null || missing="$missing curl"
	command -v chromium >/dev/null || missing="$missing chromium"
fi

install() {
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "setup: please install:$missing" >&2
		exit 1
	fi
	echo "setup: installing$missing"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# What would manage this host's network stays off.
	case "$missing " in
	*" network-manager "* | *" ifupdown "*) [ ! -d /run/systemd/system ] || systemctl mask --now -q NetworkManager networking ;;
	esac
	# Where services are started when they are installed, those that the tests run
	# by themselves are not.
	for service in prometheus prometheus-alertmanager isc-dhcp-relay lldpd; do
		case "$missing " in
		*" $service "*) [ ! -d /run/systemd/system ] || systemctl mask --now -q $service ;;
		esac
	done
	apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

[ -z "$missing" ] || install
case $what in
demo | demo-libvirt | demo-install) ;;
*) "$(dirname "$0")/tests/github/setup.sh" && "$(dirname "$0")/tests/browser/setup.sh" ;;
esac
