package inside_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/network"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// The ports of the guest, and its address in VLAN 5.
var ports = []string{"02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"}

const taggedAddress = "10.5.0.10"

// guest is a Debian with a kernel of its own on an emulated processor, with three
// ports of a switch that carries VLAN 1 untagged, and VLAN 5 and 6.
type guest struct {
	*networked
	lan     *lan
	folder  string
	ends    [][2]string
	clock   string    // when it thinks that it is
	began   time.Time // when the last change was
	qemu    *exec.Cmd
	retries bool // the next step is asked for by `slipway retry`
}

// clocks are years off, each in its direction.
var clocks = map[string]string{"networkd": "2011-03-04T05:06:07", "ifupdown": "2041-03-04T05:06:07"}

// diskScript takes the kernel out of a tree, and makes a disk of the rest.
const diskScript = `cp "$2"/boot/vmlinuz-* "$1/vmlinuz"
cp "$2"/boot/initrd.img-* "$1/initrd"
rm -r "$2/boot"
mkfs.ext4 -q -L root -m 0 -d "$2" "$1/root.ext4" 1500M
`

func startGuest(t *testing.T, manager string) *guest {
	t.Helper()
	g := &guest{folder: t.TempDir(), lan: newLAN(t), clock: clocks[manager], networked: &networked{
		router: fmt.Sprintf("router-%d", os.Getpid()), address: nodeAddress, patience: time.Minute,
		node: &node{t: t, fixture: made, driver: agent.New(agent.Options{Folder: made.helpers}), term: 1},
	}}
	g.makeDisk(manager)
	for _, name := range []string{g.router, g.other()} {
		does(t, "ip", "netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	for _, tap := range []string{"router1", "router5", "other1", "other5"} {
		g.lan.tap(tap, map[byte]uint16{'1': 1, '5': 5}[tap[len(tap)-1]])
	}
	shell(t, `ip link set lo up
ip link add up0 type veth peer name down0 netns R
ip addr add 10.2.0.2/24 dev up0; ip link set up0 up; ip route add default via 10.2.0.1
ip -n R link set lo up; ip -n R addr add 10.2.0.1/24 dev down0; ip -n R link set down0 up
ip link set router1 netns R; ip link set router5 netns R; ip link set other1 netns O; ip link set other5 netns O
ip netns exec R sysctl -qw net.ipv4.ip_forward=1
for v in 1 5; do
	ip -n R addr add 10.$v.0.1/24 dev router$v; ip -n R link set router$v up
	ip -n O addr add 10.$v.0.50/24 dev other$v; ip -n O link set other$v up
done`, g.networked)
	for n := range ports {
		a, b := g.lan.trunk(fmt.Sprintf("port%d", n), 5, 6)
		g.ends = append(g.ends, [2]string{a, b})
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(g.folder, "console"))
			t.Logf("the guest's console:\n%s", text[max(0, len(text)-5000):])
		}
		g.cut()
	})
	g.power()
	return g
}

// guestPackages are what a guest has besides: a kernel with its modules, and what names its
// interfaces.
var guestPackages = []string{"udev", "kmod", "initramfs-tools", "linux-image-cloud-amd64"}

// inGuestsNetwork is inOwnNetwork for a guest, whose parts are fetched before: nothing
// is reached from there.
func inGuestsNetwork(t *testing.T) bool {
	if os.Getenv(inNetwork) == "" {
		nspawn.Require(t, "qemu-system-x86_64", "mkfs.ext4", "ssh")
		nspawn.UnpackTo(t, t.TempDir(), nspawn.Suite{}, guestPackages...)
	}
	return inOwnNetwork(t)
}

// makeDisk has a Debian on a disk that one manager of networks sets up at first.
func (g *guest) makeDisk(manager string) {
	t := g.t
	tree := filepath.Join(g.folder, "tree")
	check(t, os.Mkdir(tree, 0o755))
	nspawn.UnpackTo(t, tree, nspawn.Suite{}, guestPackages...)
	key, err := os.ReadFile(filepath.Join(made.folderOf(), "key.pub"))
	check(t, err)
	files := map[string]string{
		"root/.ssh/authorized_keys":                    string(key),
		"etc/ssh/sshd_config.d/test.conf":              "PermitRootLogin prohibit-password\nUseDNS no\n",
		"etc/machine-id":                               "0123456789abcdef0123456789abcdef\n",
		"etc/hostname":                                 "n1\n",
		"etc/fstab":                                    "",
		"etc/systemd/journald.conf.d/test.conf":        "[Journal]\nStorage=volatile\n",
		"etc/systemd/system/ssh.service.d/always.conf": "[Service]\nRestart=always\n",
		"etc/systemd/system/shell.service": "[Service]\nExecStart=/bin/bash --norc\nRestart=always\nTTYPath=/dev/ttyS1\n" +
			"StandardInput=tty-force\nStandardOutput=tty\nStandardError=tty\n[Install]\nWantedBy=multi-user.target\n",
	}
	off := []string{"mask", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
		"serial-getty@ttyS0.service", "getty@tty1.service", "systemd-hwdb-update.service", "ldconfig.service"}
	switch manager {
	case "networkd":
		files["etc/systemd/network/10-first.network"] = "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\nGateway=10.1.0.1\nLinkLocalAddressing=no\n"
		off = append(off, "networking.service")
		does(t, "systemctl", "--root="+tree, "enable", "systemd-networkd.service")
	case "ifupdown":
		files["etc/network/interfaces"] = "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n\tgateway 10.1.0.1\n"
	}
	does(t, "systemctl", append([]string{"--root=" + tree}, off...)...)
	for path, text := range files {
		at := filepath.Join(tree, path)
		check(t, os.MkdirAll(filepath.Dir(at), 0o755))
		check(t, os.WriteFile(at, []byte(text), 0o644))
	}
	check(t, os.Chmod(filepath.Join(tree, "root/.ssh"), 0o700))
	does(t, "systemctl", "--root="+tree, "enable", "shell.service")
	public, err := os.ReadFile(filepath.Join(tree, "etc/ssh/ssh_host_ed25519_key.pub"))
	check(t, err)
	made.hostKey = strings.TrimSpace(string(public))
	does(t, "sh", "-ec", diskScript, "sh", g.folder, tree)
	check(t, os.RemoveAll(tree))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// power turns the guest on.
func (g *guest) power() {
	g.t.Helper()
	args := []string{"-machine", "pc,accel=tcg", "-cpu", "max", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none",
		"-serial", "file:" + g.folder + "/console", "-serial", "unix:" + g.folder + "/shell,server=on,wait=off",
		"-monitor", "unix:" + g.folder + "/monitor,server=on,wait=off", "-device", "virtio-rng-pci",
		"-rtc", "base=" + g.clock, "-kernel", g.folder + "/vmlinuz", "-initrd", g.folder + "/initrd",
		"-append", "root=/dev/vda rw console=ttyS0 loglevel=4 panic=5 mitigations=off apparmor=0 audit=0 random.trust_cpu=on net.ifnames=0",
		"-drive", "file=" + g.folder + "/root.ext4,format=raw,if=virtio,cache=writeback"}
	for n, mac := range ports {
		_ = os.Remove(g.ends[n][0])
		// A bond of LACP asks for the speed, which this kind of port has only where it is given.
		args = append(args, "-netdev", fmt.Sprintf("dgram,id=n%d,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s", n, g.ends[n][0], g.ends[n][1]),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=n%d,mac=%s,speed=1000,duplex=full,romfile=", n, mac))
	}
	g.qemu = exec.Command("qemu-system-x86_64", args...)
	g.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.qemu.Stderr = os.Stderr
	check(g.t, g.qemu.Start())
}

// cut takes the guest's power.
func (g *guest) cut() {
	if g.qemu == nil {
		return
	}
	_ = g.qemu.Process.Kill() // it may have ended
	_ = g.qemu.Wait()         // its code is that of the signal
	g.qemu = nil
}

// cable plugs one of the ports in or out.
func (g *guest) cable(n int, state string) {
	g.t.Helper()
	c, err := net.Dial("unix", g.folder+"/monitor")
	check(g.t, err)
	defer c.Close()
	check(g.t, c.SetDeadline(time.Now().Add(30*time.Second)))
	prompt := func() {
		for all, b := []byte{}, make([]byte, 512); !bytes.HasSuffix(all, []byte("(qemu) ")); {
			k, err := c.Read(b)
			check(g.t, err)
			all = append(all, b[:k]...)
		}
	}
	prompt()
	_, err = fmt.Fprintf(c, "set_link n%d %s\n", n, state)
	check(g.t, err)
	prompt()
}

// says is what a command prints in the guest, asked by OpenSSH's own client: nothing of
// Slipway is between.
func (g *guest) says(words string) string {
	g.t.Helper()
	var out string
	var err error
	for range 5 {
		if out, err = g.run(g.t.Context(), words); err == nil {
			return out
		}
	}
	g.t.Fatalf("%s: %v", words, err)
	return ""
}

// run runs a command at the guest's last address.
func (g *guest) run(ctx context.Context, words string) (string, error) {
	cmd := exec.CommandContext(ctx, "ssh", "-n", "-F", "none", "-i", filepath.Join(made.folderOf(), "key"), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=20", "root@"+g.address, words)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// folderOf is the folder with everything, also in the program that runs in a network of
// its own.
func (f *fixture) folderOf() string { return filepath.Dir(f.helpers) }

func (g *guest) design(l links) *site.Node {
	return &site.Node{Name: "n1", References: site.References{Family: "debian", Links: l}}
}

// apply makes a change as the daemon does, and says how it ended. The guest is reached
// again within the deadline and the grace, at one of the addresses.
func (g *guest) apply(name string, l links, addresses []string, meanwhile func()) error {
	g.t.Helper()
	d := g.design(l)
	m := g.machine(g.t, g.address)
	defer m.Close()
	seen, err := look(g.t.Context(), g.node, m, d)
	if err != nil {
		g.t.Fatalf("%s: %v", name, err)
	}
	done := make(chan error, 1)
	g.began = time.Now()
	s := stepFor(d, site.FacetNetwork, seen)
	s.Again, g.retries = g.retries, false
	go func() { done <- m.Apply(g.t.Context(), s, d, nil) }()
	within := deadline + grace
	if meanwhile != nil {
		meanwhile()
		within += bootPatience
	}
	if !g.reached(g.t, d, g.began.Add(within), append(addresses, g.address)...) {
		g.t.Fatalf("%s: not reached %s after it was begun\n%s", name, time.Since(g.began).Round(time.Second), g.trouble())
	}
	took := time.Since(g.began)
	err = <-done
	g.t.Logf("%s: reached at %s after %s: %v", name, g.address, took.Round(time.Second), err)
	return err
}

// bootPatience is how long the guest may take to start, on a processor that is simulated
// on a machine that does other things too.
const bootPatience = 10 * time.Minute

// holds makes a change that is good, and has the guest at its address.
func (g *guest) holds(name string, l links, address string) {
	g.t.Helper()
	for try := 0; ; try++ {
		err := g.apply(name, l, []string{address}, nil)
		if err == nil {
			break
		}
		// The power may have been cut while the change waited for its confirmation: a person says
		// that the same change is made once more.
		if g.retries = errors.Is(err, driver.ErrRefused) && strings.Contains(err.Error(), "run `slipway retry NODE`"); g.retries && try < 2 {
			continue
		}
		if !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrBusy) || try == 2 {
			g.t.Fatalf("%s: %v\n%s", name, err, g.trouble())
		}
	}
	if !g.reached(g.t, g.design(l), time.Now().Add(grace), address) {
		g.t.Fatalf("%s: not reached at %s\n%s", name, address, g.trouble())
	}
	if waits := g.says("cat /var/lib/slipway-inside/network-unconfirmed 2>/dev/null || true"); waits != "" {
		g.t.Errorf("%s: it holds, and waits to be set back: %s", name, waits)
	}
}

// trouble is what a shell on a serial port of the guest says of its network: it may have none.
func (g *guest) trouble() string {
	c, err := net.Dial("unix", g.folder+"/shell")
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // after that there is what was said so far
	_, _ = io.WriteString(c, "stty -echo; ip address; ip route; cat /proc/net/bonding/* /run/network/ifstate; tail -n +1 /etc/network/interfaces.d/* /etc/systemd/network/*; "+
		"ls -la /var/lib/slipway-inside; cat /var/lib/slipway-inside/reverted; networkctl list; ps axf; journalctl --no-pager -o short-monotonic -n 400; echo that is '' all\n")
	var said bytes.Buffer
	for b := make([]byte, 4096); !strings.Contains(said.String(), "that is all"); {
		n, err := c.Read(b)
		said.Write(b[:n])
		if err != nil {
			break
		}
	}
	return said.String()
}

// isBack waits until no change of the guest's network waits to be confirmed. It asks anew every
// few seconds: who asked before the way back may wait for packets that never come, and an
// emulated processor takes long to let anybody in.
func (g *guest) isBack(until time.Time) error {
	ctx, cancel := context.WithDeadline(g.t.Context(), until)
	defer cancel()
	answers := make(chan error)
	ask := func() {
		_, err := g.run(ctx, "[ ! -e /var/lib/slipway-inside/network-unconfirmed ]")
		select {
		case answers <- err:
		case <-ctx.Done():
		}
	}
	var last error
	again := time.NewTicker(5 * time.Second)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			go ask()
		case last = <-answers:
			if last == nil {
				return nil
			}
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

// reverts makes a change that cuts the guest off, and has it as it was before, on its
// own.
func (g *guest) reverts(name string, l links) {
	g.t.Helper()
	before, address := g.seen(), g.address
	if err := g.apply(name, l, nil, nil); err == nil {
		g.t.Errorf("%s: it was confirmed", name)
	}
	if err := g.isBack(g.began.Add(2 * (deadline + grace))); err != nil { // it cannot be reached before it is as it was
		g.t.Fatalf("%s: it is not as before: %v\n%s", name, err, g.trouble())
	}
	took := min(time.Since(g.began), g.unconfirmed())
	if g.t.Logf("%s: as before after %s", name, took.Round(time.Second)); took > deadline+grace {
		g.t.Errorf("%s: it took %s until it was as before\n%s", name, took, g.trouble())
	}
	if after := g.seen(); g.address != address || after != before {
		g.t.Errorf("%s: at %s there was\n%s\nand at %s is\n%s", name, address, before, g.address, after)
	}
}

// unconfirmed is how long the last change lasted: from the start of its timer, from which on
// the deadline counts, until the network was as before. Asking for that takes the guest
// seconds of its own.
func (g *guest) unconfirmed() time.Duration {
	g.t.Helper()
	text := g.says(`for word in Started Stopped; do journalctl --no-pager -o short-monotonic | grep "$word slipway-revert-.*timer" | tail -n 1 | sed 's/^\[ *//; s/\].*//'; done`)
	var began, ended float64
	if _, err := fmt.Sscan(text, &began, &ended); err != nil {
		g.t.Fatalf("when the timer was started and stopped: %q: %v", text, err)
	}
	return time.Duration((ended - began) * float64(time.Second))
}

// seen is what the kernel has, as ip(8) and the bonding driver tell it, without what
// changes by itself.
func (g *guest) seen() string {
	g.t.Helper()
	var b strings.Builder
	for _, l := range g.ipLinks() {
		fmt.Fprintf(&b, "%s %s mtu %d of %s %v %s", l.Name, l.Info.Kind, l.MTU, l.Master, slices.Contains(l.Flags, "UP"), l.Parent)
		for _, a := range l.Addresses {
			if a.Scope == "global" {
				fmt.Fprintf(&b, " %s/%d", a.Local, a.Length)
			}
		}
		b.WriteByte('\n')
	}
	var routes []struct{ Dst, Gateway, Dev string }
	g.asJSON("ip -j route", &routes)
	for _, r := range routes {
		fmt.Fprintf(&b, "%s via %s dev %s\n", r.Dst, r.Gateway, r.Dev)
	}
	b.WriteString(g.says("grep -h -E '^(Bonding Mode|Primary Slave|Slave Interface|MII Polling)' /proc/net/bonding/* 2>/dev/null | sort"))
	return b.String()
}

// ipLink is an interface in the words of ip(8).
type ipLink struct {
	Name   string   `json:"ifname"`
	Parent string   `json:"link"`
	MTU    int      `json:"mtu"`
	Master string   `json:"master"`
	Flags  []string `json:"flags"`
	MAC    string   `json:"address"`
	Info   struct {
		Kind string `json:"info_kind"`
		Data struct {
			ID int `json:"id"`
		} `json:"info_data"`
	} `json:"linkinfo"`
	Addresses []struct {
		Local  string `json:"local"`
		Length int    `json:"prefixlen"`
		Scope  string `json:"scope"`
	} `json:"addr_info"`
}

func (g *guest) ipLinks() []ipLink {
	g.t.Helper()
	var all []ipLink
	g.asJSON("ip -j -d address", &all)
	slices.SortFunc(all, func(a, b ipLink) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (g *guest) ipLink(name string) ipLink {
	g.t.Helper()
	for _, l := range g.ipLinks() {
		if l.Name == name {
			return l
		}
	}
	g.t.Fatalf("the kernel has no %s:\n%s", name, g.says("ip address"))
	return ipLink{}
}

func (g *guest) asJSON(words string, into any) {
	g.t.Helper()
	text := g.says(words)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		g.t.Fatalf("%s: %v\n%s", words, err, text)
	}
}

// wants holds that what ip(8) or the kernel prints matches.
func (g *guest) wants(words string, patterns ...string) {
	g.t.Helper()
	text := g.says(words)
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			g.t.Errorf("%s has nothing of %q:\n%s", words, p, text)
		}
	}
}

// The networks of the guest's designs.
var (
	bonded   = item.Bond{Mode: "active-backup", Monitor: 100, Primary: "lan0"}
	members  = links{"lan0": {Kind: "ethernet", MAC: ports[0]}, "lan1": {Kind: "ethernet", MAC: ports[1]}}
	tagged   = []item.Route{{To: "0.0.0.0/0", Via: "10.5.0.1"}}
	onVLAN   = item.Link{Kind: "vlan", VLAN: 5, Parent: "bond0", Addresses: []string{taggedAddress + "/24"}, Routes: tagged}
	noBridge = item.Link{}
)

// bond is a bond of two ports.
func bond(b item.Bond) item.Link {
	return item.Link{Kind: "bond", Members: []string{"lan0", "lan1"}, Bond: &b}
}

// ofBonds are the options of a bond, which only a guest's kernel has. Together they are one
// design of the guest, with a bond of both ports and VLAN 5 on it.
func ofBonds() []tried {
	option := func(key, from, to, file, before, after string) tried {
		text := func(value string) string {
			if value == "" {
				return ""
			}
			return "links: pair: bonding: " + key + ": " + value
		}
		return tried{path: "#Bonding." + key, siteFrom: text(from), siteTo: text(to), look: "cat /sys/class/net/bond0/bonding/" + file, before: before, after: after}
	}
	return []tried{
		option("lacpRate", `"slow"`, `"fast"`, "lacp_rate", "slow 0", "fast 1"),
		option("hashPolicy", `"layer2"`, `"layer3+4"`, "xmit_hash_policy", "layer2 0", "layer3+4 1"),
		option("monitor", `"100ms"`, `"200ms"`, "miimon", "100", "200"),
		option("upDelay", `"200ms"`, `"400ms"`, "updelay", "200", "400"),
		option("downDelay", `"300ms"`, `"600ms"`, "downdelay", "300", "600"),
		option("minLinks", "", "1", "min_links", "0", "1"), // each port is alone without a partner
		{path: "#Bond.mtu", from: "bonds: bond0: mtu: 1490", to: "bonds: bond0: mtu: 1470", look: "cat /sys/class/net/bond0/mtu", before: "1490", after: "1470"},
	}
}

// ofCarriers are the fields of bonds and VLANs that say what they are plugged into and what they
// carry. Together they are one design of the guest, which is reached by VLAN 5 on its bond.
func ofCarriers() []tried {
	bond := func(has string) string { return "bonds: bond0: {" + has + "}" }
	vlan := func(name, has string) string { return "vlans: " + name + ": {" + has + "}" }
	in := func(network, address string) string { return fmt.Sprintf("\naddresses: %s: %q", network, address) }
	link := func(name, native, tagged string, mtu int) string {
		return fmt.Sprintf("links: %s: {networks: [\"tagged\", \"side\", %q, %q], trunk: true, native: %q, mtu: %d, bonding: {mode: \"active-backup\", monitor: \"100ms\"}}", name, native, tagged, native, mtu)
	}
	ip := func(name string) string { return "ip -d -o link show dev " + name }
	return []tried{
		{path: "#Bond.link", from: bond(`link: "wide"`), to: bond(`link: "small"`), look: "cat /sys/class/net/bond0/mtu", before: "1500", after: "1480",
			siteFrom: link("wide", "plain", "first", 1500), siteTo: link("small", "other", "second", 1480)},
		{path: "#Bond.networks", from: bond(`networks: ["plain"]`) + in("plain", "10.78.0.11"), to: bond(`networks: ["other"]`) + in("other", "10.79.0.11"),
			look: "ip -4 -o address show dev bond0 scope global | tr -s ' ' | cut -d' ' -f4", before: "10.78.0.11/24", after: "10.79.0.11/24",
			siteFrom: `networks: plain: cidr: "10.78.0.0/24"`, siteTo: `networks: other: cidr: "10.79.0.0/24"`},
		{path: "#VLAN.parent", from: vlan("vlan80", `parent: "bond0", network: "side"`), to: vlan("vlan80", `parent: "lan2", network: "side"`), look: ip("vlan80") + " | grep -o '@[a-z0-9]*'", before: "@bond0", after: "@lan2",
			siteFrom: `networks: side: {cidr: "10.80.0.0/24", vlan: 80}`, siteTo: `networks: side: {cidr: "10.80.0.0/24", vlan: 80}`},
		{path: "#VLAN.mtu", from: vlan("vlan80", "mtu: 1450"), to: vlan("vlan80", "mtu: 1420"), look: "cat /sys/class/net/vlan80/mtu", before: "1450", after: "1420"},
		{path: "#Bond.primary", from: bond(`primary: "lan0"`), to: bond(`primary: "lan1"`), look: "cat /sys/class/net/bond0/bonding/primary", before: "lan0", after: "lan1"},
		{path: "#VLAN.network", from: vlan("turned", `parent: "bond0", network: "first"`) + in("first", "10.81.0.11"), to: vlan("turned", `parent: "bond0", network: "second"`) + in("second", "10.82.0.11"),
			look: ip("turned") + " | grep -o 'vlan.* id [0-9]*' | grep -o '[0-9]*$'", before: "81", after: "82",
			siteFrom: `networks: first: {cidr: "10.81.0.0/24", vlan: 81}`, siteTo: `networks: second: {cidr: "10.82.0.0/24", vlan: 82}`},
	}
}

// withCarriers is the design of the guest with all of these as they are at first, or at last.
func withCarriers(t *testing.T, last bool) links {
	t.Helper()
	site := `networks: tagged: {cidr: "10.5.0.0/24", vlan: 5, gateway: "10.5.0.1"}`
	within := fmt.Sprintf(`interfaces: {lan0: mac: %q, lan1: mac: %q, lan2: mac: %q}
bonds: bond0: members: ["lan0", "lan1"]
vlans: vlan5: {parent: "bond0", network: "tagged"}
addresses: {tagged: %q, side: "10.80.0.11"}`, ports[0], ports[1], ports[2], taggedAddress)
	return evaluated(t, append(ofCarriers(), tried{siteFrom: site, siteTo: site, from: within, to: within}), last).References.Links
}

// carriers changes what the bond and its VLANs are plugged into and carry.
func (g *guest) carriers() {
	g.t.Helper()
	for _, last := range []bool{false, true} {
		g.holds(fmt.Sprintf("what a bond and VLANs carry, changed: %v", last), withCarriers(g.t, last), taggedAddress)
		for _, x := range ofCarriers() {
			want := x.before
			if last {
				want = x.after
			}
			if got := g.says(x.look); got != want {
				g.t.Errorf("%s says %q, want %q", x.look, got, want)
			}
		}
	}
}

// The same designs, as files of systemd-networkd in a system that does not run.
func TestFilesOfCarriers(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "etc/systemd/system/multi-user.target.wants")
	check(t, os.MkdirAll(at, 0o755))
	check(t, os.Symlink("/lib/systemd/system/systemd-networkd.service", filepath.Join(at, "systemd-networkd.service")))
	h := inside.Real(root, false)
	has := func(name, kind string) string {
		text, err := os.ReadFile(filepath.Join(root, "etc/systemd/network/10-slipway-"+name+"."+kind))
		check(t, err)
		return string(text)
	}
	for _, last := range []bool{false, true} {
		var items []item.Item
		for name, l := range withCarriers(t, last) {
			items = append(items, item.New(item.KindLinks+"."+name, l.Fields(), l))
		}
		var err error
		h.Owned, err = inside.LoadOwned(root)
		check(t, err)
		check(t, network.New().Apply(t.Context(), h, items, nil))
		want := map[string]string{"vlan80.netdev": "MTUBytes=1450\n", "lan0.network": "PrimarySlave=yes\n", "bond0.netdev": "MTUBytes=1500\n", "bond0.network": "Address=10.78.0.11/24\n", "turned.netdev": "Id=81\n"}
		on, off := "bond0", "lan2"
		if last {
			want = map[string]string{"vlan80.netdev": "MTUBytes=1420\n", "lan1.network": "PrimarySlave=yes\n", "bond0.netdev": "MTUBytes=1480\n", "bond0.network": "Address=10.79.0.11/24\n", "turned.netdev": "Id=82\n"}
			on, off = "lan2", "bond0"
		}
		for file, text := range want {
			name, kind, _ := strings.Cut(file, ".")
			if got := has(name, kind); !strings.Contains(got, text) {
				t.Errorf("changed: %v: %s has no %q:\n%s", last, file, text, got)
			}
		}
		if !strings.Contains(has(on, "network"), "VLAN=vlan80\n") || strings.Contains(has(off, "network"), "VLAN=vlan80\n") {
			t.Errorf("changed: %v: VLAN 80 is not on %s:\n%s\n%s", last, on, has(on, "network"), has(off, "network"))
		}
	}
}

// withBond is the design of the guest with all options of its bond as they are at first, or
// at last.
func withBond(t *testing.T, last bool) links {
	t.Helper()
	site := `networks: tagged: {cidr: "10.5.0.0/24", vlan: 5, gateway: "10.5.0.1"}
links: pair: {networks: ["tagged"], trunk: true, bonding: mode: "802.3ad"}`
	within := fmt.Sprintf(`interfaces: {lan0: {mac: %q, link: "pair"}, lan1: {mac: %q, link: "pair"}}
bonds: bond0: {members: ["lan0", "lan1"], link: "pair"}
vlans: vlan5: {parent: "bond0", network: "tagged"}
addresses: tagged: %q`, ports[0], ports[1], taggedAddress)
	return evaluated(t, append(ofBonds(), tried{siteFrom: site, siteTo: site, from: within, to: within}), last).References.Links
}

// bondOptions changes every option of the bond, and another port is first.
func (g *guest) bondOptions() {
	g.t.Helper()
	for _, last := range []bool{false, true} {
		g.holds(fmt.Sprintf("options of a bond, changed: %v", last), withBond(g.t, last), taggedAddress)
		for _, x := range ofBonds() {
			want := x.before
			if last {
				want = x.after
			}
			if got := g.says(x.look); got != want {
				g.t.Errorf("%s says %q, want %q", x.look, got, want)
			}
		}
	}
	for _, first := range []string{"lan0", "lan1"} {
		b := bonded
		b.Primary = first
		g.holds("the port "+first+" first", over(bond(b), onVLAN, noBridge), taggedAddress)
		g.wants("cat /sys/class/net/bond0/bonding/primary", "^"+first+"$")
	}
}

// The designs of the guest are what is to be tried: they differ in each option alone.
func TestDesignsOfBonds(t *testing.T) {
	first, last := withBond(t, false), withBond(t, true)
	if got, want := *first["bond0"].Bond, (item.Bond{Mode: "802.3ad", LACPRate: "slow", HashPolicy: "layer2", Monitor: 100, UpDelay: 200, DownDelay: 300}); got != want {
		t.Errorf("the bond is %+v, want %+v", got, want)
	}
	if got, want := *last["bond0"].Bond, (item.Bond{Mode: "802.3ad", LACPRate: "fast", HashPolicy: "layer3+4", Monitor: 200, UpDelay: 400, DownDelay: 600, MinLinks: 1}); got != want {
		t.Errorf("the bond is %+v, want %+v", got, want)
	}
	if v := last["vlan5"]; v.VLAN != 5 || v.Parent != "bond0" || !slices.Equal(v.Addresses, []string{taggedAddress + "/24"}) {
		t.Errorf("the VLAN is %+v", v)
	}
}

// over is a bond with a VLAN, which a bridge may be over.
func over(b item.Link, vlan, bridge item.Link) links {
	all := links{"bond0": b, "vlan5": vlan}
	if bridge.Kind != "" {
		all["br5"] = bridge
	}
	for name, l := range members {
		all[name] = l
	}
	return all
}

func bridged(addresses []string, routes []item.Route) (vlan, bridge item.Link) {
	return item.Link{Kind: "vlan", VLAN: 5, Parent: "bond0"}, item.Link{Kind: "bridge", Members: []string{"vlan5"}, Addresses: addresses, Routes: routes}
}

func begin(t *testing.T, manager string) *guest {
	began := time.Now()
	g := startGuest(t, manager)
	if !g.reached(t, g.design(nil), time.Now().Add(bootPatience), nodeAddress) {
		t.Fatal("the guest is not reached at first")
	}
	// systemd sets a clock forward that is before its own build (systemd(1), /usr/lib/clock-epoch).
	g.says("date -s " + g.clock)
	if year := g.says("date +%Y"); year != g.clock[:4] {
		t.Errorf("the guest thinks that it is %s", year)
	}
	t.Logf("the guest runs after %s, and its clock says %s", time.Since(began).Round(time.Second), g.clock)
	return g
}

// TestProveGuestNetwork has a bond, a VLAN and a bridge in a kernel that has them, and a
// VLAN that leads nowhere.
func TestProveGuestNetwork(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes on an emulated processor: set SLIPWAY_PROVE")
	}
	if !inGuestsNetwork(t) {
		return
	}
	g := begin(t, "networkd")
	vlan, bridge := bridged([]string{taggedAddress + "/24"}, tagged)
	g.holds("a bond, a VLAN and a bridge", over(bond(bonded), vlan, bridge), taggedAddress)
	g.isBridged()
	vlan.VLAN = 6
	g.reverts("a VLAN that leads nowhere", over(bond(bonded), vlan, bridge))
	g.isBridged()
}

// isBridged holds the kernel to the bond of both ports, the VLAN on it and the bridge
// over it.
func (g *guest) isBridged() {
	g.t.Helper()
	g.wants("cat /proc/net/bonding/bond0", `Bonding Mode: fault-tolerance \(active-backup\)`, `Primary Slave: lan0`, `Currently Active Slave: lan0`, `MII Polling Interval \(ms\): 100`, `Slave Interface: lan1`)
	for n, name := range []string{"lan0", "lan1"} {
		if l := g.ipLink(name); l.Master != "bond0" {
			g.t.Errorf("port %d is of %q: %+v", n, l.Master, l)
		}
	}
	if v := g.ipLink("vlan5"); v.Info.Kind != "vlan" || v.Info.Data.ID != 5 || v.Parent != "bond0" || v.Master != "br5" {
		g.t.Errorf("vlan5 is %+v", v)
	}
	if b := g.ipLink("br5"); b.Info.Kind != "bridge" || len(b.Addresses) == 0 || b.Addresses[0].Local != taggedAddress {
		g.t.Errorf("br5 is %+v", b)
	}
	g.wants("ip route show default", `default via 10\.5\.0\.1 dev br5`)
}

// TestProveGuestNetworks makes changes of bonds, VLANs and bridges, of which some cut the
// guest off and one is overtaken by a power cut.
func TestProveGuestNetworks(t *testing.T) {
	if !proves() {
		t.Skip("takes half an hour: set SLIPWAY_PROVE")
	}
	if !inGuestsNetwork(t) {
		return
	}
	for _, manager := range []string{"networkd", "ifupdown"} {
		if only := os.Getenv("SLIPWAY_PROVE_MANAGER"); only == "" || only == manager {
			t.Run(manager, func(t *testing.T) { provesNetworks(t, manager) })
		}
	}
}

func provesNetworks(t *testing.T, manager string) {
	g := begin(t, manager)
	plain := item.Link{Kind: "ethernet", MAC: ports[0], Addresses: []string{nodeAddress + "/24"}, Routes: gateway}

	g.holds("a port with another name", links{"lan0": plain}, nodeAddress)
	if l := g.ipLink("lan0"); l.MAC != ports[0] {
		t.Errorf("lan0 is %+v", l)
	}

	alone := members
	b := bond(bonded)
	b.Addresses, b.Routes = []string{"10.1.0.11/24"}, gateway
	g.holds("a bond", withLink("bond0", b, alone), "10.1.0.11")
	g.wants("cat /proc/net/bonding/bond0", `active-backup`, `Currently Active Slave: lan0`, `Slave Interface: lan1`)
	g.cable(0, "off")
	g.wants(`for n in $(seq 30); do grep -q "Active Slave: lan1" /proc/net/bonding/bond0 && break; sleep 1; done; cat /proc/net/bonding/bond0`, `Currently Active Slave: lan1`)
	g.cable(0, "on")
	g.wants(`for n in $(seq 30); do grep -q "Active Slave: lan0" /proc/net/bonding/bond0 && break; sleep 1; done; cat /proc/net/bonding/bond0`, `Currently Active Slave: lan0`)

	g.holds("a VLAN on the bond", over(bond(bonded), onVLAN, noBridge), taggedAddress)
	if v := g.ipLink("vlan5"); v.Info.Data.ID != 5 || v.Parent != "bond0" {
		t.Errorf("vlan5 is %+v", v)
	}
	vlan, bridge := bridged([]string{taggedAddress + "/24"}, tagged)
	g.holds("a bridge over the VLAN", over(bond(bonded), vlan, bridge), taggedAddress)
	g.isBridged()

	lacp := item.Bond{Mode: "802.3ad", Monitor: 100, LACPRate: "fast", HashPolicy: "layer3+4", MinLinks: 2}
	g.reverts("LACP without a partner", over(bond(lacp), vlan, bridge))
	g.isBridged()
	wrong := vlan
	wrong.VLAN = 6
	g.reverts("a wrong VLAN", over(bond(bonded), wrong, bridge))
	wrong.VLAN = 7
	g.reverts("a VLAN that the switch does not carry", over(bond(bonded), wrong, bridge))
	lost := bridge
	lost.Routes = []item.Route{{To: "0.0.0.0/0", Via: "10.5.0.50"}}
	g.reverts("a gateway that does not route", over(bond(bonded), vlan, lost))
	lost.Routes = []item.Route{{To: "0.0.0.0/0", Via: "10.5.0.99"}}
	g.reverts("a gateway that is not there", over(bond(bonded), vlan, lost))
	twice := bridge
	twice.Addresses = []string{"10.5.0.50/24"}
	g.reverts("the address of another machine", over(bond(bonded), vlan, twice))
	g.reverts("a bond of ports that lead nowhere", func() links {
		all := over(bond(bonded), vlan, bridge)
		other := all["bond0"]
		other.Members, other.Bond = []string{"lan2"}, &item.Bond{Mode: "active-backup", Monitor: 100}
		all["bond0"], all["lan2"] = other, item.Link{Kind: "ethernet", MAC: ports[2]}
		g.cable(2, "off")
		return all
	}())
	g.cable(2, "on")

	shell(t, "ip link set up0 mtu 9000; ip -n R link set down0 mtu 9000; ip -n R link set router5 mtu 9000; ip -n R link set router1 mtu 9000", g.networked)
	large := over(bond(bonded), vlan, bridge)
	for name, l := range large {
		l.MTU = 9000
		large[name] = l
	}
	g.reverts("an MTU that the switch drops", large)
	shell(t, "ip link set up0 mtu 1500; ip -n R link set down0 mtu 1500; ip -n R link set router5 mtu 1500; ip -n R link set router1 mtu 1500", g.networked)
	g.isBridged()

	// The power is cut while the bridge goes, and then the change can still be had.
	_ = g.apply("power cut", over(bond(bonded), onVLAN, noBridge), []string{taggedAddress}, func() {
		<-time.After(4 * time.Second)
		g.cut()
		g.power()
	})
	g.holds("after the power cut", over(bond(bonded), onVLAN, noBridge), taggedAddress)
	g.holds("LACP that the switch lets through without", over(bond(item.Bond{Mode: "802.3ad", Monitor: 100}), onVLAN, noBridge), taggedAddress)
	g.wants("cat /proc/net/bonding/bond0", `IEEE 802.3ad`)

	g.bondOptions()
	g.carriers()

	// All of it goes again.
	g.holds("a port alone", links{"lan0": plain}, nodeAddress)
	for _, l := range g.ipLinks() {
		if slices.Contains([]string{"bond0", "vlan5", "br5"}, l.Name) || l.Name == "lan1" && l.Master != "" {
			t.Errorf("%s stays: %+v", l.Name, l)
		}
	}
}
