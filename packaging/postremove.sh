#!/bin/sh
# Purging takes the configuration, with all credentials, and the records. The site
# key and the backups stay: nothing else can replace them. The user stays, so that
# nobody else gets its files.
set -e
[ -d /run/systemd/system ] && systemctl daemon-reload
if [ "$1" = purge ]; then
	rm -rf --one-file-system /etc/slipway /var/lib/slipway
	for kept in /var/lib/slipway-key /var/lib/slipway-backup; do
		rmdir --ignore-fail-on-non-empty "$kept" 2>/dev/null || true
		[ ! -d "$kept" ] || echo "slipway: $kept is left; remove it yourself once nobody needs it"
	done
fi
exit 0
