package config

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// needed are units that Slipway disables on no system because a design does not name them, by
// their names without the type. They are known by name since no list of a distribution says what
// keeps a machine in reach, and what a machine starts from.
var needed = slices.Concat(
	// systemd, and what all services speak through.
	[]string{"systemd-*", "getty@*", "serial-getty@*", "console-getty", "container-getty@*", "autovt@*", "user@*", "dbus", "dbus-broker", "dbus-daemon", "polkit"},
	// Slipway's own.
	[]string{"slipway*"},
	// How people and Slipway log in.
	[]string{"ssh", "ssh@*", "sshd", "sshd@*", "sshd-keygen*", "dropbear*", "sssd*", "nslcd", "winbind", "oddjobd", "teleport"},
	// Networks, tunnels and routes that the machine may be reached by, and LLDP.
	[]string{"NetworkManager*", "networking", "network", "ifup@*", "ifupdown-*", "netplan-*", "dhcpcd*", "connman*", "wicked*", "resolvconf*", "wpa_supplicant*", "teamd@*",
		"openvswitch*", "openvswitch-*", "ovs-*", "ovsdb-server*", "wg-quick@*", "tailscaled", "openvpn*", "strongswan*", "ipsec", "nebula*", "zerotier-one", "frr", "bird*", "keepalived", "lldpd", "lldpad",
		"dnsmasq", "unbound*", "named", "bind9", "netbird*", "cloudflared", "wg-*", "ocserv", "xl2tpd", "tinc*", "quagga", "ovn-*"},
	// The clock, without which certificates are not valid.
	[]string{"chrony*", "ntp", "ntpd", "ntpsec*", "openntpd"},
	// Where messages go.
	[]string{"rsyslog", "syslog-ng", "dmesg"},
	// Disks that the system may be on.
	[]string{"lvm2-*", "blk-availability", "mdadm*", "mdmonitor*", "multipathd", "multipath-tools", "iscsi*", "open-iscsi", "nvmf-*", "nvmefc-*", "zfs-*", "cryptdisks*", "dmraid-*", "e2scrub_*", "fstrim", "stratis*", "vdo*",
		"drbd*", "clevis-*", "rpcbind", "nfs-*", "autofs", "ceph*", "pacemaker", "corosync"},
	// What the machine starts by, and what it is started on.
	[]string{"grub*", "kdump*", "keyboard-setup", "console-setup", "kmod*", "dracut-*", "ostree-*", "rpm-ostree*", "cloud-*", "qemu-guest-agent", "open-vm-tools", "vmtoolsd", "vgauthd", "hv_*", "hv-*", "hyperv-*", "walinuxagent", "google-*", "amazon-ssm-agent",
		"waagent", "xe-daemon", "xe-linux-distribution", "vboxadd*", "vboxservice", "nm-cloud-setup", "watchdog", "wd_keepalive", "fancontrol"},
	// What keeps others out.
	[]string{"apparmor", "auditd", "selinux-*", "nftables", "netfilter-persistent", "iptables", "ip6tables", "firewalld", "ufw", "fail2ban", "shorewall*", "ferm", "ebtables", "arptables", "ipset", "sshguard", "crowdsec*"},
)

// isNeeded says whether a unit is one of these.
func isNeeded(n string) bool {
	stem := strings.TrimSuffix(n, path.Ext(n))
	return slices.ContainsFunc(needed, func(pattern string) bool {
		matches, err := path.Match(pattern, stem)
		return err == nil && matches
	})
}

// presets are the lines of systemd.preset(5) that the distribution has, the strongest first: which
// units it enables. Those of Debian name systemd's own, those of the RHEL family all of its base.
type presets []preset

type preset struct {
	enable  bool
	pattern string
}

// presetFolders are the distribution's, and not the administrator's.
var presetFolders = []string{"/usr/lib/systemd/system-preset", "/lib/systemd/system-preset"}

func (w *work) presets() (presets, error) {
	files := map[string]string{} // by name
	for _, folder := range presetFolders {
		names, err := w.tree.Names(folder)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if path.Ext(n) == ".preset" && files[n] == "" {
				files[n] = folder + "/" + n
			}
		}
	}
	var all presets
	for _, n := range slices.Sorted(maps.Keys(files)) {
		text, err := w.tree.Read(files[n], maxUnit)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 1 && (words[0] == "enable" || words[0] == "disable") {
				all = append(all, preset{words[0] == "enable", words[1]})
			}
		}
	}
	return all, nil
}

// enables says whether the presets name a unit as enabled. The one that stands for all units names
// none.
func (p presets) enables(n string) bool {
	for _, line := range p {
		for _, name := range []string{n, template(n)} {
			if matches, err := path.Match(line.pattern, name); err == nil && matches {
				return line.enable && strings.Trim(line.pattern, "*") != ""
			}
		}
	}
	return false
}

const dpkgInfo = "/var/lib/dpkg/info"

// maxFiles bounds the list of the files of a package, in bytes.
const maxFiles = 64 << 20

// packagesOf are the packages that files are from; one that no package has brought is left out.
func (w *work) packagesOf(files []string) (map[string]string, error) {
	from := map[string]string{}
	switch {
	case len(files) == 0:
		return from, nil
	case w.tree.Exists(dpkgStatus):
		return from, w.listedBy(files, from)
	case !w.tree.Exists("/usr/lib/sysimage/rpm") && !w.tree.Exists("/var/lib/rpm"):
		return from, nil
	}
	for _, file := range files { // one by one: rpm tells nothing of which file it is
		out, err := w.h.Exec(w.ctx, inside.Command{Path: "rpm", Args: []string{"-qf", "--queryformat", "%{NAME}\\n", "--", file}})
		if err != nil {
			return nil, fmt.Errorf("rpm does not tell which package %s is from: %w", file, err)
		}
		if name := strings.Fields(string(out.Out)); out.Code == 0 && len(name) > 0 {
			from[file] = name[0]
		}
	}
	return from, nil
}

// listedBy looks into dpkg's lists of the files of each package. Where /lib is a link into /usr
// they have the files by either path.
func (w *work) listedBy(files []string, from map[string]string) error {
	names, err := w.tree.Names(dpkgInfo)
	if err != nil {
		return err
	}
	for _, n := range names {
		if path.Ext(n) != ".list" {
			continue
		}
		list, err := w.tree.Read(dpkgInfo+"/"+n, maxFiles)
		if err != nil {
			return err
		}
		if !bytes.Contains(list, []byte("/systemd/system/")) {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(n, ".list"), ":")
		for _, file := range files {
			for _, at := range []string{file, strings.TrimPrefix(file, "/usr"), "/usr" + file} {
				if bytes.Contains(list, []byte("\n"+at+"\n")) {
					from[file] = name
				}
			}
		}
	}
	return nil
}
