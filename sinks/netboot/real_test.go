package netboot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A segment is a bridge with network namespaces on it: real clients, relays and
// servers beside the service, which runs as a process of its own in one of them.

const serveIn = "SLIPWAY_TEST_NETBOOT"

func TestMain(m *testing.M) {
	if os.Getenv(serveIn) != "" {
		if err := serveForTest(os.Getenv(serveIn)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveForTest runs the service with the design and the records of a folder. Orders
// come in by standard input, a JSON value a line.
func serveForTest(dir string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	listen, err := ParseListen(os.Getenv("LISTEN"))
	if err != nil {
		return err
	}
	var design atomic.Pointer[site.Site]
	read := func() error {
		text, err := os.ReadFile(filepath.Join(dir, "design.json"))
		if err != nil {
			return err
		}
		s := &site.Site{}
		design.Store(s)
		return json.Unmarshal(text, s)
	}
	if err := read(); err != nil {
		return err
	}
	ready := make(chan struct{})
	close(ready)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := New(Config{Listen: listen, Design: func() (*site.Site, error) { return design.Load(), nil }, Leases: inFile(filepath.Join(dir, "leases")), Ready: ready,
		ProbeEvery: 2 * time.Second, Log: log, Problem: func(about string, err error) { log.Info("problem", "about", about, "err", err) }})
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o struct {
			Arm    *Boot
			Disarm string
			Reload bool
		}
		err := json.Unmarshal(in.Bytes(), &o)
		switch {
		case err != nil:
		case o.Arm != nil:
			err = s.Arm(*o.Arm)
		case o.Disarm != "":
			s.Disarm(o.Disarm)
		case o.Reload:
			err = read()
		}
		answer := struct {
			Status []site.Served
			Err    string
		}{Status: s.Status()}
		if err != nil {
			answer.Err = err.Error()
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	cancel()
	return <-ended
}

// inFile are leases in a file, a line for each that was given. (The daemon has them
// in its records, and tests of those kill it too.)
type inFile string

func (f inFile) Leases(context.Context) ([]site.Lease, error) {
	text, err := os.ReadFile(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	last := map[string]site.Lease{}
	for line := range bytes.Lines(text) {
		var l site.Lease
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, err
		}
		last[l.Address] = l
	}
	return slices.Collect(maps.Values(last)), nil
}

func (f inFile) PutLease(_ context.Context, l site.Lease) error {
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return json.NewEncoder(file).Encode(l)
}

func (inFile) DropLease(context.Context, site.Lease) error { return nil }

// needs has a test fail in CI where a program is missing, and leaves it out
// elsewhere.
func needs(t testing.TB, programs ...string) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "network namespaces need root"
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			why = p + " is missing: run ./setup.sh"
		}
	}
	if why != "" && os.Getenv("CI") != "" {
		t.Fatal(why)
	} else if why != "" {
		t.Skip(why)
	}
}

var namespaces atomic.Int32

// segment is a bridge in a namespace of its own.
type segment struct {
	t    testing.TB
	dir  string
	base string // of the names of namespaces
}

func newSegment(t testing.TB) *segment {
	t.Helper()
	g := &segment{t: t, dir: t.TempDir(), base: fmt.Sprintf("swnb%d-%d-", os.Getpid(), namespaces.Add(1))}
	g.namespace("lan")
	g.in("lan", "ip", "link", "add", "br0", "type", "bridge")
	g.in("lan", "ip", "link", "set", "br0", "up")
	return g
}

// namespace makes a namespace, which is removed after the test.
func (g *segment) namespace(name string) {
	g.t.Helper()
	g.run("ip", "netns", "add", g.base+name)
	g.t.Cleanup(func() { exec.Command("ip", "netns", "del", g.base+name).Run() })
	g.in(name, "ip", "link", "set", "lo", "up")
}

// host makes a namespace with an interface eth0 on the bridge of another.
func (g *segment) host(name, mac string, addresses ...string) {
	g.t.Helper()
	g.namespace(name)
	g.plug(name, "eth0", mac, "lan", addresses...)
}

// plug gives a namespace another interface, on the bridge of a namespace.
func (g *segment) plug(name, iface, mac, lan string, addresses ...string) {
	g.t.Helper()
	port := "p" + name + iface[len(iface)-1:]
	g.run("ip", "-n", g.base+lan, "link", "add", port, "type", "veth", "peer", "name", iface, "address", mac, "netns", g.base+name)
	g.in(lan, "ip", "link", "set", port, "master", "br0", "up")
	g.in(name, "ip", "link", "set", iface, "up")
	for _, a := range addresses {
		g.in(name, "ip", "address", "add", a, "dev", iface)
	}
}

func (g *segment) run(args ...string) string {
	g.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// in runs a program in a namespace.
func (g *segment) in(name string, args ...string) string {
	g.t.Helper()
	return g.run(g.inside(name, args...)...)
}

func (g *segment) inside(name string, args ...string) []string {
	return append([]string{"ip", "netns", "exec", g.base + name}, args...)
}

// begin starts a program in a namespace, which is ended with the test or before.
func (g *segment) begin(name string, args ...string) (end func()) {
	g.t.Helper()
	args = g.inside(name, args...)
	cmd := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	done := false
	end = func() {
		if !done {
			done = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	g.t.Cleanup(func() {
		end()
		if g.t.Failed() {
			g.t.Logf("%s:\n%s", strings.Join(args, " "), out.String())
		}
	})
	return end
}

// daemon is the service in a namespace.
type daemon struct {
	g   *segment
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	log logged
}

// logged is what a process has written to its log so far.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve writes the design and starts the service.
func (g *segment) serve(name, listen string, s *site.Site) *daemon {
	g.t.Helper()
	g.design(s)
	args := g.inside(name, os.Args[0])
	d := &daemon{g: g, cmd: exec.Command(args[0], args[1:]...)}
	d.cmd.Env = append(os.Environ(), serveIn+"="+g.dir, "LISTEN="+listen)
	d.cmd.Stderr = &d.log
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		d.in, err = d.cmd.StdinPipe()
	}
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		g.t.Fatal(err)
	}
	d.out = bufio.NewScanner(out)
	g.t.Cleanup(func() {
		d.kill()
		if g.t.Failed() {
			g.t.Log(d.log.String())
		}
	})
	return d
}

func (d *daemon) kill() {
	if d.cmd.ProcessState == nil {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	}
}

func (g *segment) design(s *site.Site) {
	g.t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(g.dir, "design.json"), text, 0o600)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// order gives an order, and the status after it.
func (d *daemon) order(order any) []site.Served {
	d.g.t.Helper()
	text, err := json.Marshal(order)
	if err == nil {
		_, err = d.in.Write(append(text, '\n'))
	}
	var answer struct {
		Status []site.Served
		Err    string
	}
	if err == nil && !d.out.Scan() {
		err = errors.New("the service has ended")
	}
	if err == nil {
		err = json.Unmarshal(d.out.Bytes(), &answer)
	}
	if err == nil && answer.Err != "" {
		err = errors.New(answer.Err)
	}
	if err != nil {
		d.g.t.Fatalf("%s: %v\n%s", text, err, d.log.String())
	}
	return answer.Status
}

// until waits until the status is as wanted.
func (d *daemon) until(what string, is func([]site.Served) bool) {
	d.g.t.Helper()
	last := []site.Served{}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if last = d.order(map[string]any{}); is(last) {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	d.g.t.Fatalf("it never came that %s: %+v\n%s", what, last, d.log.String())
}

// serving waits until all networks are served.
func (d *daemon) serving() {
	d.g.t.Helper()
	d.until("all is served", func(s []site.Served) bool {
		return len(s) > 0 && !slices.ContainsFunc(s, func(one site.Served) bool { return one.Why != "" })
	})
}

const leaseScript = `#!/bin/sh
# udhcpc calls it with what it got.
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
env | grep -v '^PATH=\|^PWD=\|^SHLVL=' | sort
`

// udhcpc asks by busybox's client, and gives what it got; nothing for no answer.
func (g *segment) udhcpc(name string, args ...string) map[string]string {
	g.t.Helper()
	script := filepath.Join(g.dir, "lease.sh")
	if err := os.WriteFile(script, []byte(leaseScript), 0o700); err != nil {
		g.t.Fatal(err)
	}
	all := g.inside(name, append([]string{"udhcpc", "-i", "eth0", "-f", "-n", "-q", "-t", "4", "-T", "1", "-s", script}, args...)...)
	out, err := exec.Command(all[0], all[1:]...).Output()
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			got[key] = value
		}
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		g.t.Fatal(err)
	}
	return got
}

// mgmt is a site with a network and two nodes in it.
func mgmt(change func(*site.Network)) *site.Site {
	n := &site.Network{CIDR: "10.71.0.0/24", Gateway: "10.71.0.254", DNS: site.DNS{Domain: "lab.example.org", Servers: []string{"10.71.0.53"}}, Boot: site.NetworkBoot{DHCP: site.DHCPServe}}
	if change != nil {
		change(n)
	}
	node := func(mac, address string) *site.Node {
		return &site.Node{Addresses: map[string]string{"mgmt": address}, Interfaces: map[string]site.Interface{"eno1": {MAC: mac, Networks: []string{"mgmt"}}}}
	}
	s := &site.Site{Name: "lab", Networks: map[string]*site.Network{"mgmt": n}, Nodes: map[string]*site.Node{
		"n1": node("52:54:00:71:00:01", "10.71.0.11"), "n2": node("52:54:00:71:00:02", "10.71.0.12"),
	}}
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		s.Nodes[name].Name = name
	}
	return s
}

func leases(from, to string) func(*site.Network) {
	return func(n *site.Network) {
		n.Ranges = map[string]site.Range{"leases": {From: from, To: to, Use: site.RangeDHCP}}
	}
}

// Designed nodes get what the design says, and others nothing, where there is no
// dynamic range.
func TestRealClients(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc", "dhclient")
	g := newSegment(t)
	g.host("srv", "52:54:00:71:00:f0", "10.71.0.2/24")
	g.host("n1", "52:54:00:71:00:01")
	g.host("stranger", "52:54:00:71:00:99")
	s := mgmt(func(n *site.Network) {
		n.Routes = map[string]site.Route{"lab": {To: "10.80.0.0/16", Gateway: "10.71.0.253"}}
		n.MTU = 1400
	})
	d := g.serve("srv", "eth0=mgmt", s)
	d.serving()
	got := g.udhcpc("n1", "-O", "staticroutes", "-O", "mtu", "-O", "hostname")
	for key, want := range map[string]string{
		"ip": "10.71.0.11", "mask": "24", "router": "10.71.0.254", "dns": "10.71.0.53", "domain": "lab.example.org", "hostname": "n1", "serverid": "10.71.0.2",
		"lease": "3600", "mtu": "1400", "staticroutes": "10.80.0.0/16 10.71.0.253 0.0.0.0/0 10.71.0.254",
	} {
		if got[key] != want {
			t.Errorf("udhcpc got %s %q, not %q", key, got[key], want)
		}
	}
	if got["boot_file"] != "" || got["siaddr"] != "" {
		t.Errorf("a client that boots nothing got a boot file: %v", got)
	}
	if got := g.udhcpc("stranger", "-t", "2"); len(got) > 0 {
		t.Errorf("a client that the design does not know got %v", got)
	}
	// dhclient confirms what it had with another server's client identifier.
	file := filepath.Join(g.dir, "dhclient")
	g.in("n1", "dhclient", "-1", "-v", "-sf", "/bin/true", "-lf", file+".leases", "-pf", file+".pid", "eth0")
	text, err := os.ReadFile(file + ".leases")
	if err != nil || !strings.Contains(string(text), "fixed-address 10.71.0.11;") {
		t.Errorf("dhclient got %s, %v", text, err)
	}
	g.in("n1", "ip", "address", "add", "10.71.0.11/24", "dev", "eth0") // what its script would have done
	g.in("n1", "dhclient", "-r", "-sf", "/bin/true", "-lf", file+".leases", "-pf", file+".pid", "eth0")
	d.until("the lease is released", func(s []site.Served) bool { return s[0].Leases == 0 })
	// A design without DHCP in the network ends it.
	s.Networks["mgmt"].Boot.DHCP = ""
	g.design(s)
	d.order(map[string]any{"Reload": true})
	d.until("nothing is served", func(s []site.Served) bool { return strings.Contains(s[0].Why, "the design does not ask for it") })
	if got := g.udhcpc("n1", "-t", "2"); len(got) > 0 {
		t.Errorf("the design has no DHCP and a client got %v", got)
	}
}

// A dynamic address is given to nobody else after the daemon was killed, nor one
// that a host has which asked nobody; an empty range is said.
func TestRealDynamicRange(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc")
	g := newSegment(t)
	g.host("srv", "52:54:00:71:00:f0", "10.71.0.2/24")
	g.host("a", "52:54:00:71:00:a1")
	g.host("b", "52:54:00:71:00:b1")
	g.host("c", "52:54:00:71:00:c1")
	g.host("squatter", "52:54:00:71:00:d1", "10.71.0.102/24")
	s := mgmt(leases("10.71.0.101", "10.71.0.103"))
	d := g.serve("srv", "eth0=mgmt", s)
	d.serving()
	first := g.udhcpc("a")["ip"]
	d.kill()
	d = g.serve("srv", "eth0=mgmt", s)
	d.serving()
	second := g.udhcpc("b")["ip"]
	both := []string{first, second}
	slices.Sort(both)
	if !slices.Equal(both, []string{"10.71.0.101", "10.71.0.103"}) {
		t.Errorf("the clients got %v", both)
	}
	if again := g.udhcpc("a")["ip"]; again != first {
		t.Errorf("a client got %s, and after the restart %s", first, again)
	}
	if got := g.udhcpc("c", "-t", "2"); len(got) > 0 {
		t.Errorf("of an empty range a client got %v", got)
	}
	d.until("the range is empty", func(s []site.Served) bool { return s[0].Free == 0 && s[0].Leases == 2 })
}

// Beside another server nothing is served: before it, and when it comes later.
func TestRealForeignServer(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc", "dnsmasq")
	g := newSegment(t)
	g.host("srv", "52:54:00:71:00:f0", "10.71.0.2/24")
	g.host("n1", "52:54:00:71:00:01")
	g.host("other", "52:54:00:71:00:e1", "10.71.0.3/24")
	d := g.serve("srv", "eth0=mgmt", mgmt(nil))
	d.serving()
	if got := g.udhcpc("n1")["ip"]; got != "10.71.0.11" {
		t.Errorf("n1 got %q", got)
	}
	dnsmasq := []string{"dnsmasq", "--keep-in-foreground", "--port=0", "--bind-interfaces", "--interface=eth0", "--conf-file=/dev/null", "--no-ping", "--pid-file=",
		"--dhcp-range=10.71.0.200,10.71.0.210,1h", "--dhcp-leasefile=" + filepath.Join(g.dir, "dnsmasq.leases"), "--user=root", "--dhcp-authoritative"}
	stops := func(s []site.Served) bool {
		return strings.Contains(s[0].Why, "another DHCP server answers in the network: 10.71.0.3")
	}
	g.begin("other", dnsmasq...)
	d.until("the other server is noticed", stops)
	if got := g.udhcpc("n1"); got["serverid"] != "10.71.0.3" {
		t.Errorf("n1 was answered by %v", got)
	}
	d.kill()
	d = g.serve("srv", "eth0=mgmt", mgmt(nil))
	d.until("the other server is noticed before anything is served", stops)
	if strings.Contains(d.log.String(), "dhcp lease") {
		t.Error("a lease was given beside another server")
	}
}

// A relay passes requests on from another network, with option 82.
func TestRealRelay(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc", "dhcrelay")
	g := newSegment(t)
	g.host("srv", "52:54:00:71:00:f0", "10.72.0.2/24")
	g.namespace("far")
	g.in("far", "ip", "link", "add", "br0", "type", "bridge")
	g.in("far", "ip", "link", "set", "br0", "up")
	g.host("relay", "52:54:00:71:00:fe", "10.72.0.1/24")
	g.plug("relay", "eth1", "52:54:00:71:00:fd", "far", "10.71.0.254/24")
	g.namespace("n1")
	g.plug("n1", "eth0", "52:54:00:71:00:01", "far")
	g.namespace("stranger")
	g.plug("stranger", "eth0", "52:54:00:71:00:77", "far")
	g.in("srv", "ip", "route", "add", "10.71.0.0/24", "via", "10.72.0.1")
	s := mgmt(func(n *site.Network) {
		n.DHCPRelay = &site.DHCPRelay{Address: "10.71.0.254", Servers: []string{"10.72.0.2"}}
	})
	d := g.serve("srv", "eth0=mgmt", s)
	d.serving()
	g.begin("relay", "dhcrelay", "-4", "-d", "-a", "-i", "eth1", "-i", "eth0", "10.72.0.2")
	got := g.udhcpc("n1", "-t", "8")
	if got["ip"] != "10.71.0.11" || got["serverid"] != "10.72.0.2" || got["router"] != "10.71.0.254" {
		t.Errorf("n1 got %v by the relay", got)
	}
	if got := g.udhcpc("stranger", "-t", "2"); len(got) > 0 {
		t.Errorf("by the relay a client that the design does not know got %v", got)
	}
}

// An armed machine is told what to boot in the terms of its firmware, reads it once,
// and boots from its disk afterwards.
func TestRealBootFiles(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc", "tftp", "curl")
	g := newSegment(t)
	g.host("srv", "52:54:00:71:00:f0", "10.71.0.2/24")
	g.host("n1", "52:54:00:71:00:01", "10.71.0.11/24")
	g.host("n2", "52:54:00:71:00:02", "10.71.0.12/24")
	content := bytes.Repeat([]byte("slipway "), 40000)
	file := filepath.Join(g.dir, "uki.efi")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d := g.serve("srv", "eth0=mgmt", mgmt(nil))
	d.serving()
	pxe := []string{"-V", "PXEClient:Arch:00007:UNDI:003016", "-x", "0x5d:0007"}
	web := []string{"-V", "HTTPClient:Arch:00016:UNDI:003001", "-x", "0x5d:0010"}
	if got := g.udhcpc("n1", pxe...); got["ip"] != "10.71.0.11" || got["boot_file"] != "" || got["bootfile"] != "" || got["siaddr"] != "" {
		t.Errorf("a machine that is not armed got %v", got)
	}
	arm := func() {
		d.order(map[string]any{"Arm": Boot{Node: "n1", MACs: []string{"52:54:00:71:00:01"}, Files: map[Firmware]string{UEFIAMD64: file}}})
	}
	arm()
	got := g.udhcpc("n1", pxe...)
	if got["ip"] != "10.71.0.11" || got["siaddr"] != "10.71.0.2" || !strings.HasSuffix(got["boot_file"], "/bootx64.efi") {
		t.Fatalf("the armed machine got %v", got)
	}
	if other := g.udhcpc("n2", pxe...); other["boot_file"] != "" {
		t.Errorf("another machine got %v", other)
	}
	if bios := g.udhcpc("n1", "-V", "PXEClient:Arch:00000:UNDI:002001", "-x", "0x5d:0000"); bios["boot_file"] != "" {
		t.Errorf("firmware without a file got %v", bios)
	}
	read := filepath.Join(g.dir, "read")
	g.in("n1", "tftp", "-m", "binary", "10.71.0.2", "-c", "get", got["boot_file"], read)
	if text, err := os.ReadFile(read); err != nil || !bytes.Equal(text, content) {
		t.Errorf("by TFTP %d bytes of %d were read, %v", len(text), len(content), err)
	}
	if again := g.udhcpc("n1", pxe...); again["ip"] != "10.71.0.11" || again["boot_file"] != "" {
		t.Errorf("the machine that has read its file got %v", again)
	}
	// The same machine may read again for a while, another one may not.
	fetch := func(from, url string, args ...string) string {
		return g.in(from, append([]string{"curl", "-s", "-o", read, "-w", "%{http_code}", url}, args...)...)
	}
	if code := fetch("n2", "http://10.71.0.2:9482/"+got["boot_file"]); code != "404" {
		t.Errorf("another machine reads a file that was read: %s", code)
	}
	arm()
	if code := fetch("n1", "http://10.71.0.2:9482/"+got["boot_file"]); code != "404" {
		t.Errorf("the URL of the boot before gives %s", code)
	}
	got = g.udhcpc("n1", append(web, "-O", "bootfile")...)
	url := got["bootfile"]
	if url == "" {
		url = got["boot_file"]
	}
	if !strings.HasPrefix(url, "http://10.71.0.2:9482/") {
		t.Fatalf("HTTP boot got %v", got)
	}
	if code := fetch("n1", url, "-I"); code != "200" {
		t.Errorf("HEAD gives %s", code)
	}
	if code := fetch("n1", url, "-r", "0-7"); code != "206" {
		t.Errorf("a range gives %s", code)
	}
	if code := fetch("n1", url, "-X", "PUT"); code != "405" {
		t.Errorf("PUT gives %s", code)
	}
	if code := fetch("n1", url); code != fmt.Sprint(http.StatusOK) {
		t.Errorf("GET gives %s", code)
	}
	if text, err := os.ReadFile(read); err != nil || !bytes.Equal(text, content) {
		t.Errorf("by HTTP %d bytes of %d were read, %v", len(text), len(content), err)
	}
	if code := fetch("n2", url); code != "404" {
		t.Errorf("another machine reads a file that was read: %s", code)
	}
	d.until("it is not armed any more", func(s []site.Served) bool { return len(s[0].Armed) == 0 })
	d.order(map[string]any{"Disarm": "n1"})
	if code := fetch("n1", url); code != "404" {
		t.Errorf("the URL of a boot that is over gives %s", code)
	}
}
