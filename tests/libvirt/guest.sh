#!/bin/sh
# Makes a guest's system of a fresh Debian in the folder that is its argument:
# fetches the kernel, sets it up for cloud-init with a seed beside it, and leaves
# out what a guest of the tests does not need. Most of the time of a boot goes to
# emulating the processor, so whatever need not run does not.
set -eu
root=$1
export LC_ALL=C

# The kernel, with the modules of a virtual machine.
apt="apt-get -qq -o APT::Sandbox::User=root"
package=$(APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
mkdir "$root/kernel"
(cd "$root/kernel" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG $apt download "$package" && dpkg-deb -x ./*.deb .)
version=$(ls "$root/kernel/lib/modules")
mv "$root/kernel/boot/vmlinuz-$version" "$root/boot/vmlinuz"
modules="lib/modules/$version"
mkdir -p "$root/$modules/kernel"
for kept in \
	drivers/ata drivers/acpi drivers/block/virtio_blk.ko drivers/cdrom drivers/char/hw_random drivers/char/virtio_console.ko \
	drivers/input drivers/net/bonding drivers/net/dummy.ko drivers/net/net_failover.ko drivers/net/veth.ko drivers/net/virtio_net.ko \
	drivers/scsi drivers/virtio drivers/watchdog fs/fat fs/isofs fs/nls lib/crypto crypto net/802 net/8021q net/bridge net/core net/llc net/packet; do
	[ ! -e "$root/kernel/$modules/kernel/$kept" ] || (cd "$root/kernel/$modules/kernel" && cp -r --parents "$kept" "$root/$modules/kernel/")
done
cp "$root/kernel/$modules"/modules.builtin* "$root/kernel/$modules/modules.order" "$root/$modules/"
rm -r "$root/kernel"
chroot "$root" depmod "$version" 2>/dev/null

# An initial file system that does nothing but mount the root.
ram="$root/ram"
mkdir -p "$ram/bin" "$ram/dev" "$ram/proc" "$ram/sys" "$ram/root" "$ram/$modules"
cp "$root/bin/busybox" "$ram/bin/"
for name in virtio_pci virtio_blk virtio_net virtio_scsi sd_mod sr_mod ata_piix; do
	chroot "$root" modprobe --set-version "$version" --show-depends "$name" 2>/dev/null
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$ram/order"
while read -r module; do cp "$root/$module" "$ram/$modules/"; done <"$ram/order"
cat >"$ram/init" <<'END'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
while read -r module; do /bin/busybox insmod "/lib/modules/$(/bin/busybox uname -r)/${module##*/}"; done </order
until root=$(/bin/busybox findfs LABEL=root 2>/dev/null); do /bin/busybox usleep 20000; done
/bin/busybox mount -t ext4 -o noatime "$root" /root
/bin/busybox umount /proc
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /lib/systemd/systemd
END
chmod +x "$ram/init"
chroot "$root" sh -c 'cd /ram && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 >/boot/initrd'
rm -r "$ram"

# The boot loader's part; see image.sh.
mkdir -p "$root/boot/extlinux"
cat >"$root/boot/extlinux/extlinux.conf" <<'END'
default debian
label debian
	kernel /vmlinuz
	append initrd=/initrd console=ttyS0 loglevel=4 panic=5 mitigations=off apparmor=0 audit=0 random.trust_cpu=on
END

# cloud-init reads a seed and nothing else, and leaves the network to networkd,
# which starts after it. (Told to bring the network up it restarts resolved, which
# is not there.)
cat >"$root/etc/cloud/cloud.cfg" <<'END'
datasource_list: [NoCloud]
disable_network_activation: true
disable_root: false
users: []
cloud_init_modules: [bootcmd, write-files, growpart, resizefs, set_hostname, update_etc_hosts, users-groups, ssh]
cloud_config_modules: [set-passwords, timezone, runcmd]
cloud_final_modules: [write-files-deferred, scripts-user, phone-home, final-message, power-state-change]
system_info:
  distro: debian
  paths: {cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}
  network: {renderers: [networkd]}
  ssh_svcname: ssh
END
rm -f "$root"/etc/cloud/cloud.cfg.d/*
cat >"$root/etc/cloud/cloud.cfg.d/05_logging.cfg" <<'END'
output: {all: "| tee -a /var/log/cloud-init-output.log"}
log_cfgs:
- |
  [loggers]
  keys=root
  [handlers]
  keys=console,file
  [formatters]
  keys=line
  [logger_root]
  level=INFO
  handlers=console,file
  [handler_console]
  class=StreamHandler
  level=WARNING
  formatter=line
  args=(sys.stderr,)
  [handler_file]
  class=FileHandler
  level=INFO
  formatter=line
  args=('/var/log/cloud-init.log', 'a', 'UTF-8')
  [formatter_line]
  format=%(asctime)s - %(filename)s[%(levelname)s]: %(message)s
END
printf 'policy: enabled\n' >"$root/etc/cloud/ds-identify.cfg"

# Half of the time is Python loading what cloud-init does without: that what is
# written in a seed follows the schema it would say in a warning only.
python="$root/usr/lib/python3/dist-packages"
rm -r "$python"/jsonschema "$python"/attr "$python"/attrs "$python"/charset_normalizer
printf '#!/usr/bin/python3\nimport sys\nfrom cloudinit.cmd.main import main\nsys.exit(main())\n' >"$root/usr/bin/cloud-init"

# Devices are looked at that a virtual machine has; their modules are there.
mkdir -p "$root/etc/systemd/system/systemd-udev-trigger.service.d"
printf '[Service]\nExecStart=\nExecStart=udevadm trigger --action=add --subsystem-match=block --subsystem-match=net --subsystem-match=tty --subsystem-match=virtio-ports --subsystem-match=pci\n' \
	>"$root/etc/systemd/system/systemd-udev-trigger.service.d/guest.conf"
printf 'button\nevdev\n' >"$root/etc/modules-load.d/guest.conf"
mkdir -p "$root/etc/systemd/system-generators"
for name in cryptsetup debug fstab getty gpt-auto hibernate-resume integritysetup rc-local run system-update sysv veritysetup; do
	ln -s /dev/null "$root/etc/systemd/system-generators/systemd-$name-generator"
done

# sshd has no keys but those of the seed.
rm -f "$root"/etc/ssh/ssh_host_*
printf 'PasswordAuthentication no\n' >"$root/etc/ssh/sshd_config.d/guest.conf"

# Pressing the power button shuts down.
mkdir -p "$root/etc/acpi/PWRF"
printf '#!/bin/sh\nexec systemctl poweroff\n' >"$root/etc/acpi/PWRF/00000080"
chmod +x "$root/etc/acpi/PWRF/00000080"
cat >"$root/etc/systemd/system/power-button.service" <<'END'
[Service]
ExecStart=/bin/busybox acpid -d

[Install]
WantedBy=multi-user.target
END

in_root() { systemctl --root="$root" "$@" 2>/dev/null; }
in_root enable systemd-networkd.service ssh.service power-button.service
in_root mask \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-tmpfiles-clean.timer motd-news.timer \
	console-getty.service getty@tty1.service serial-getty@ttyS0.service getty-static.service getty.target \
	systemd-logind.service systemd-networkd-wait-online.service systemd-resolved.service systemd-udev-settle.service systemd-networkd.socket \
	systemd-hwdb-update.service systemd-journal-catalog-update.service systemd-update-done.service systemd-machine-id-commit.service systemd-firstboot.service \
	systemd-binfmt.service systemd-pstore.service systemd-random-seed.service systemd-sysusers.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
	systemd-ask-password-console.path systemd-ask-password-wall.path systemd-journal-flush.service systemd-remount-fs.service systemd-boot-system-token.service \
	dev-hugepages.mount dev-mqueue.mount sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount \
	systemd-network-generator.service systemd-initctl.socket modprobe@.service kmod-static-nodes.service ldconfig.service rc-local.service networking.service cloud-init-hotplugd.socket
: >"$root/etc/machine-id"
: >"$root/etc/fstab"
printf 'localhost\n' >"$root/etc/hostname"
printf 'Storage=volatile\n' >>"$root/etc/systemd/journald.conf"

rm -rf "$root"/usr/share/i18n "$root"/usr/share/locale "$root"/usr/share/zoneinfo/right "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* \
	"$root"/usr/lib/syslinux/modules/efi* "$root"/usr/share/perl "$root"/usr/share/bash-completion
