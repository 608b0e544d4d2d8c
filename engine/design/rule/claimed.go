package rule

import (
	"fmt"
	"path"

	"github.com/slipway-gitops/slipway/engine/site"
)

// claims are the files of a system that other fields of the design write. A pattern is
// one of path.Match. Files that only Slipway writes are always claimed.
var claims = []struct {
	pattern string
	field   string // empty for Slipway's own files
	asked   func(site.System) bool
}{
	{"/etc/hostname", "hostname", func(x site.System) bool { return x.Hostname != "" }},
	{"/etc/hosts", "hosts", func(x site.System) bool { return len(x.Hosts) > 0 }},
	{"/etc/timezone", "time.zone", hasZone},
	{"/etc/localtime", "time.zone", hasZone},
	{"/etc/chrony.conf", "time.servers", hasTimeServers},
	{"/etc/chrony/chrony.conf", "time.servers", hasTimeServers},
	{"/etc/systemd/timesyncd.conf", "time.servers", hasTimeServers},
	{"/etc/passwd", "users", hasUsers},
	{"/etc/shadow", "users", hasUsers},
	{"/etc/group", "users", hasUsers},
	{"/etc/gshadow", "users", hasUsers},
	{"/etc/sysctl.d/60-slipway.conf", "sysctl", nil},
	{"/etc/modules-load.d/slipway.conf", "modules", nil},
	{"/etc/modprobe.d/slipway.conf", "modules", nil},
	{"/etc/rsyslog.d/60-slipway.conf", "logs.forward", nil},
	{"/etc/systemd/journal-upload.conf.d/zz-slipway.conf", "logs.forward", nil},
	{"/etc/systemd/system/systemd-journal-upload.service.d/slipway.conf", "logs.forward", nil},
	{"/etc/sudoers.d/slipway-*", "users", nil},
	{"/etc/ssh/sshd_config.d/60-slipway.conf", "ssh.accounts", nil},
	{"/etc/ssh/slipway/*", "ssh.accounts", nil},
	{"/etc/ssh/slipway/*/*", "ssh.accounts", nil},
	{"/etc/apt/sources.list.d/slipway-*", "repositories", nil},
	{"/etc/yum.repos.d/slipway-*", "repositories", nil},
	{"/etc/slipway/*", "", nil},
	{"/var/lib/slipway-inside/*", "", nil},
}

func hasZone(x site.System) bool        { return x.Time.Zone != "" }
func hasTimeServers(x site.System) bool { return len(x.Time.Servers) > 0 }
func hasUsers(x site.System) bool       { return len(x.Users) > 0 }

// filesClaimed finds files of a node that other fields write too. It checks the system
// of each family together with what all families share.
func filesClaimed(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	check := func(at string, own, other site.System) {
		for _, name := range keys(own.Files) {
			if by, claimed := claimedBy(name, own, other); claimed {
				found = append(found, wrong(at+".files."+name, by, fixClaimed))
			}
		}
	}
	check("system", n.System, site.System{})
	for _, family := range keys(n.Families) {
		check("families."+family, n.Families[family], n.System)
		for _, name := range keys(n.System.Files) {
			if _, already := claimedBy(name, n.System, site.System{}); already {
				continue
			}
			if by, claimed := claimedBy(name, n.System, n.Families[family]); claimed {
				found = append(found, wrong("system.files."+name, by+", for the family "+family, fixClaimed))
			}
		}
	}
	return found
}

const fixClaimed = "Remove the file from the design, or the field that writes it; a file that is Slipway's alone needs another path."

// claimedBy says what else writes a file.
func claimedBy(name string, systems ...site.System) (says string, claimed bool) {
	for _, c := range claims {
		if is, _ := path.Match(c.pattern, name); !is {
			continue
		}
		if c.field == "" {
			return fmt.Sprintf("%s is Slipway's own file", name), true
		}
		if c.asked == nil {
			return fmt.Sprintf("%s is the file that Slipway writes for %s", name, c.field), true
		}
		for _, x := range systems {
			if c.asked(x) {
				return fmt.Sprintf("%s is also written for %s", name, c.field), true
			}
		}
	}
	for _, x := range systems {
		unit := path.Base(name)
		if u, designed := x.Units[unit]; designed && u.Content != nil && name == "/etc/systemd/system/"+unit {
			return fmt.Sprintf("%s is also written for units.%s.content", name, unit), true
		}
	}
	return "", false
}
