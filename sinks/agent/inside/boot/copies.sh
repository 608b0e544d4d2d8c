#!/bin/sh
# Written by Slipway when it installed this system. dpkg runs it after each of its runs. After an
# update of the boot loader on the first EFI system partition it brings that to the path where
# firmware looks without an entry, and to the EFI system partitions of the other disks. It never
# keeps dpkg from going on.
at=@AT@
id=@ID@
others="@OTHERS@"
partitions=/dev/disk/by-partuuid
stamp=/var/lib/slipway-inside/boot-loader-copied

# The loader itself must be there: a first disk that is gone is no update.
[ -f "$at/EFI/$id/grub@SUFFIX@" ] || exit 0
is=$(cd "$at" && find EFI -type f -exec sha256sum {} + | sort) || exit 0
[ "$(cat "$stamp" 2>/dev/null)" = "$is" ] && exit 0
failed=

fail() {
	failed=yes
	echo "slipway: the boot loader could not be copied $1. That disk may not start the system if the first one is gone; $0 tries again after the next run of dpkg" >&2
}

# put copies a file if the other one differs. The other one is the old or the new, never a part.
put() {
	cmp -s "$1" "$2" && return 0
	mkdir -p "${2%/*}" && cp "$1" "$2.new" && sync "$2.new" && mv -f "$2.new" "$2"
}

# What firmware starts comes last.
fallback() {
	from=$1/EFI/$id to=$1/EFI/BOOT
	if [ -f "$from/shim@SUFFIX@" ]; then
		put "$from/grub@SUFFIX@" "$to/grub@SUFFIX@" || return 1
		if [ -f "$from/mm@SUFFIX@" ]; then
			put "$from/mm@SUFFIX@" "$to/mm@SUFFIX@" || return 1
		fi
		put "$from/shim@SUFFIX@" "$to/@FALLBACK@"
	else
		put "$from/grub@SUFFIX@" "$to/@FALLBACK@"
	fi
}

# The fallback path has its own order.
copy() {
	for file in $(cd "$at" && find "EFI/$id" -type f); do
		put "$at/$file" "$1/$file" || return 1
	done
	fallback "$1"
}

fallback "$at" || fail "to EFI/BOOT of $at"
for guid in $others; do
	device=$partitions/$guid
	[ -e "$device" ] || { fail "to the partition $guid, which is not there"; continue; }
	mounted=$(findmnt --noheadings --first-only --output TARGET --source "$device")
	if [ -n "$mounted" ]; then
		copy "$mounted" || fail "to $mounted"
		continue
	fi
	mounted=$(mktemp -d /run/slipway-boot-loader.XXXXXX) || { fail "to the partition $guid"; continue; }
	if mount -t vfat -o umask=0077 "$device" "$mounted"; then
		copy "$mounted" || fail "to the partition $guid"
		umount "$mounted" || fail "to the partition $guid"
	else
		fail "to the partition $guid"
	fi
	rmdir "$mounted" 2>/dev/null
done
if [ -z "$failed" ]; then
	is=$(cd "$at" && find EFI -type f -exec sha256sum {} + | sort)
	mkdir -p "${stamp%/*}" && printf '%s\n' "$is" >"$stamp"
fi
exit 0
