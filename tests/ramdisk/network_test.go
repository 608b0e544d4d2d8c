package ramdisk

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/netboot"
	"github.com/slipway-gitops/slipway/tests/nspawn"
	"github.com/slipway-gitops/slipway/tests/ramdisk/media"
)

// fromNetwork describes what a machine has that boots over the network, without some kinds of PXE. OVMF
// tries PXE before HTTP boot, and IPv4 before IPv6, unless it is told that there is none (OvmfPkg, README).
func fromNetwork(without ...string) []string {
	args := []string{"-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no", "-device", "virtio-net-pci,netdev=net,romfile=,bootindex=0,mac=" + mac, "-device", "virtio-rng-pci"}
	for _, version := range without {
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/"+version+"PXESupport,string=n")
	}
	return args
}

// book are leases in memory.
type book struct {
	mu  sync.Mutex
	all map[string]site.Lease
}

func (b *book) Leases(context.Context) ([]site.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.all)), nil
}

func (b *book) PutLease(_ context.Context, l site.Lease) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[l.Address] = l
	return nil
}

func (b *book) DropLease(_ context.Context, l site.Lease) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, l.Address)
	return nil
}

// saying is a log that is read while it is written.
type saying struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *saying) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestProveRamdiskBootsOverTheNetwork has OVMF read the ramdisk's image by TFTP and by HTTP, as our
// DHCP server tells it. The agent, whose image names no daemon, finds the daemon by the network and
// is accepted without a token.
func TestProveRamdiskBootsOverTheNetwork(t *testing.T) {
	lan{
		setup: "ip addr add 10.5.0.1/24 dev br0", daemon: "10.5.0.1", address: "10.5.0.10",
		network: &site.Network{CIDR: "10.5.0.0/24", Boot: site.NetworkBoot{DHCP: site.DHCPServe}},
		without: map[string][]string{"tftp": nil, "http": {"IPv4", "IPv6"}},
	}.boots(t)
}

// TestProveRamdiskBootsOverIPv6 does so where nothing speaks IPv4: by DHCPv6 and router advertisements.
func TestProveRamdiskBootsOverIPv6(t *testing.T) {
	lan{
		setup: "ip -6 addr add fd00:5::1/64 dev br0 nodad; ip -6 addr add fe80::1/64 dev br0 nodad", daemon: "fd00:5::1", address: "fd00:5::10",
		network: &site.Network{CIDR: "fd00:5::/64", Boot: site.NetworkBoot{DHCP: site.DHCPServe, Announce: true}},
		without: map[string][]string{"tftp": {"IPv4"}, "http": {"IPv4", "IPv6"}},
	}.boots(t)
}

// lan is a network with a daemon and a machine.
type lan struct {
	setup           string // gives br0 its address
	daemon, address string
	network         *site.Network
	// without are the kinds of PXE that the firmware leaves out, by the way that it boots.
	without map[string][]string
}

// boots has the machine boot in each way.
func (l lan) boots(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("downloads and packs a whole kernel, and boots it twice: set SLIPWAY_PROVE")
	}
	const imageAt = "SLIPWAY_NETWORK_IMAGE"
	image := os.Getenv(imageAt)
	if image == "" {
		nspawn.Require(t, "qemu-system-x86_64", "ip")
		b := media.Build(t.Context(), t, "")
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=40m")
		cmd.Env = append(os.Environ(), imageAt+"="+b.Image.Path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-ec", `echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
ip link set lo up; ip tuntap add dev tap0 mode tap; ip link add br0 type bridge; ip link set tap0 master br0
ip link set tap0 up; ip link set br0 up; `+l.setup).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	design := &site.Site{
		Networks: map[string]*site.Network{"lan": l.network},
		Nodes:    map[string]*site.Node{"server-1": {Name: "server-1", Addresses: map[string]string{"lan": l.address}, Interfaces: map[string]site.Interface{"eno1": {MAC: mac, Boot: "lan"}}}},
	}
	ready := make(chan struct{})
	close(ready)
	var said saying
	log := slog.New(slog.NewTextHandler(&said, nil))
	boots := netboot.New(netboot.Config{
		Listen: []netboot.Listen{{Interface: "br0", Network: "lan"}}, Design: func() (*site.Site, error) { return design, nil },
		Leases: &book{all: map[string]site.Lease{}}, Ready: ready, Log: log,
	})
	authority, err := agent.LoadAuthority(filepath.Join(t.TempDir(), "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	agents := agent.NewService(agent.ServiceOptions{Site: "lab", Listen: ":9481", Authority: authority, Medium: "d1", Log: log})
	var running sync.WaitGroup
	running.Go(func() { boots.Run(ctx) })
	running.Go(func() { agents.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	wait := func(what string, so func() bool) {
		t.Helper()
		for !so() {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("not in time: %s; the daemon said:\n%s", what, said.String())
			}
		}
	}
	wait("the network is served", func() bool { _, err := boots.Serving([]string{"lan"}); return err == nil && agents.Serving() == nil })

	is := site.Identity{UUID: "0c5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8", Serial: "RD-0001"}
	for _, way := range slices.Backward(slices.Sorted(maps.Keys(l.without))) {
		t.Run(way, func(t *testing.T) {
			boot := driver.Boot{Node: "server-1", Machine: is, MACs: []string{mac}, Daemon: l.daemon, From: []netip.Prefix{netip.MustParsePrefix(l.network.CIDR)}}
			token, err := agents.Expect(boot)
			if err != nil {
				t.Fatal(err)
			}
			words, err := agents.Directions(boot)
			if err != nil {
				t.Fatal(err)
			}
			if err := boots.Arm(netboot.Boot{Node: "server-1", ID: token, MACs: []string{mac}, UUID: is.UUID, Words: words, Files: map[netboot.Firmware]string{netboot.UEFIAMD64: image}}); err != nil {
				t.Fatal(err)
			}
			m, begun := start(ctx, t, is.UUID, is.Serial, fromNetwork(l.without[way]...)...), time.Now()
			var a driver.Agent
			wait("the agent calls", func() bool { a = agents.Agent("server-1"); return a != nil || m.isOff() })
			if a == nil {
				t.Fatalf("the machine went off; its console has:\n%s\nthe daemon said:\n%s", m.console(), said.String())
			}
			t.Logf("the agent called %s after power-on", time.Since(begun).Round(time.Second))
			if seen, err := a.Observe(ctx, &site.Node{Name: "server-1"}, nil); err != nil || seen.Identity != is {
				t.Errorf("it is %+v, %v", seen.Identity, err)
			}
			for _, text := range []string{"The agent was started over the network", "tells that the daemon is at " + net.JoinHostPort(l.daemon, "9481"), "this machine is the node server-1"} {
				m.waits(ctx, t, text)
			}
			if !strings.Contains(said.String(), "over="+way) {
				t.Errorf("the image was not read by %s; the daemon said:\n%s", way, said.String())
			}
			boots.Disarm("server-1")
			agents.Forget("server-1")
			m.end()
		})
	}
}

// isOff says whether the machine has ended by itself.
func (m *machine) isOff() bool {
	select {
	case err := <-m.done:
		m.done <- err
		return true
	default:
		return false
	}
}
