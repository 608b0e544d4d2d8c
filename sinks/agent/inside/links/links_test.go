package links

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// TestMain lets the test program look at the links of the network namespace that it is
// started in, and be what sends frames there.
func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv("SLIPWAY_LINKS"); role {
	case "look":
		err = lookHere()
	case "send":
		err = sendHere(os.Args[1])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func lookHere() error {
	var asked item.LinkProbes
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	seen, err := Look(context.Background(), inside.Real("/", true), asked)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

// sendHere sends the frames that come in JSON at an interface, again and again.
func sendHere(name string) error {
	var frames [][]byte
	if err := json.NewDecoder(os.Stdin).Decode(&frames); err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	index := readPort("/sys/class/net/"+name, name).index
	for range time.Tick(50 * time.Millisecond) {
		for _, f := range frames {
			if err := syscall.Sendto(fd, f, 0, &syscall.SockaddrLinklayer{Ifindex: index, Halen: 6}); err != nil {
				return err
			}
		}
	}
	return nil
}

// needs leaves a test out that cannot be run here, but not in CI.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	why := ""
	if os.Getuid() != 0 {
		why = "only root may make network namespaces"
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			why = p + " is not installed: run ./setup.sh"
		}
	}
	switch {
	case why == "":
	case os.Getenv("CI") != "":
		t.Fatal(why)
	default:
		t.Skip(why)
	}
}

// world is a node with the port eth0, plugged into the port sw0 of a switch, behind whose
// port sw1 is a gateway. Each is a network namespace.
type world struct {
	t    *testing.T
	name string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needs(t, "ip")
	w := &world{t, fmt.Sprintf("slipway-%d-%s-", os.Getpid(), strings.ToLower(t.Name()))}
	for _, ns := range []string{"node", "switch", "gw"} {
		w.ip("netns", "add", w.name+ns)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", w.name+ns).Run() })
	}
	w.ip("link", "add", "eth0", "netns", w.name+"node", "type", "veth", "peer", "name", "sw0", "netns", w.name+"switch")
	w.ip("link", "add", "gw0", "netns", w.name+"gw", "type", "veth", "peer", "name", "sw1", "netns", w.name+"switch")
	w.in("switch", "ip link add br0 type bridge; ip link set br0 up; ip link set sw0 master br0 up; ip link set sw1 master br0 up")
	w.in("gw", "ip link set gw0 up; ip address add 10.1.0.1/24 dev gw0; ip address add fd00::1/64 dev gw0 nodad")
	w.in("node", "ip link set eth0 up; ip address add 10.1.0.11/24 dev eth0; ip address add fd00::11/64 dev eth0 nodad")
	return w
}

func (w *world) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// command is a program in a namespace, which has a /run of its own.
func (w *world) command(ns, script string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", w.name + ns, "sh", "-ec", script, "sh"}, args...)...)
}

func (w *world) in(ns, script string) {
	w.t.Helper()
	if out, err := w.command(ns, script).CombinedOutput(); err != nil {
		w.t.Fatalf("in %s: %s: %v: %s", ns, script, err, out)
	}
}

// begin starts a program in a namespace, which ends with the test.
func (w *world) begin(cmd *exec.Cmd) {
	w.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// send has frames arrive at the node's port.
func (w *world) send(frames ...[]byte) {
	w.t.Helper()
	text, err := json.Marshal(frames)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := w.command("switch", `exec "$@"`, self(w.t), "sw0")
	cmd.Env, cmd.Stdin = append(os.Environ(), "SLIPWAY_LINKS=send"), bytes.NewReader(text)
	w.begin(cmd)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// look looks from the node.
func (w *world) look(before string, asked item.LinkProbes) *item.LinksSeen {
	w.t.Helper()
	text, err := json.Marshal(asked)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := w.command("node", before+` exec "$@"`, self(w.t))
	cmd.Env, cmd.Stdin = append(os.Environ(), "SLIPWAY_LINKS=look"), bytes.NewReader(text)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var seen item.LinksSeen
	if err != nil || json.Unmarshal(out, &seen) != nil {
		w.t.Fatalf("%v: %s %s", err, out, &errs)
	}
	return &seen
}

// eth0 is what a look saw of the node's port.
func (w *world) eth0(seen *item.LinksSeen) item.Port {
	w.t.Helper()
	p, there := seen.Port("eth0")
	if !there {
		w.t.Fatalf("eth0 is not among %+v", seen.Ports)
	}
	return p
}

func tlv(kind int, value string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(kind<<9|len(value))), value...)
}

// frame is an LLDP frame from some TLVs.
func frame(tlvs ...[]byte) []byte {
	head := append(nearestBridge[:6:6], 0x52, 0x54, 0, 0, 0, 1, 0x88, 0xcc)
	return slices.Concat(head, slices.Concat(tlvs...), tlv(0, ""))
}

// leaf is the frame of a switch.
func leaf(system, port string) []byte {
	return frame(tlv(1, "\x04\x52\x54\x00\x00\x00\x01"), tlv(2, "\x05"+port), tlv(3, "\x00\x78"), tlv(4, "to server-1"), tlv(5, system))
}

// What a switch says is heard while the port is listened to, also at a member of a
// bridge, and no longer than that; without listening nothing is heard, and nothing waited
// for.
func TestHearsWhileItListens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(leaf("leaf-1.example.org", "Ethernet1/7"))
	asked := item.LinkProbes{Ports: []string{"eth0"}}
	if p := w.eth0(w.look("", asked)); len(p.Neighbours) > 0 || p.Carrier != "up" || p.MTU != 1500 || p.Speed != 10000 || p.Duplex != "full" || p.MAC == "" {
		t.Errorf("without listening: %+v", p)
	}
	asked.Listen = 30
	want := item.Neighbour{Chassis: "52:54:00:00:00:01", System: "leaf-1.example.org", Port: "Ethernet1/7", PortDescription: "to server-1", By: "slipway"}
	begun := time.Now()
	if p := w.eth0(w.look("", asked)); !slices.Equal(p.Neighbours, []item.Neighbour{want}) {
		t.Errorf("heard %+v", p.Neighbours)
	}
	w.in("node", "ip link add br5 type bridge; ip link set br5 up; ip link set eth0 master br5")
	if p := w.eth0(w.look("", asked)); !slices.Equal(p.Neighbours, []item.Neighbour{want}) || p.Master != "br5" {
		t.Errorf("in a bridge: %+v", p)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("listened for %s to what came at once", took)
	}
}

// A port without a carrier, or one that is off, says so, and is not listened to.
func TestPortsThatAreDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := item.LinkProbes{Ports: []string{"eth0", "eth9"}, Listen: 30}
	w.in("switch", "ip link set sw0 down")
	begun := time.Now()
	down := w.eth0(w.look("", asked))
	w.in("node", "ip link set eth0 down")
	off := w.eth0(w.look("", asked))
	if down.Carrier != "down" || down.Off || down.Speed != 0 || !off.Off || off.Carrier != "" {
		t.Errorf("down %+v, off %+v", down, off)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("listened for %s to ports that are down", took)
	}
	w.in("switch", "ip link set sw0 up")
	w.in("node", "ip link set eth0 up")
	if up := w.eth0(w.look("", item.LinkProbes{Ports: asked.Ports})); up.Changes <= down.Changes {
		t.Errorf("the carrier came back, and its changes are %d after %d", up.Changes, down.Changes)
	}
}

// Whatever arrives at a port, a look ends in time, and what it tells is bounded and
// printable.
func TestHostileNeighbours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	garbage := bytes.Repeat([]byte{0xff, 0x1b, 0x0a, 0x00, 0x13}, 300)[:1500-ethernetHead]
	frames := [][]byte{frame(garbage), frame(tlv(1, "\x04")), frame(), frame(tlv(1, "\x07a"), tlv(2, "\x05b"), tlv(3, "\x00\x00"))}
	for i := range 1000 {
		frames = append(frames, frame(tlv(1, fmt.Sprintf("\x07chassis %d\x1b[31m\n\u202e", i)), tlv(2, "\x05\xff\xfeport\x00"+strings.Repeat("x", 400)), tlv(5, "\x1b]0;evil\a")))
	}
	w.send(frames...)
	p := w.eth0(w.look("", item.LinkProbes{Ports: []string{"eth0"}, Listen: 10}))
	if len(p.Neighbours) != 1 || !strings.HasPrefix(p.Neighbours[0].Chassis, "chassis ") {
		t.Fatalf("heard %+v", p.Neighbours)
	}
	for _, text := range []string{p.Neighbours[0].Chassis, p.Neighbours[0].Port, p.Neighbours[0].System} {
		if strings.ContainsAny(text, "\x00\x1b\n\a\u202e") || len(text) > maxName {
			t.Errorf("%q", text)
		}
	}
}

func answers(seen *item.LinksSeen) map[string]item.Reached {
	all := map[string]item.Reached{}
	for _, r := range seen.Reached {
		all[r.Network] = r
	}
	return all
}

// Who is on the network answers, whether or not it answers ICMP; who is not is silent,
// and a network that the system is not in says nothing. Packets of the designed size do
// not get through a switch that takes smaller ones.
func TestReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in("node", "ip link set eth0 mtu 9000; ip address add 10.3.0.11/24 dev eth0")
	w.in("gw", "ip link set gw0 mtu 9000")
	w.in("switch", "ip link set sw0 mtu 9000; ip link set br0 mtu 1500") // sw1 stays at 1500
	asked := item.LinkProbes{Ports: []string{"eth0"}, Targets: []item.Target{
		{Network: "plain", Address: "10.1.0.1"}, {Network: "six", Address: "fd00::1", MTU: 1400}, {Network: "small", Address: "10.1.0.1", MTU: 1500},
		{Network: "jumbo", Address: "10.1.0.1", MTU: 9000}, {Network: "jumbo six", Address: "fd00::1", MTU: 9000}, {Network: "over", Address: "10.1.0.1", MTU: 9200},
		{Network: "ghost", Node: "n9", Address: "10.1.0.99", MTU: 1500}, {Network: "ghost six", Address: "fd00::99"}, {Network: "elsewhere", Address: "10.2.0.1"},
		{Network: "nonsense", Address: "10.2.0.300"}, {Network: "mapped", Address: "::ffff:10.1.0.1", MTU: 1500},
	}}
	begun := time.Now()
	got := answers(w.look("", asked))
	for network, want := range map[string]string{
		"plain": "answers ", "six": "answers answers", "small": "answers answers", "jumbo": "answers silent", "jumbo six": "answers silent", "over": "answers ",
		"ghost": "silent ", "ghost six": "silent ", "elsewhere": " ", "nonsense": " ", "mapped": "answers answers",
	} {
		if r := got[network]; r.Answers+" "+r.Sized != want {
			t.Errorf("%s: got %q %q (%s), want %q", network, r.Answers, r.Sized, r.Why, want)
		}
	}
	if why := got["elsewhere"].Why; why != "this system is not in its network" {
		t.Errorf("elsewhere: %q", why)
	}
	if why := got["over"].Why; !strings.Contains(why, "9200 bytes are larger than the MTU of this system's own interface") {
		t.Errorf("over: %q", why)
	}
	if took := time.Since(begun); took > longest {
		t.Errorf("the look took %s", took)
	}
	w.in("switch", "ip link set sw1 mtu 9000; ip link set br0 mtu 9000")
	w.in("gw", "echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all")
	asked.Targets = asked.Targets[3:5]
	got = answers(w.look("", asked))
	if r := got["jumbo"]; r.Answers != item.Answered || r.Sized != "" || !strings.Contains(r.Why, "does not answer ICMP") {
		t.Errorf("one that is silent on ICMP: %+v", r)
	}
	if r := got["jumbo six"]; r.Sized != item.Answered {
		t.Errorf("through a switch that takes large packets: %+v", r)
	}
}

// A router's answer proves nothing of the network itself.
func TestReachesNoRouter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in("gw", "ip address add 10.9.0.1/32 dev lo; ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward")
	w.in("node", "ip route add default via 10.1.0.1; ping -c 1 -W 2 10.9.0.1 >/dev/null 2>&1 || ip route get 10.9.0.1 >/dev/null")
	if r := answers(w.look("", item.LinkProbes{Targets: []item.Target{{Network: "far", Address: "10.9.0.1"}}}))["far"]; r.Answers == item.Answered {
		t.Errorf("an address behind the router: %+v", r)
	}
}

// What lldpd of both ends has exchanged is taken from there, without listening.
func TestRealLLDPD(t *testing.T) {
	t.Parallel()
	needs(t, "lldpd", "lldpcli")
	w := newWorld(t)
	// Each has a /run of its own, where its socket is and where it locks itself up.
	const begin = "mount -t tmpfs tmpfs /run; mkdir -p /run/lldpd; lldpd -d -k -I %s -S 'a \x1b[31mDebian' >/dev/null 2>&1 & for i in $(seq 100); do lldpcli show chassis >/dev/null 2>&1 && break; sleep 0.1; done; lldpcli configure lldp tx-interval 1 >/dev/null; "
	w.begin(w.command("switch", fmt.Sprintf(begin, "sw0")+`lldpcli configure system hostname leaf-7 >/dev/null; lldpcli configure ports sw0 lldp portidsubtype local Ethernet1/7 description "to server-1" >/dev/null; exec sleep 120`))
	heard := fmt.Sprintf(begin, "eth0") + "for i in $(seq 200); do lldpcli show neighbors | grep -q Ethernet1/7 && break; sleep 0.1; done; "
	// The daemon of the node ends with the look.
	p := w.eth0(w.look(heard+`"$@"; kill $(cat /run/lldpd.pid 2>/dev/null) $! 2>/dev/null; exit 0; `, item.LinkProbes{Ports: []string{"eth0"}}))
	if len(p.Neighbours) != 1 {
		t.Fatalf("heard %+v", p)
	}
	if n := p.Neighbours[0]; n.System != "leaf-7" || n.Port != "Ethernet1/7" || n.PortDescription != "to server-1" || n.By != "lldpd" || len(n.Chassis) != 17 {
		t.Errorf("heard %+v", n)
	}
}

// A system in a folder of its own is not looked at.
func TestSystemThatDoesNotRun(t *testing.T) {
	if seen, err := Look(t.Context(), inside.Real(t.TempDir(), false), item.LinkProbes{}); err == nil {
		t.Errorf("saw %+v", seen)
	}
}

// networkd writes a file as systemd-networkd does.
func networkd(frames ...[]byte) []byte {
	var b []byte
	for _, f := range frames {
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(f))), f...)
	}
	return b
}

// What systemd-networkd has heard is taken from its files.
func TestNetworkd(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"sys/class/net/eth0/ifindex": "2", "sys/class/net/eth0/flags": "0x1003", "sys/class/net/eth0/carrier": "1", "sys/class/net/eth0/device/vendor": "0x8086",
		"sys/class/net/eth1/ifindex": "3", "sys/class/net/eth1/flags": "0x1003", "sys/class/net/eth1/device/physfn/x": "",
		"sys/class/net/docker0/ifindex": "4", "run/systemd/netif/lldp/2": string(networkd(leaf("leaf-1", "Ethernet1/7"), leaf("leaf-1", "Ethernet1/7"), leaf("other", "Eth9"), frame())),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := inside.Real(root, true)
	h.Exec = func(context.Context, inside.Command) (inside.Output, error) {
		return inside.Output{}, io.EOF
	}
	ports, err := readPorts(h, nil)
	if err != nil || len(ports) != 1 || ports[0].Name != "eth0" {
		t.Fatalf("ports %+v, %v", ports, err)
	}
	hear(t.Context(), h, ports, []string{"eth0"}, 0)
	if n := ports[0].Neighbours; len(n) != 2 || n[0].System != "leaf-1" || n[1].System != "other" || n[0].By != "systemd-networkd" {
		t.Errorf("heard %+v", n)
	}
}

// The subtypes of chassis and ports that are no text are written as people write them.
func TestIdentifiers(t *testing.T) {
	for want, value := range map[string][]byte{
		"52:54:00:00:00:01": tlv(1, "\x04\x52\x54\x00\x00\x00\x01"), "192.0.2.1": tlv(1, "\x05\x01\xc0\x00\x02\x01"), "name": tlv(1, "\x07name"), "RT": tlv(1, "\x04\x52\x54"),
	} {
		if n, ok := parseFrame(frame(value, tlv(2, "\x05p"))); !ok || n.Chassis != want {
			t.Errorf("%q is %+v", want, n)
		}
	}
}

// Whatever a neighbour says, and whatever stands in the files of others, nothing falls
// over, and what is told is printable and bounded.
func FuzzNeighbours(f *testing.F) {
	f.Add(leaf("leaf-1", "Ethernet1/7"))
	f.Add(networkd(leaf("leaf-1", "Ethernet1/7")))
	f.Add([]byte(`{"lldp":[{"interface":[{"name":"eth0","via":"LLDP","chassis":[{"id":[{"type":"mac","value":"52:54:00:00:00:01"}],"name":[{"value":"leaf"}]}],"port":[{"id":[{"value":"Eth1"}]}]}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := parseNetworkd(text)
		if n, ok := parseFrame(text); ok {
			all = append(all, n)
		}
		for _, some := range parseLLDPD(text) {
			if len(some) > item.MaxNeighbours {
				t.Errorf("%d neighbours", len(some))
			}
			all = append(all, some...)
		}
		for _, n := range all {
			for _, s := range []string{n.Chassis, n.System, n.Port, n.PortDescription} {
				if len([]rune(s)) > maxName || strings.ContainsAny(s, "\x00\x1b\n\r\u202e") {
					t.Errorf("%q", s)
				}
			}
		}
	})
}

// No packet is taken for an answer that is none.
func FuzzReply(f *testing.F) {
	f.Add([]byte{0x45, 0, 0, 28}, true)
	f.Fuzz(func(t *testing.T, packet []byte, four bool) {
		p := &pinger{number: 7, count: 1}
		if four {
			p.to = netip.AddrFrom4([4]byte{10, 1, 0, 1})
		}
		p.isReply(packet, icmpHead)
	})
}
