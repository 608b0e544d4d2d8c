package inside_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	peoplesKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1o3Sq8p6mXlVBfYbRq2YF0bPcWnHlTgZ1p2yq3yq3y people"
	firstKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbcdefghijklmnopqrstuvwxyz0123456789abcdefg first"
	secondKey  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBcdefghijklmnopqrstuvwxyz0123456789abcdefgh second"
)

// generator makes random designs over few names, so that designs meet.
type generator struct {
	*rand.Rand
	packages map[string]site.Package // kept for a while: transactions take seconds
	network  bool                    // a design may ask for links and for modules of the kernel
	actions  bool                    // a design may have boot actions
	links    map[string]item.Link
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 17))}
}

func (g *generator) maybe(one, in int) bool { return g.IntN(in) < one }

func (g *generator) pick(all ...string) string { return all[g.IntN(len(all))] }

func ref[T any](v T) *T { return &v }

// hasMore leaves out what the small system of CI has no packages for.
func hasMore(list []string) []string {
	if !proves() {
		return nil
	}
	return list
}

// design is a random one that a system can have. Where two facets can own a path, one of
// them does.
func (g *generator) design() *site.Node {
	s := site.System{Files: map[string]site.File{}, Units: map[string]site.Unit{}, Users: map[string]site.User{}, Sysctl: site.Scalars{}}
	d := &site.Node{Name: "n1", References: site.References{Family: "debian"}}
	g.basics(&s)
	g.users(&s)
	g.packaged(&s)
	g.files(&s)
	g.units(&s)
	g.sysctls(&s)
	if g.network { // only that node is made with them
		g.modules(&s)
	}
	if proves() && g.maybe(1, 6) {
		s.Environments = map[string]site.Environment{"tools": {Path: "/opt/tools"}}
		if g.maybe(1, 2) {
			s.Environments["tools"] = site.Environment{Path: "/opt/tools", Index: "file:///srv/index-a", Packages: map[string]string{"one": "1.0"}}
		}
	}
	for _, name := range []string{"isolcpus", "iommu", "nosmt"} {
		if g.maybe(1, 4) {
			if d.Kernel.Parameters == nil {
				d.Kernel.Parameters = site.Scalars{}
			}
			d.Kernel.Parameters[name] = g.pick("off", "2-3")
		}
	}
	if g.maybe(1, 5) {
		s.Unlisted.Units = site.UnlistedDisable
	}
	d.System = s
	d.References.Artifacts = artifacts
	if g.maybe(1, 4) {
		g.driver(d)
	}
	if g.actions {
		d.References.Actions = map[string]site.BootAction{g.pick("burn", "join"): {Timeout: site.Duration(time.Minute), Run: []string{"/bin/true"}}}
	}
	if g.network {
		if g.links == nil || g.maybe(1, 3) {
			g.links = g.interfaces()
		}
		d.References.Links = g.links
	}
	return d
}

// builtIn are modules that a node of random designs has in its kernel, and loadable those that its
// modprobe loads. systemd gives some modules parameters of its own, such as bonding: those are refused.
var builtIn, loadable = []string{"loop", "overlay"}, []string{"nbd", "zram"}

func (g *generator) modules(s *site.System) {
	s.Modules = map[string]site.Module{}
	for _, name := range builtIn {
		if g.maybe(1, 4) {
			s.Modules[name] = site.Module{}
		}
	}
	for _, name := range loadable {
		switch g.IntN(6) {
		case 0:
			s.Modules[name] = site.Module{}
		case 1:
			s.Modules[name] = site.Module{Parameters: site.Scalars{"number": int64(g.IntN(3)), "mode": g.pick("a", "b")}}
		}
	}
}

// driver is one for the model that the design says the machine has.
func (g *generator) driver(d *site.Node) {
	d.Hardware.Model = "M-1"
	has := &site.Driver{Match: site.DriverMatch{Model: g.pick("M-*", "M-1", "M-2")}, Firmware: map[string]string{"slipway/new.bin": g.pick("tool-a", "tool-b")}}
	if g.network && g.maybe(1, 2) {
		has.Modules = map[string]site.KernelModule{g.pick(loadable...): {Parameters: site.Scalars{"number": int64(g.IntN(3))}}}
	}
	if _, there := d.System.Repositories["site"]; there && g.maybe(1, 2) {
		has.Packages = map[string][]string{"debian": {"two"}}
	}
	d.References.Drivers = map[string]*site.Driver{"card": has}
}

func (g *generator) basics(s *site.System) {
	if g.maybe(1, 3) { // and never its file: docs/system-changes.md says what stays then
		s.Hostname = g.pick("{name}", "other", "n1.example.org")
	}
	if g.maybe(1, 2) { // and never its file, as above
		s.Hosts = map[string][]string{"10.9.0.1": {g.pick("a", "b"), "c"}}
		if g.maybe(1, 2) {
			s.Hosts["10.9.0.2"] = []string{"d"}
		}
	}
	if g.maybe(1, 2) {
		s.Time.Zone = g.pick("Europe/Zurich", "Asia/Tokyo", "Etc/UTC")
	}
	switch g.IntN(4) {
	case 0, 1:
		s.Time.Servers = hasMore([][]string{{"10.9.0.1"}, {"10.9.0.1", "time.example.org"}}[g.IntN(2)])
	case 2:
		s.Files["/etc/systemd/timesyncd.conf.d/zz-slipway.conf"] = site.File{Content: ref("[Time]\nNTP=10.9.0.9\n")}
	}
	if g.maybe(1, 3) {
		s.Logs.Forward = hasMore([]string{g.pick("udp://10.9.0.5", "tcp://10.9.0.5:5514")})
	}
}

func (g *generator) users(s *site.System) {
	for n, name := range []string{"ada", "bob", "people"} {
		switch g.IntN(5) {
		case 0, 1, 2:
			u := site.User{UID: ref(int64(1500 + n)), Sudo: g.maybe(1, 3) && proves(), Shell: g.pick("", "/bin/bash", "/bin/sh")}
			if name == "people" {
				u.UID = nil
			}
			for _, group := range []string{"adm", "video", "audio"} {
				if g.maybe(1, 3) {
					u.Groups = append(u.Groups, group)
				}
			}
			for _, key := range []string{firstKey, secondKey, peoplesKey} {
				if g.maybe(1, 3) {
					u.Keys = append(u.Keys, key)
				}
			}
			if name == "ada" && g.maybe(1, 3) {
				u.Password = g.pick("console", "other")
			}
			s.Users[name] = u
		case 3:
			if name != "people" { // nor is its file of keys designed: docs/system-changes.md says what stays then
				s.Users[name] = site.User{State: item.Absent}
			}
		}
	}
}

func (g *generator) packaged(s *site.System) {
	if g.packages == nil || g.maybe(1, 4) {
		was := g.packages["one"]
		g.packages = map[string]site.Package{}
		if g.maybe(1, 2) {
			p := site.Package{Version: g.pick("", "1.0", "2.0"), State: g.pick("", "held")}
			if p.Version == "" { // a version that leaves the design stays
				p.Version = was.Version
			}
			if p.State == "held" && p.Version == "" { // what is there is held, so the version depends on what was before
				p.Version = "1.0"
			}
			g.packages["one"] = p
		}
		for _, name := range []string{"two", "configured", "serving"} {
			if g.maybe(1, 2) {
				g.packages[name] = site.Package{}
			} else if g.maybe(1, 4) {
				g.packages[name] = site.Package{State: item.Absent}
			}
		}
		if g.network && g.maybe(1, 3) {
			g.packages["patched"] = site.Package{}
		}
	}
	s.Packages = g.packages
	// With its package and without it, so that the version does not depend on what was there before.
	if _, upgraded := s.Packages["patched"]; upgraded {
		s.Patch = &site.Patch{Level: "all", Snapshot: "file:///srv/snap-b", Reboot: "never"}
	}
	if slices.ContainsFunc(slices.Collect(mapsValues(s.Packages)), func(p site.Package) bool { return p.State != item.Absent }) || g.maybe(1, 3) {
		s.Repositories = map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: made.signs}}
		if p := g.packages["one"]; p.Version == "" && g.maybe(1, 4) {
			r := s.Repositories["site"]
			r.Pin = 700
			s.Repositories["site"] = r
		}
	}
	if s.Patch != nil {
		s.Repositories["first"] = site.Repository{URL: "file:///srv/snap-a", Suite: "bookworm", Components: []string{"main"}, Key: made.signs}
	}
}

func mapsValues[K comparable, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

func (g *generator) files(s *site.System) {
	owner := func() string {
		if u, designed := s.Users["ada"]; designed && u.State == "" && g.maybe(1, 3) {
			return "ada"
		}
		return g.pick("root", "root", "daemon")
	}
	for _, path := range []string{"/etc/motd", "/etc/before.conf", "/etc/folder/before.conf", "/etc/folder/new", "/srv/a/b/c", "/srv/a/b/d", "/srv/a/e", "/opt/new", "/etc/configured.conf",
		"/srv/with a blank/\u00fcber 'quoted'", "/etc/sysctl.d/50-people.conf"} {
		if path == "/etc/configured.conf" && s.Packages["configured"].State == item.Absent {
			continue
		}
		switch g.IntN(5) {
		case 0, 1:
			content, template := g.pick("x", "y\n", "before\n", ""), g.maybe(1, 4)
			if template {
				content = "{name}" + content
			}
			s.Files[path] = site.File{Content: &content, Template: template, Mode: g.pick("", "0600", "0755", "4755"), Owner: owner(), Group: g.pick("", "adm")}
		case 2:
			s.Files[path] = site.File{State: item.Absent}
		case 3:
			if g.maybe(1, 3) {
				s.Files[path] = site.File{Artifact: g.pick("tool-a", "tool-b"), Mode: g.pick("", "0755"), Owner: owner()}
			}
		}
	}
	if g.maybe(1, 8) { // a file in the place of a folder
		delete(s.Files, "/srv/a/b/c")
		delete(s.Files, "/srv/a/b/d")
		s.Files["/srv/a/b"] = site.File{Content: ref("a file")}
	}
}

func (g *generator) units(s *site.System) {
	unit := func(name string, contents ...string) {
		u := site.Unit{State: g.pick("", "running", "stopped")}
		if c := g.pick(contents...); c != "" {
			u.Content = &c
		}
		if g.maybe(1, 2) {
			u.Enabled = ref(g.maybe(1, 2))
		}
		if f, designed := s.Files["/etc/motd"]; designed && f.State == "" && g.maybe(1, 3) {
			u.RestartOn = []string{"/etc/motd"}
		}
		if u.Content == nil && g.maybe(1, 6) {
			u = site.Unit{State: "masked"}
		}
		s.Units[name] = u
	}
	multi, basic := service("ours", "multi-user.target"), service("ours as well", "basic.target")
	switch g.IntN(4) {
	case 0, 1:
		unit("own.service", multi, basic)
	case 2:
		s.Files["/etc/systemd/system/own.service"] = site.File{Content: ref(service("from a file", "multi-user.target"))}
	}
	if g.maybe(1, 2) {
		unit("before.service", "", "", multi)
	}
	if g.maybe(1, 3) {
		unit("other.service", multi, service("other", "other.target"))
	}
	if p, designed := s.Packages["serving"]; designed && p.State != item.Absent && g.maybe(2, 3) {
		unit("serving.service", "", "", multi)
	}
	if g.maybe(1, 4) {
		s.Units["fstrim.timer"] = site.Unit{Enabled: ref(g.maybe(1, 2))}
	}
}

func (g *generator) sysctls(s *site.System) {
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.lo.rp_filter", "net.ipv4.conf.all.accept_redirects"} {
		if g.maybe(1, 3) {
			s.Sysctl[name] = int64(g.IntN(2))
		}
	}
	if len(s.Sysctl) == 0 && g.maybe(1, 2) {
		s.Files["/etc/sysctl.d/60-slipway.conf"] = site.File{Content: ref("net.ipv4.conf.all.log_martians = 1\n")}
	}
}

// interfaces are some of those that the kernel of the system has besides its loopback. A bridge
// does not speak the spanning tree protocol, with which it has no carrier for the first 30 s.
func (g *generator) interfaces() map[string]item.Link {
	l := item.Link{Kind: "ethernet", MTU: []int{0, 1400, 1500}[g.IntN(3)], Addresses: []string{"10.1.0.11/24"}}
	if g.maybe(1, 3) {
		l.Servers, l.Search = []string{g.pick("10.1.0.1", "10.1.0.2")}, []string{"example.org"}
	}
	switch g.IntN(8) {
	case 0:
		return map[string]item.Link{"eth1": {Kind: "ethernet"}, "br0": {Kind: "bridge", Members: []string{"eth1"}, Addresses: []string{"10.1.0.11/24"}}}
	case 3:
		return map[string]item.Link{}
	case 4:
		second := item.Link{Kind: "ethernet", MTU: []int{0, 1450}[g.IntN(2)], Addresses: []string{"10.78.0.11/24"}, Routes: []item.Route{{To: "10.201.0.0/16", Via: "10.78.0.1"}}}
		return map[string]item.Link{"eth1": l, "eth2": second}
	case 5:
		return map[string]item.Link{"eth1": {Kind: "ethernet"}, "eth2": {Kind: "ethernet"}, "br0": {Kind: "bridge", MTU: 1450, Members: []string{"eth1", "eth2"}, Addresses: []string{"10.1.0.11/24", "fd00::12/64"}}}
	case 6:
		l.Routes = []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}, {To: "10.202.0.0/16", Via: "10.1.0.2"}}
	case 1:
		l.Addresses = append(l.Addresses, "10.1.0.12/24", "fd00::11/64")
	case 2:
		l.Routes = []item.Route{{To: "10.200.0.0/16", Via: "10.1.0.1", Metric: 50}}
	}
	return map[string]item.Link{"eth1": l}
}

// told is a design for people.
func told(d *site.Node) string {
	text, err := json.Marshal(map[string]any{"system": d.System, "kernel": d.Kernel, "links": d.References.Links, "drivers": d.References.Drivers, "actions": d.References.Actions})
	if err != nil {
		return fmt.Sprint(err)
	}
	short := string(text)
	for _, r := range d.System.Repositories {
		if r.Key != "" {
			short = strings.ReplaceAll(short, strings.Trim(strconv.Quote(r.Key), `"`), "KEY")
		}
	}
	return short
}
