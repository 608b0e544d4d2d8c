package network

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// system is a machine under a root folder that runs systemd-networkd, as far as
// its configuration files tell.
type system struct {
	t    *testing.T
	root string
	// timer is the name of the transient timer that runs; running says that
	// services do, which they do not while the machine boots.
	timer   string
	running bool
	// ifupdown says that it has set up its interfaces too.
	ifupdown bool
	// addresses and routes are the kernel's, by interface.
	addresses map[string][]string
	routes    map[string][]item.Route
	ran       []string
	// deaf gateways do not answer; broken programs fail.
	deaf bool
	// storage are who answers in 10.2.0.0/24.
	storage []string
	others  map[string]string // hardware addresses of other machines by interface and address
	broken  string
	// stuck says that nothing that changes the network works.
	stuck bool
	// steps counts what was done; the program is killed at the step cut.
	steps, cut int
	onStep     func(what string)
}

type killed struct{}

// newSystem is a machine whose one interface has an address by a file of others.
func newSystem(t *testing.T) *system { return newSystemIn(t, t.TempDir()) }

func newSystemIn(t *testing.T, root string) *system {
	s := &system{t: t, root: root, running: true, cut: -1}
	for path, text := range map[string]string{
		"/etc/systemd/system/multi-user.target.wants/systemd-networkd.service": "",
		"/etc/systemd/network/10-eth0.network":                                 "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\n[Route]\nDestination=0.0.0.0/0\nGateway=10.1.0.1\n",
		"/etc/systemd/network/99-other.network":                                "[Match]\nName=other\n",
		"/etc/netplan/50-kept.yaml":                                            "network: {}\n",
	} {
		put(t, s.root, path, text, 0o644)
	}
	s.link("eth0", "52:54:00:aa:00:01", 2)
	s.link("eth1", "52:54:00:aa:00:02", 3)
	s.reload()
	return s
}

func (s *system) link(name, mac string, index int) {
	for file, text := range map[string]string{"ifindex": fmt.Sprint(index), "mtu": "1500", "address": mac, "carrier": "1", "flags": "0x1003", "speed": "25000", "duplex": "full"} {
		put(s.t, s.root, "/sys/class/net/"+name+"/"+file, text+"\n", 0o644)
	}
}

// bridge is a bridge that is there, with ports.
func (s *system) bridge(name string, index int, ports ...string) {
	s.link(name, fmt.Sprintf("52:54:00:aa:01:%02x", index), index)
	put(s.t, s.root, "/sys/class/net/"+name+"/bridge/stp_state", "0\n", 0o644)
	s.plug(name, ports...)
}

// guest has a guest that runs, with its port on a bridge or on nothing.
func (s *system) guest(port string, index int, on ...string) {
	s.link(port, fmt.Sprintf("fe:54:00:aa:00:%02x", index), index)
	for _, master := range on {
		s.plug(master, port)
	}
}

// plug puts ports into a bridge or bond.
func (s *system) plug(master string, ports ...string) {
	folder := "/sys/class/net/" + master
	for _, port := range ports {
		if s.unplug(port); s.has(folder + "/bonding") {
			put(s.t, s.root, folder+"/bonding/slaves", s.read(folder+"/bonding/slaves")+" "+port, 0o644)
		} else {
			put(s.t, s.root, folder+"/brif/"+port, "", 0o644)
		}
		if err := os.Symlink("../"+master, filepath.Join(s.root, "/sys/class/net", port, "master")); err != nil {
			s.t.Fatal(err)
		}
	}
}

// unplug takes a port out of its bridge or bond.
func (s *system) unplug(port string) {
	at := filepath.Join(s.root, "/sys/class/net", port, "master")
	master, err := os.Readlink(at)
	if err != nil {
		return
	}
	_ = os.Remove(at)
	folder := "/sys/class/net/" + filepath.Base(master)
	_ = os.Remove(filepath.Join(s.root, folder, "brif", port))
	if slaves := folder + "/bonding/slaves"; s.has(slaves) {
		left := slices.DeleteFunc(strings.Fields(s.read(slaves)), func(p string) bool { return p == port })
		put(s.t, s.root, slaves, strings.Join(left, " "), 0o644)
	}
}

// ports are those of a bridge.
func (s *system) ports(bridge string) string {
	entries, _ := os.ReadDir(filepath.Join(s.root, "/sys/class/net", bridge, "brif"))
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// reload is what systemd-networkd does: the first file that matches counts.
func (s *system) reload() {
	s.addresses, s.routes = map[string][]string{}, map[string][]item.Route{}
	folder := filepath.Join(s.root, networkdFolder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		s.t.Fatal(err)
	}
	done := map[string]bool{}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".network" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		v := settings(string(text))
		name := v["Match.Name"][0]
		if done[name] {
			continue
		}
		done[name] = true
		s.addresses[name] = v["Network.Address"]
		for n, to := range v["Route.Destination"] {
			s.routes[name] = append(s.routes[name], item.Route{To: to, Via: v["Route.Gateway"][n]})
		}
		mtu := "1500"
		if m := v["Link.MTUBytes"]; len(m) > 0 {
			mtu = m[0]
		}
		if _, err := os.Stat(filepath.Join(s.root, "/sys/class/net", name)); err == nil {
			put(s.t, s.root, "/sys/class/net/"+name+"/mtu", mtu, 0o644)
		}
	}
}

func (s *system) exec(_ context.Context, c inside.Command) (inside.Output, error) {
	words := append([]string{c.Path}, c.Args...)
	text := strings.Join(words, " ")
	if strings.Contains(text, "is-active") {
		unit := words[len(words)-1]
		if unit == s.timer+".timer" && s.timer != "" || unit == "systemd-networkd.service" && s.running || unit == "networking.service" && s.ifupdown {
			return inside.Output{}, nil
		}
		return inside.Output{Code: 3}, nil
	}
	s.ran = append(s.ran, text)
	if s.stuck && (c.Path == "networkctl" || c.Path == "ip") {
		return inside.Output{Code: 1, Err: []byte("Connection timed out\n")}, nil
	}
	if s.broken != "" && strings.Contains(text, s.broken) {
		return inside.Output{Code: 1, Err: []byte("no\n" + s.broken + " is broken\x1b[2J\n")}, nil
	}
	switch {
	case c.Path == "systemd-run":
		for _, w := range words {
			if unit, ok := strings.CutPrefix(w, "--unit="); ok {
				s.timer = unit
			}
		}
	case strings.HasSuffix(text, "stop networking.service"):
		s.ifupdown = false
	case strings.HasSuffix(text, "start networking.service"):
		s.ifupdown = true
	case strings.HasPrefix(text, "systemctl stop"):
		s.timer = ""
	case c.Path == "networkctl":
		s.reload()
	case strings.HasPrefix(text, "ip link delete dev "):
		_ = os.RemoveAll(filepath.Join(s.root, "/sys/class/net", words[4]))
	case strings.HasPrefix(text, "ip link set dev ") && len(words) == 7 && words[5] == "master":
		s.plug(words[6], words[4])
	case strings.HasPrefix(text, "ip link set dev ") && words[5] == "nomaster":
		s.unplug(words[4])
	case strings.HasPrefix(text, "ip address replace"):
		s.addresses[words[5]] = append(s.addresses[words[5]], words[3])
	case strings.HasPrefix(text, "ip address delete"):
		s.addresses[words[5]] = slices.DeleteFunc(s.addresses[words[5]], func(a string) bool { return a == words[3] })
	case strings.HasPrefix(text, "ip route replace"):
		s.routes[words[6]] = append(s.routes[words[6]], item.Route{To: words[3], Via: words[5]})
	}
	return inside.Output{}, nil
}

func (s *system) facet() *Facet {
	f := standard()
	f.Deadline = 2 * time.Second
	f.tables = tables{
		func() ([]kernelAddress, error) {
			var all []kernelAddress
			for name, addresses := range s.addresses {
				for _, a := range addresses {
					all = append(all, kernelAddress{s.index(name), netip.MustParsePrefix(a), true})
				}
			}
			return all, nil
		},
		func() ([]kernelRoute, error) {
			var all []kernelRoute
			for name, routes := range s.routes {
				for _, r := range routes {
					all = append(all, kernelRoute{index: s.index(name), Route: r})
				}
			}
			return all, nil
		},
		func() ([]kernelUse, error) { return nil, nil },
		func() (map[int]int, error) { return nil, nil },
	}
	f.answers = func(_ context.Context, _ *inside.Host, a netip.Addr) bool {
		if strings.HasPrefix(a.String(), "10.2.0.") {
			return slices.Contains(s.storage, a.String())
		}
		return !s.deaf || slices.Contains(s.addresses["eth0"], "10.1.0.10/24")
	}
	f.holder = func(_ context.Context, _ *inside.Host, name string, a netip.Addr) string {
		return s.others[name+" "+a.String()]
	}
	f.executable = func() (string, error) { return inside.Folder + "/helper-1234", nil }
	f.step = func(what string) {
		if s.onStep != nil {
			s.onStep(what)
		}
		if s.steps == s.cut {
			panic(killed{})
		}
		s.steps++
	}
	return f
}

func (s *system) index(name string) int {
	text, _ := os.ReadFile(filepath.Join(s.root, "/sys/class/net", name, "ifindex"))
	n := 0
	_, _ = fmt.Sscan(string(text), &n) // 0 is no interface
	return n
}

func (s *system) host() *inside.Host {
	owned, err := inside.LoadOwned(s.root)
	if err != nil {
		s.t.Fatal(err)
	}
	return &inside.Host{Root: s.root, Live: true, Exec: s.exec, Owned: owned, Tell: func(string) {}}
}

// orKilled runs something, and says whether it was killed in the middle.
func orKilled(do func() error) (err error, cut bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(killed); !ours {
				panic(r)
			}
			cut = true
		}
	}()
	return do(), false
}

// configuration is all that decides how the network is: the managers' files, our
// list, and the kernel's addresses.
func (s *system) configuration() string {
	var b strings.Builder
	for _, tree := range append(slices.Clone(trees), "/etc/cloud", asideFolder) {
		err := filepath.WalkDir(filepath.Join(s.root, tree), func(at string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil
			}
			text, err := os.ReadFile(at)
			fmt.Fprintf(&b, "%s %q %v\n", strings.TrimPrefix(at, s.root), text, err)
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	fmt.Fprintln(&b, "owned", s.host().Owned.Digest())
	names := []string{"eth0", "eth1"}
	for _, n := range names {
		mtu, _ := os.ReadFile(filepath.Join(s.root, "/sys/class/net", n, "mtu"))
		fmt.Fprintln(&b, n, strings.TrimSpace(string(mtu)), s.addresses[n], s.routes[n])
	}
	return b.String()
}

func (s *system) has(path string) bool { return exists(filepath.Join(s.root, path)) }

// armed says whether both ways back are there.
func (s *system) armed() bool {
	c, err := readMarker(s.host())
	if err != nil {
		s.t.Fatal(err)
	}
	return c != nil && c.Armed && s.timer == timerUnit(c.Name) && s.has(bootUnit) && s.has(bootLink) && s.has(folder(c.Name)+"/etc/systemd/network/10-eth0.network")
}

func items(all links) []item.Item {
	var list []item.Item
	for _, name := range all.names() {
		body, _ := json.Marshal(all[name])
		list = append(list, item.Item{Key: "links." + name, Fields: all[name].Fields(), Body: body})
	}
	return list
}

func keysOf(all links) []string { return item.Keys(items(all)) }
