#!/bin/sh
# Stops the daemon when the package goes, not when another version comes: dpkg says
# "remove", rpm how many versions stay.
set -e
case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now slipway.service slipway-backup.timer
	systemctl stop slipway-backup.service
fi
