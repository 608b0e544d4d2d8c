package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// openstack is a cluster of 35 roles, 33 physical machines and 72 virtual
// ones, as Kinetic builds it. Every role installs from the cache and is
// configured when what it uses is. Roles stand after those that they need.
var openstack = []struct {
	role     string
	nodes    int
	physical bool
	install  []string // roles that have to be configured before it is installed
	needs    []string // and before it is configured
}{
	{"salt", 1, false, nil, nil},
	{"pxe", 1, false, []string{"salt"}, nil},
	{"controller", 3, true, []string{"salt"}, nil},
	{"cache", 2, false, []string{"controller"}, nil},
	{"haproxy", 2, false, cached, nil},
	{"mysql", 3, false, cached, nil},
	{"rabbitmq", 3, false, cached, nil},
	{"memcached", 3, false, cached, nil},
	{"etcd", 3, false, cached, nil},
	{"cephmon", 3, false, cached, nil},
	{"storage", 15, true, cached, []string{"cephmon"}},
	{"mds", 2, false, cached, []string{"cephmon"}},
	{"bind", 2, false, cached, nil},
	{"keystone", 3, false, cached, []string{"haproxy", "mysql", "rabbitmq", "memcached"}},
	{"glance", 3, false, cached, []string{"keystone", "cephmon"}},
	{"placement", 3, false, cached, []string{"keystone"}},
	{"ovsdb", 3, false, cached, []string{"controller"}},
	{"neutron", 3, false, cached, []string{"keystone", "ovsdb"}},
	{"nova", 3, false, cached, []string{"placement"}},
	{"cinder", 3, false, cached, []string{"keystone", "cephmon"}},
	{"volume", 3, false, cached, []string{"cinder"}},
	{"heat", 3, false, cached, []string{"keystone"}},
	{"horizon", 3, false, cached, []string{"keystone"}},
	{"barbican", 2, false, cached, []string{"keystone"}},
	{"designate", 2, false, cached, []string{"keystone", "bind"}},
	{"swift", 2, false, cached, []string{"keystone", "cephmon"}},
	{"zun", 2, false, cached, []string{"keystone", "etcd"}},
	{"magnum", 2, false, cached, []string{"heat", "barbican"}},
	{"sahara", 2, false, cached, []string{"heat"}},
	{"manila", 2, false, cached, []string{"keystone", "mds"}},
	{"share", 1, false, cached, []string{"manila"}},
	{"guacamole", 1, false, cached, nil},
	{"compute", 13, true, cached, []string{"nova", "neutron"}},
	{"container", 2, true, cached, []string{"zun", "nova", "neutron"}},
	{"graylog", 1, false, cached, nil},
}

var cached = []string{"cache"}

// durations are what a node of it takes, in seconds: the same for us and for
// the models of Kinetic.
var durations = struct {
	image, installer, vm             span // from power-on to the first contact
	base, network, install, settings span
	bootPhysical, bootVM             span
}{
	image: span{150, 300}, installer: span{600, 1200}, vm: span{30, 60},
	base: span{20, 60}, network: span{5, 20}, install: span{60, 300}, settings: span{30, 240},
	bootPhysical: span{60, 240}, bootVM: span{20, 40},
}

// took is what one node takes.
type took struct{ first, base, network, install, settings, boot time.Duration }

// cloud is the cluster with durations drawn for each node.
type cloud struct {
	plant *plant
	took  map[string]took
	of    map[string][]string // nodes by role
}

func newCloud(name string, seed uint64, installer bool) *cloud {
	dice := rand.New(rand.NewPCG(seed, 3))
	c := &cloud{plant: newPlant(name), took: map[string]took{}, of: map[string][]string{}}
	for _, r := range openstack {
		needs := map[string]map[string]site.Need{"install": {}, "configure": {}}
		for phase, roles := range map[string][]string{"install": r.install, "configure": r.needs} {
			for _, dep := range roles {
				needs[phase][dep] = site.Need{Phase: "configure", Quorum: "all"}
			}
		}
		c.plant.design.Roles[r.role] = &site.Role{Enabled: true, Phases: phases, Needs: needs}
		for i := range r.nodes {
			c.add(dice, fmt.Sprintf("%s-%02d", r.role, i), r.role, r.physical, installer)
		}
	}
	return c
}

// polls are two looks at what only needs time: at an installer and at the
// system that it leaves. They are more than two in a hundred of a short path.
const polls = 11 * time.Second

// pace is what a request and a power change take in it.
const pace = 100 * time.Millisecond

func (c *cloud) add(dice *rand.Rand, name, role string, physical, installer bool) {
	first, boot := durations.vm, durations.bootVM
	if physical {
		first, boot = durations.image, durations.bootPhysical
	}
	if physical && installer {
		first = durations.installer
	}
	d := took{first.draw(dice), durations.base.draw(dice), durations.network.draw(dice), durations.install.draw(dice),
		durations.settings.draw(dice), boot.draw(dice)}
	n := c.plant.add(name, drivertest.Config{
		Latency: pace, PowerTime: pace, InstallTime: d.first * 2 / 3, OSTime: d.first / 3,
		StepTime: map[site.Action]time.Duration{site.ActionBase: d.base, site.ActionNetwork: d.network,
			site.ActionPackages: d.install, site.ActionConfig: d.settings},
	})
	n.Role, n.Image, n.Generation = role, "debian", 1
	text := name
	n.System.Users = map[string]site.User{"ops": {}}
	n.Interfaces = map[string]site.Interface{"eth0": {MTU: 1500}}
	n.System.Packages = map[string]site.Package{role: {}}
	n.System.Files = map[string]site.File{"/etc/motd": {Content: &text}}
	c.took[name], c.of[role] = d, append(c.of[role], name)
}

// path is when each node is done if nothing ever waits for anything but what
// it needs: the longest path through the graph. A node that hangs, and what
// needs it, is never done.
func (c *cloud) path(hung []string) map[string]time.Duration {
	done, role := map[string]time.Duration{}, map[string]time.Duration{}
	after := func(at time.Duration, roles []string) time.Duration {
		for _, r := range roles {
			at = max(at, role[r])
		}
		return at
	}
	for _, r := range openstack {
		for _, n := range c.of[r.role] {
			t := c.took[n]
			at := after(t.first+t.base+t.network, r.install)
			at = after(at+t.install, r.needs) + t.settings
			if slices.Contains(hung, n) {
				at = never
			}
			role[r.role] = max(role[r.role], at)
			if at < never {
				done[n] = at
			}
		}
	}
	return done
}

// Each node of a large cluster is done as soon as what it needs allows, also
// when others hang.
func TestProveClusterTakesItsCriticalPath(t *testing.T) {
	for seed := range seeds(1, 20) {
		for hung := range seeds(1, 4) {
			together(t, func(ctx context.Context, store *record.Store) { buildCloud(t, ctx, store, uint64(seed)+1, (hung+2)%4) })
		}
	}
}

func buildCloud(t *testing.T, ctx context.Context, store *record.Store, seed uint64, hangs int) {
	c := newCloud("cloud", seed, false)
	dice := rand.New(rand.NewPCG(seed, 4))
	var hung []string
	for range hangs {
		n := pickOne(dice, c.plant.design.NodeNames()...)
		hung = append(hung, n)
		c.plant.fleet.Machine(n).SetFault(drivertest.Hangs)
	}
	c.plant.commit()
	defer start(t, ctx, store, seed, c.plant)()
	path := c.path(hung)
	c.plant.await(len(path), 3*time.Hour)
	worst, last := 0.0, time.Duration(0)
	for n, ideal := range path {
		at, done := c.plant.done[n]
		if !done {
			t.Errorf("seed %d, hung %v: %s is not done: %+v", seed, hung, n, status(c.plant, n))
			continue
		}
		over := float64(at.Sub(c.plant.began))/float64(ideal) - 1
		worst, last = max(worst, over), max(last, ideal)
		if late := at.Sub(c.plant.began) - ideal; over > 0.02 && late > polls {
			t.Errorf("seed %d, hung %v: %s took %s, its path is %s", seed, hung, n, at.Sub(c.plant.began), ideal)
		}
	}
	t.Logf("seed %d, hung %v: %d nodes done, the last path is %s, at worst %.1f%% over", seed, hung, len(path), last.Round(time.Second), 100*worst)
}

func status(p *plant, node string) site.NodeStatus {
	for _, n := range p.engine.Report().Status.Nodes {
		if n.Name == node {
			return n
		}
	}
	return site.NodeStatus{}
}
