package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// nginx is a health of one unit.
var nginx = &site.Health{Units: []string{"nginx.service"}, Timeout: site.Duration(10 * time.Minute)}

const failed = "nginx.service is failed"

// healthy has the role of nodes ask for a health, as an evaluated design does.
func healthy(h *site.Health, role string) func(*site.Site) {
	return func(d *site.Site) {
		d.Roles[role].Health = h
		for _, n := range d.Nodes {
			if n.Role == role {
				n.References.Health = h
			}
		}
	}
}

// servingHealthy brings a service with a health up.
func (w *world) servingHealthy(names ...string) *site.Site {
	w.t.Helper()
	d := w.serving(names...)
	healthy(nginx, "web")(d)
	w.commit(d)
	w.after(3 * time.Minute)
	for _, name := range names {
		if n := w.node(name); n.State != site.InSync || n.SystemHealth.State != site.Healthy {
			w.t.Errorf("%s is %s, %s", name, n.State, n.SystemHealth)
		}
	}
	return d
}

// A canary whose service does not come up holds the others; it has the time that the
// health gives it, and then the rollout halts.
func TestCanariesHaveToBeHealthy(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.servingHealthy(names(3)...)
		w.fleet.Machine("n1").SetHealth(failed, "")
		w.patch(d, "2", func(d *site.Site) {
			healthy(nginx, "web")(d)
			d.Rollout.MaxUnavailable = "3"
			d.Rollout.Canaries = &site.Canaries{Count: 1, Soak: site.Duration(5 * time.Minute)}
		})
		w.after(5 * time.Minute)
		w.want("n1", site.Progressing)
		w.reason("n1", "waiting for its system, which is not healthy: "+failed)
		w.reason("n2", "waits for the canaries (n1)")
		w.reason("n2", "n1 ("+failed+") is progressing")
		w.fleet.Machine("n1").SetHealth("", "")
		w.after(3 * time.Minute)
		w.want("n1", site.InSync)
		w.fleet.Machine("n1").SetHealth(failed, "") // before it has soaked
		w.after(4 * time.Minute)
		w.reason("n2", "waits for the canaries (n1)")
		w.after(10 * time.Minute)
		w.want("n1", site.Stalled)
		w.reason("n1", "it is not healthy, for longer than 10m: "+failed)
		if got := w.patchedNow(names(3)...); !slices.Equal(got, []string{"n1"}) {
			t.Errorf("patched: %v", got)
		}
		if r := w.rollout(); r.Halted != "canary n1 has failed" || !strings.Contains(r.Failed["n1"], failed) {
			t.Errorf("the rollout is %+v", r)
		}
		// The health that was designed wrongly is the remedy.
		w.patch(d, "2", func(d *site.Site) {
			healthy(&site.Health{Ports: []int{80}}, "web")(d)
			d.Rollout.MaxUnavailable = "3"
		})
		w.fleet.Machine("n1").SetHealth("", "")
		w.after(15 * time.Minute)
		if got := w.patchedNow(names(3)...); len(got) != 3 {
			t.Errorf("patched after the remedy: %v; %+v", got, w.rollout())
		}
	}, names(3)...)
}

// The next machine is not taken out of service while one that was restarted is not
// healthy, nor while another one that was healthy is not so, or is unknown.
func TestBoundsCountWhatIsNotHealthy(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.servingHealthy(names(3)...)
		smt := false
		restart := func() {
			d = w.service(names(3)...)
			healthy(nginx, "web")(d)
			for _, n := range d.Nodes {
				n.BIOS.SMT = &smt
			}
			w.commit(d)
		}
		restarted := func() (all []string) {
			for _, name := range names(3) {
				if w.fleet.Machine(name).Counts().Resets > 0 {
					all = append(all, name)
				}
			}
			return all
		}
		w.fleet.Machine("n3").SetHealth("", "its system is not known")
		w.after(7 * time.Minute)
		if n := w.node("n3"); n.State != site.InSync || n.SystemHealth.State != site.HealthUnknown || n.SystemHealth.Why != "its system is not known" {
			t.Errorf("n3 is %s, %s", n.State, n.SystemHealth)
		}
		w.fleet.Machine("n1").SetHealth(failed, "")
		w.after(7 * time.Minute)
		w.want("n1", site.Progressing)
		restart()
		w.after(20 * time.Minute)
		// n1 has its place already, and takes its turn; n2 is healthy and waits.
		w.reason("n2", "allows 1 of 3 nodes out of service")
		w.reason("n2", "n1 ("+failed+")")
		if got := restarted(); slices.Contains(got, "n2") {
			t.Errorf("restarted: %v", got)
		}
		w.fleet.Machine("n1").SetHealth("", "")
		w.fleet.Machine("n3").SetHealth("", "")
		w.do(site.Order{Verb: site.VerbRetry})
		w.after(40 * time.Minute)
		if got := restarted(); len(got) != 3 {
			t.Errorf("restarted once all are healthy: %v; %+v", got, w.rollout())
		}
	}, names(3)...)
}

// A health that is designed wrongly, so that no machine has it, lets no more of them
// be restarted at once than any other.
func TestWrongHealthRestartsNoMoreAtOnce(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.servingHealthy(names(4)...)
		for _, name := range names(4) {
			w.fleet.Machine(name).SetHealth(failed, "")
		}
		w.after(7 * time.Minute)
		d := w.service(names(4)...)
		healthy(nginx, "web")(d)
		smt := false
		for _, n := range d.Nodes {
			n.BIOS.SMT = &smt
		}
		w.commit(d)
		w.after(2 * time.Hour)
		restarted := 0
		for _, name := range names(4) {
			restarted += w.fleet.Machine(name).Counts().Resets
		}
		if r := w.rollout(); restarted != 1 {
			t.Errorf("%d were restarted: %+v", restarted, r)
		}
	}, names(4)...)
}

// A need counts only nodes that are healthy, and says which probe fails.
func TestNeedsCountHealthyNodes(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		all := []string{"c1", "s1", "s2"}
		for _, name := range all {
			w.fleet.Machine(name).SetDisk(&site.Marker{})
			w.fleet.Machine(name).SetPower("on")
		}
		design := func(version string) *site.Site {
			d := w.design(all...)
			d.Rollout.FirstContact = "repair" // the systems were met
			phases := []string{"base", "network", "install", "configure"}
			d.Roles = map[string]*site.Role{"storage": {Enabled: true, Phases: phases}, "compute": {Enabled: true, Phases: phases,
				Needs: map[string]map[string]site.Need{"install": {"storage": {Phase: "configure", Quorum: "all"}}}}}
			for name, n := range d.Nodes {
				n.Role = map[byte]string{'c': "compute", 's': "storage"}[name[0]]
			}
			if version != "" {
				d.Nodes["c1"].System.Packages = map[string]site.Package{"nginx": {Version: version}}
			}
			healthy(nginx, "storage")(d)
			return d
		}
		w.commit(design(""))
		w.up()
		w.after(5 * time.Minute)
		w.fleet.Machine("s2").SetHealth(failed, "")
		w.after(6 * time.Minute)
		w.commit(design("2"))
		w.after(3 * time.Minute)
		w.want("c1", site.Blocked)
		w.reason("c1", "its phase install needs 2 of 2 nodes of role storage to have gone through configure and to be healthy")
		w.reason("c1", "1 have, not s2 ("+failed+")")
		w.fleet.Machine("s2").SetHealth("", "port 22 closes connections")
		w.after(3 * time.Minute)
		w.reason("c1", "1 have, not s2 (port 22 closes connections)")
		w.fleet.Machine("s2").SetHealth("", "")
		w.after(5 * time.Minute)
		w.want("c1", site.InSync)
	}, "c1", "s1", "s2")
}

// How long a node is not healthy counts on over a restart of the daemon, and so does
// the place that it has.
func TestHealthCountsOverARestart(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		d := w.servingHealthy(names(2)...)
		w.fleet.Machine("n1").SetHealth(failed, "")
		w.patch(d, "2", healthy(nginx, "web"))
		for range 3 {
			w.after(3 * time.Minute)
			w.want("n1", site.Progressing)
			w.down()
			w.up()
		}
		w.after(6 * time.Minute)
		w.want("n1", site.Stalled)
		w.do(site.Order{Verb: site.VerbRetry, Node: "n1"})
		w.after(time.Minute)
		w.want("n1", site.Progressing)
	}, names(2)...)
}

// blindDriver sees no health, as the driver does without helpers.
type blindDriver struct{ driver.Driver }

func (d blindDriver) Facets() []site.Facet {
	return slices.DeleteFunc(slices.Clone(d.Driver.Facets()), func(f site.Facet) bool { return f == site.FacetProbes })
}

// Where nobody looks, a node that is at rest stays in-sync with an unknown health, and
// one that was changed waits, says so, and fails in time.
func TestHealthThatNobodyLooksAt(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		w.systems = blindDriver{w.fleet.OSDriver()}
		d := w.serving(names(1)...)
		healthy(nginx, "web")(d)
		w.commit(d)
		w.after(10 * time.Minute)
		w.want("n1", site.InSync)
		if h := w.node("n1").SystemHealth; h.State != site.HealthUnknown || !strings.Contains(h.Why, "--agents") {
			t.Errorf("the health is %s", h)
		}
		w.patch(d, "2", healthy(nginx, "web"))
		w.after(8 * time.Minute)
		w.reason("n1", "not known to be healthy: Slipway cannot look at it: the daemon runs without helpers (--agents)")
		w.after(10 * time.Minute)
		w.want("n1", site.Stalled)
	}, names(1)...)
}
