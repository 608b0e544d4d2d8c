#!/bin/sh
# Makes the user and the folders. A daemon that runs is started again with the new
# program; one that was never started is left to the administrator.
set -e
[ "$1" = abort-upgrade ] && exit 0
systemd-sysusers slipway.conf
systemd-tmpfiles --create slipway.conf
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart slipway.service
	systemctl try-restart slipway-backup.timer
fi
