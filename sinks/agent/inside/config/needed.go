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

// needed are units that Slipway never disables for not being in the design, by their names without the type. They
// are listed by name, because no distribution lists the units that keep a machine reachable and bootable.
var needed = slices.Concat(
	// systemd, and the buses of all services.
	[]string{"systemd-*", "getty@*", "serial-getty@*", "console-getty", "container-getty@*", "autovt@*", "user@*", "dbus", "dbus-broker", "dbus-daemon", "polkit"},
	// Slipway's own.
	[]string{"slipway*"},
	// How people and Slipway log in.
	[]string{"ssh", "ssh@*", "sshd", "sshd@*", "sshd-keygen*", "dropbear*", "sssd*", "nslcd", "winbind", "oddjobd", "teleport"},
	// Networks, tunnels and routes over which the machine may be reached, and LLDP.
	[]string{"NetworkManager*", "networking", "network", "ifup@*", "ifupdown-*", "netplan-*", "dhcpcd*", "connman*", "wicked*", "resolvconf*", "wpa_supplicant*", "teamd@*",
		"openvswitch*", "openvswitch-*", "ovs-*", "ovsdb-server*", "wg-quick@*", "tailscaled", "openvpn*", "strongswan*", "ipsec", "nebula*", "zerotier-one", "frr", "bird*", "keepalived", "lldpd", "lldpad",
		"dnsmasq", "unbound*", "named", "bind9", "netbird*", "cloudflared", "wg-*", "ocserv", "xl2tpd", "tinc*", "quagga", "ovn-*"},
	// The clock: with a wrong one, certificates are invalid.
	[]string{"chrony*", "ntp", "ntpd", "ntpsec*", "openntpd"},
	// Logs.
	[]string{"rsyslog", "syslog-ng", "dmesg"},
	// Disks that may hold the system.
	[]string{"lvm2-*", "blk-availability", "mdadm*", "mdmonitor*", "multipathd", "multipath-tools", "iscsi*", "open-iscsi", "nvmf-*", "nvmefc-*", "zfs-*", "cryptdisks*", "dmraid-*", "e2scrub_*", "fstrim", "stratis*", "vdo*",
		"drbd*", "clevis-*", "rpcbind", "nfs-*", "autofs", "ceph*", "pacemaker", "corosync"},
	// Boot, and the platform's agents.
	[]string{"grub*", "kdump*", "keyboard-setup", "console-setup", "kmod*", "dracut-*", "ostree-*", "rpm-ostree*", "cloud-*", "qemu-guest-agent", "open-vm-tools", "vmtoolsd", "vgauthd", "hv_*", "hv-*", "hyperv-*", "walinuxagent", "google-*", "amazon-ssm-agent",
		"waagent", "xe-daemon", "xe-linux-distribution", "vboxadd*", "vboxservice", "nm-cloud-setup", "watchdog", "wd_keepalive", "fancontrol"},
	// Access control and firewalls.
	[]string{"apparmor", "auditd", "selinux-*", "nftables", "netfilter-persistent", "iptables", "ip6tables", "firewalld", "ufw", "fail2ban", "shorewall*", "ferm", "ebtables", "arptables", "ipset", "sshguard", "crowdsec*"},
)

// isNeeded reports whether a unit is one of these.
func isNeeded(n string) bool {
	stem := strings.TrimSuffix(n, path.Ext(n))
	return slices.ContainsFunc(needed, func(pattern string) bool {
		matches, err := path.Match(pattern, stem)
		return err == nil && matches
	})
}

// presets are the distribution's lines of systemd.preset(5), which say which units it enables; highest priority
// first. Debian's presets name systemd's own units. Those of the RHEL family name all of its base.
type presets []preset

type preset struct {
	enable  bool
	pattern string
}

// presetFolders are the distribution's folders, not the administrator's.
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

// enables reports whether the presets enable a unit by name. A pattern for all units does not count.
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

// packagesOf maps files to their packages. It leaves out files that belong to no package.
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
	for _, file := range files { // one by one: rpm does not say which file a line is about
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

// listedBy searches dpkg's file lists of each package. If /lib is a link into /usr, the lists may use either path.
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
