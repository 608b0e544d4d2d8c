package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A site of virtual machines from its first commit to a machine's end: real
// libvirt, real guests, and a daemon that is killed over the first definition.
func TestVirtualMachines(t *testing.T) {
	t.Parallel()
	f := newFarm(t, guest{name: "db-1", role: "db", address: "10.77.0.11"},
		guest{name: "web-1", role: "web", address: "10.77.0.12"}, guest{name: "web-2", role: "web", address: "10.77.0.13"})

	f.start()
	f.eventually("a definition is under way", func() bool { return f.calls("DomainDefineXML") > 0 })
	f.daemon.kill()
	f.hypervisor.Restart()
	f.start()
	f.settled()
	f.reported("3/3 in-sync")
	f.firstBoots()

	f.configures()
	f.restarts()
	f.installsAnew()
	f.leavesAlone()
	f.endsOne()
	f.losesItsRecords()
	f.stop()
}

// firstBoots holds what came of the first commit to what was asked.
func (f *farm) firstBoots() {
	f.t.Helper()
	if n := f.fetched.Load(); n < 1 || n > 2 { // the daemon was killed once
		f.t.Errorf("the image was fetched %d times for one hypervisor", n)
	}
	for _, g := range f.guests {
		m := f.known(g.name)
		i, marker := m.Recorded.Installed, m.Observed.Marker
		if i == nil || !i.Proven || i.Generation != 1 || len(i.FirstBoot.HostKeys) == 0 || marker == nil || marker.Node != g.name || marker.Image != f.sha256 {
			f.t.Errorf("%s: recorded %+v, marker %+v", g.name, i, marker)
		}
		if in := m.Observed.Inside; in == nil || len(in.FailedUnits) > 0 || !grown(in) {
			f.t.Errorf("%s looks like this from inside: %+v", g.name, in)
		}
		if s := m.Observed.Facets[site.FacetSeed].Have["state"]; s != site.SeedNone {
			f.t.Errorf("%s: the seed is %s after its use", g.name, s)
		}
	}
	var order []string
	events, err := f.ask.Events(context.Background(), "", 0)
	check(f.t, err)
	for _, e := range events {
		if e.Kind == site.EventState && strings.HasPrefix(e.Text, string(site.InSync)) && !slices.Contains(order, e.Node) {
			order = append(order, e.Node)
		}
	}
	if len(order) > 0 && order[0] != "db-1" {
		f.t.Errorf("in-sync were in this order %v, and web needs db", order)
	}
}

// grown says whether the root file system has taken up the disk of 3 GiB.
func grown(in *site.Inside) bool {
	return slices.ContainsFunc(in.Mounts, func(m site.Mount) bool { return m.Path == "/" && m.Bytes > 5<<29 })
}

// restarts gives a guest more memory, which takes a boot of its own and of no
// other.
func (f *farm) restarts() {
	f.t.Helper()
	before := f.boots()
	f.change("web-1", "more memory", func(g *guest) { g.memory = "448MiB" })
	f.settled()
	f.onlyBooted("web-1", before)
	if m := f.known("web-1").Observed.Facets[site.FacetDefinition]; m.Have["memory"] != "448MiB" || len(m.Pending) > 0 {
		f.t.Errorf("web-1 has %s, pending %v", m.Have["memory"], m.Pending)
	}
}

// installsAnew raises a generation, which a person approves.
func (f *farm) installsAnew() {
	f.t.Helper()
	before, key := f.boots(), f.known("web-2").Recorded.Installed.FirstBoot.HostKeys
	f.change("web-2", "web-2 anew", func(g *guest) { g.generation = 2 })
	f.approveWhat("web-2")
	f.settled()
	f.onlyBooted("web-2", before)
	m := f.known("web-2")
	if m.Observed.Marker == nil || m.Observed.Marker.Generation != 2 || slices.Equal(m.Recorded.Installed.FirstBoot.HostKeys, key) {
		f.t.Errorf("marker %+v, host keys %v as before", m.Observed.Marker, key)
	}
}

// onlyBooted holds all guests but one to the boots that they had.
func (f *farm) onlyBooted(name string, before map[string]string) {
	f.t.Helper()
	f.lookAgain()
	for other, boot := range f.boots() {
		if (other == name) == (boot == before[other]) {
			f.t.Errorf("%s had boot %s and has %s, and only %s was to boot", other, before[other], boot, name)
		}
	}
}

// leavesAlone has a second pass write nothing, by libvirt's own log.
func (f *farm) leavesAlone() {
	f.t.Helper()
	before := f.hypervisor.Writes()
	f.lookAgain()
	f.lookAgain()
	if more := f.hypervisor.Writes()[len(before):]; len(more) > 0 {
		f.t.Errorf("with all in-sync these calls changed something: %v", more)
	}
}

// endsOne takes a guest away for good, in two commits and with an approval.
func (f *farm) endsOne() {
	f.t.Helper()
	before := f.boots()
	f.change("web-2", "web-2 goes", func(g *guest) { g.more = "\tdecommission: true\n" })
	f.approveWhat("web-2")
	f.eventually("web-2 is gone from the hypervisor", func() bool {
		return f.known("web-2").Observed.Facets[site.FacetDefinition].Have["state"] == site.StateAbsent
	})
	f.without("web-2")
	f.settled()
	f.status("web-2 is gone from the site", func(s site.Status) bool { return stateOf(s, "web-2").Name == "" })
	delete(before, "web-2")
	f.onlyBooted("", before)
}

// losesItsRecords has a daemon without records know the guests again, by the host keys
// that are signed on the status branch and their markers, and touch none of them.
func (f *farm) losesItsRecords() {
	f.t.Helper()
	before, writes := f.boots(), len(f.hypervisor.Writes())
	f.stop()
	check(f.t, os.RemoveAll(f.path("state")))
	f.start()
	for name := range before {
		f.eventually(name+" is known again by its marker", func() bool {
			k, err := f.ask.Known(context.Background(), "") // not before the daemon has evaluated the design
			return err == nil && k.Nodes[name].Observed.Marker != nil && k.Nodes[name].Observed.Marker.Node == name
		})
	}
	f.settled()
	f.onlyBooted("", before)
	if more := f.hypervisor.Writes()[writes:]; len(more) > 0 {
		f.t.Errorf("a daemon without records made these calls, which change something: %v", more)
	}
}

// A first boot of which a part fails does not prove the system, and what it was
// given stays for whoever looks for the cause.
func TestFirstBootThatFails(t *testing.T) {
	t.Parallel()
	f := newFarm(t, guest{name: "db-1", role: "db", address: "10.77.0.11", more: "\tsystem: users: twin: uid: 2\n"})
	f.patience = "1m"
	f.commit(f.design(), "a minute is enough")
	f.start()
	f.eventually("the console says that the first boot had errors", func() bool {
		text, err := f.ask.Console(context.Background(), "", "db-1")
		return err == nil && strings.Contains(string(text), "the first boot had errors")
	})
	f.status("it is stalled", func(s site.Status) bool {
		n := stateOf(s, "db-1")
		return n.State == site.Stalled && strings.Contains(n.Reason, "console")
	})
	m := f.known("db-1")
	if m.Observed.Marker != nil || m.Recorded.Installed != nil {
		t.Errorf("it has proven itself: %+v, %+v", m.Observed.Marker, m.Recorded.Installed)
	}
	if s := m.Observed.Facets[site.FacetSeed].Have["state"]; s != site.SeedAttached {
		t.Errorf("the seed is %s", s)
	}
}
