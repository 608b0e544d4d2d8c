#!/bin/bash
# Makes a disk image of a small Debian with cloud-init: a boot partition with
# extlinux, and a root that can grow. Its arguments are the script that sets the
# system up, and the image.
set -euo pipefail
guest=$1 image=$2
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# The same Debian as this host's, from where this host has it.
. /etc/os-release
cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null >"$work/sources" || true
apt-config dump | grep '^Acquire::' >"$work/apt.conf" || true
exclude=()
for folder in doc info lintian locale man; do exclude+=(--dpkgopt="path-exclude=/usr/share/$folder/*"); done
chmod +x "$guest"
mmdebstrap --quiet --mode=root --variant=essential --aptopt="$work/apt.conf" --aptopt='Acquire::Languages "none"' "${exclude[@]}" \
	--include=systemd-sysv,udev,openssh-server,sudo,iproute2,cloud-init,cloud-guest-utils,e2fsprogs,kmod,busybox-static,extlinux,syslinux-common,netbase,tzdata \
	--customize-hook="$guest" "$VERSION_CODENAME" "$work/root" - <"$work/sources"

# Sectors of 512 bytes: the boot partition of 24 MiB at 1 MiB, and the root.
mkdir "$work/boot"
mv "$work/root/boot"/* "$work/boot/"
mib=$(($(du -sm "$work/root" | cut -f1) * 11 / 10 + 40))
truncate -s $((25 + mib))M "$work/disk"
touch "$work/root/disk"
mount --bind "$work/disk" "$work/root/disk"
printf 'label: dos\nstart=2048, size=49152, type=83, bootable\nstart=51200, type=83\n' | chroot "$work/root" sfdisk --quiet /disk
umount "$work/root/disk"
rm "$work/root/disk"
dd if="$work/root/usr/lib/EXTLINUX/mbr.bin" of="$work/disk" conv=notrunc status=none
mkfs.ext2 -q -L boot "$work/boot.ext" 24M
mkdir "$work/mnt"
mount -o loop "$work/boot.ext" "$work/mnt"
cp -r "$work/boot"/* "$work/mnt/"
"$work/root/usr/bin/extlinux" --install "$work/mnt/extlinux" 2>/dev/null
umount "$work/mnt"
mkfs.ext4 -q -L root -m 0 -J size=8 -d "$work/root" "$work/root.ext" "${mib}M"
dd if="$work/boot.ext" of="$work/disk" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$work/root.ext" of="$work/disk" bs=1M seek=25 conv=notrunc,sparse status=none
qemu-img convert -O qcow2 -c -o compression_type=zstd "$work/disk" "$image"
