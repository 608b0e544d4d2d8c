package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What was seen becomes values of the design in the design's own kinds, or a sentence says why not.
func TestAmendment(t *testing.T) {
	node := func(change func(*site.Node)) *site.Node {
		n := &site.Node{Name: "n1", Power: "on", Boot: site.Boot{Order: []string{"Hdd", "Pxe"}, Mode: "uefi"}, References: site.References{Family: "debian"}}
		n.BIOS.Attributes = site.Scalars{"Turbo": "Enabled", "Cores": int64(8), "Quiet": true}
		uid := int64(1000)
		yes := true
		n.System.Hostname = "n1"
		n.System.Time.Zone, n.System.Time.Servers = "UTC", []string{"a", "b"}
		n.System.Users = map[string]site.User{"ops": {UID: &uid, Groups: []string{"adm"}, Sudo: true, Password: "console"}}
		n.System.Sysctl = site.Scalars{"vm.swappiness": int64(10), "kernel.core_pattern": "core"}
		n.System.Modules = map[string]site.Module{"kvm": {Parameters: site.Scalars{"nested": int64(1), "old": "x"}}}
		n.System.Units = map[string]site.Unit{"a.service": {Enabled: &yes, State: "running"}}
		n.System.Packages = map[string]site.Package{"nginx": {Version: "1.2"}}
		n.Families = map[string]site.System{"debian": {Sysctl: site.Scalars{"net.core.somaxconn": int64(1)}}}
		n.Kernel.Parameters = site.Scalars{"quiet": true, "console": "ttyS0"}
		if change != nil {
			change(n)
		}
		return n
	}
	seen := func(n *site.Node, f site.Facet, have site.Values, absent ...string) (wish, site.FacetState) {
		s := site.FacetState{Seen: lookedAt, Have: site.Values{}, Absent: absent}
		for field, v := range s.Resolve(n, f).Want {
			s.Have[field] = v
		}
		for _, key := range absent {
			for field := range s.Have {
				if field == key || strings.HasPrefix(field, key+".") {
					delete(s.Have, field)
				}
			}
		}
		for field, v := range have {
			s.Have[field] = v
		}
		return wishFor(n, f, s), s
	}
	for name, c := range map[string]struct {
		facet  site.Facet
		have   site.Values
		absent []string
		change func(*site.Node)
		want   string // path=JSON, or the reason
	}{
		"power":           {facet: site.FacetPower, have: site.Values{"state": "off"}, want: `power="off"`},
		"boot order":      {facet: site.FacetBoot, have: site.Values{"order": "Pxe,Hdd,Cd"}, want: `boot.order=["Pxe","Hdd"]`},
		"boot mode":       {facet: site.FacetBoot, have: site.Values{"mode": "bios"}, want: `boot.mode="bios"`},
		"attributes":      {facet: site.FacetBIOS, have: site.Values{"attributes.Turbo": "8", "attributes.Cores": "4", "attributes.Quiet": "false"}, want: `bios.attributes.Cores=4 bios.attributes.Quiet=false bios.attributes.Turbo="8"`},
		"intent":          {facet: site.FacetBIOS, have: site.Values{"profile": "x"}, change: func(n *site.Node) { n.BIOS.Profile = "performance" }, want: "bios.profile: the design asks for it by bios.profile, which is not a setting of the machine; Slipway proposes only bios.attributes"},
		"sysctl":          {facet: site.FacetConfig, have: site.Values{"sysctl.vm.swappiness": "60", "sysctl.kernel.core_pattern": "1"}, want: `system.sysctl.kernel.core_pattern="1" system.sysctl.vm.swappiness=60`},
		"of a family":     {facet: site.FacetConfig, have: site.Values{"sysctl.net.core.somaxconn": "2"}, want: `families.debian.sysctl.net.core.somaxconn=2`},
		"sysctl gone":     {facet: site.FacetConfig, absent: []string{"sysctl.vm.swappiness"}, want: `system.sysctl.vm.swappiness=`},
		"unit":            {facet: site.FacetConfig, have: site.Values{"units.a.service.enabled": "false", "units.a.service.state": "stopped"}, want: `system.units.a.service.enabled=false system.units.a.service.state="stopped"`},
		"module":          {facet: site.FacetConfig, have: site.Values{"modules.kvm.parameters": "nested=0, new=y"}, want: `system.modules.kvm.parameters.nested=0 system.modules.kvm.parameters.new="y" system.modules.kvm.parameters.old=`},
		"package":         {facet: site.FacetPackages, have: site.Values{"packages.nginx.version": "1.3"}, want: `system.packages.nginx.version="1.3"`},
		"package gone":    {facet: site.FacetPackages, absent: []string{"packages.nginx"}, want: `system.packages.nginx=`},
		"hostname":        {facet: site.FacetBase, have: site.Values{"hostname": "other"}, want: `system.hostname="other"`},
		"time":            {facet: site.FacetBase, have: site.Values{"time.zone": "Europe/Rome", "time.servers": "c"}, want: `system.time.servers=["c"] system.time.zone="Europe/Rome"`},
		"user":            {facet: site.FacetBase, have: site.Values{"users.ops.groups": "", "users.ops.uid": "7", "users.ops.sudo": "false"}, want: `system.users.ops.groups=[] system.users.ops.sudo=false system.users.ops.uid=7`},
		"password":        {facet: site.FacetBase, have: site.Values{"users.ops.password": "another"}, want: "base.users.ops.password: Slipway knows of keys and passwords on a machine only whether they are the designed ones"},
		"parameter":       {facet: site.FacetKernel, have: site.Values{"parameters.console": "tty0"}, want: `kernel.parameters.console="tty0"`},
		"parameter gone":  {facet: site.FacetKernel, absent: []string{"parameters.quiet"}, want: `kernel.parameters.quiet=`},
		"hostile":         {facet: site.FacetBase, have: site.Values{"hostname": "a\u202eb"}, want: "base.hostname: what the machine says has invisible or control characters"},
		"secret":          {facet: site.FacetKernel, have: site.Values{"parameters.console": "-----BEGIN PRIVATE KEY-----"}, want: "kernel.parameters.console: the value on the machine looks like a secret"},
		"long":            {facet: site.FacetBase, have: site.Values{"hostname": strings.Repeat("a", 1001)}, want: "base.hostname: what the machine says is longer than 1000 bytes"},
		"nothing differs": {facet: site.FacetPower, want: "what differs is nothing that a design sets"},
		"no such facet":   {facet: site.FacetNetwork, want: "Slipway cannot write the network of a machine into the design"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node(c.change)
			w, s := seen(n, c.facet, c.have, c.absent...)
			a := amendment(n, c.facet, w, s, false)
			var got []string
			for _, v := range a.Values {
				got = append(got, fmt.Sprintf("%s=%s", v.At(), v.Value))
			}
			if a.Why != "" {
				got = []string{a.Why}
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
	n := node(nil)
	w, s := seen(n, site.FacetPower, site.Values{"state": "off"})
	if a := amendment(n, site.FacetPower, w, s, true); a.Why != "something that left the design is still on the machine" {
		t.Errorf("with what left the design: %+v", a)
	}
	s.Pending = site.Values{"state": "on"}
	if a := amendment(n, site.FacetPower, w, s, false); a.Why != "power.state changes at the next boot" {
		t.Errorf("with what is pending: %+v", a)
	}
	w, s = seen(n, site.FacetPower, site.Values{"state": "off"})
	first := amendment(n, site.FacetPower, w, s, false)
	n.Name = "n2"
	if other := amendment(n, site.FacetPower, w, s, false); first.Digest() == other.Digest() || len(first.Digest()) != 12 {
		t.Errorf("two nodes have the digests %s and %s", first.Digest(), other.Digest())
	}
}
