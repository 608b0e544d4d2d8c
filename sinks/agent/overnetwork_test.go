package agent_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/start"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// overNetwork is the boot of machineOne over the loopback.
func overNetwork() agent.Boot {
	b := bootOne()
	b.From = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("127.0.0.0/8")}
	return b
}

// An agent that was started over the network has no token. The first that fits the node is the
// node's, and may call again with its key, also at a daemon that was started since.
func TestAgentOverTheNetwork(t *testing.T) {
	d := newDesk(t)
	d.expect(overNetwork())
	c := d.caller("", machineOne())
	end, ended := d.stays(c)
	if _, err := d.agent("n1").Observe(t.Context(), &site.Node{Name: "n1"}, nil); err != nil {
		t.Error(err)
	}
	key := d.Connected("n1").Key()
	end()
	<-ended
	d.stays(c)
	d.refuses(d.caller("", machineOne()), "Another agent has called as n1 before, in this boot.")
	if why := d.Refused("n1"); !strings.Contains(why, "an agent at 127.0.0.1 was refused: Another agent has called as n1") {
		t.Errorf("people are told %q", why)
	}

	later := newDesk(t)
	var token, of [32]byte
	token[0] = 1
	if _, err := hex.Decode(of[:], []byte(key)); err != nil {
		t.Fatal(err)
	}
	later.Recall(overNetwork(), token, of)
	later.refuses(later.caller("", machineOne()), "Another agent has called as n1 before")
	c.Settings.Daemon, c.Settings.CA = later.address, later.ca
	later.stays(c)
	later.Forget("n1")
	if later.Refused("n1") != "" {
		t.Error("something is told of a boot that is over")
	}
	later.refuses(c, "No boot over the network waits for this machine")
}

// Who does not fit, calls from elsewhere or comes too late is refused, and a boot from a medium is
// not to be had without its token.
func TestAgentsOverTheNetworkThatAreRefused(t *testing.T) {
	other := machineOne()
	other.UUID = uuidTwo
	for name, c := range map[string]struct {
		change func(d *desk, b *agent.Boot)
		is     wire.Machine
		says   string
		told   string
	}{
		"another machine":       {nil, other, "No boot over the network waits for this machine", ""},
		"a boot from a medium":  {func(_ *desk, b *agent.Boot) { b.From = nil }, machineOne(), "No boot over the network waits for this machine", ""},
		"from another network":  {func(_ *desk, b *agent.Boot) { b.From = b.From[:1] }, machineOne(), "127.0.0.1 is not in 192.0.2.0/24", "has to call from there"},
		"after the boot's time": {func(d *desk, b *agent.Boot) { b.Until = d.now().Add(-time.Minute) }, machineOne(), "has ended at", "has ended at"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			b := overNetwork()
			if c.change != nil {
				c.change(d, &b)
			}
			d.expect(b)
			d.refuses(d.caller("", c.is), c.says)
			if told := d.Refused("n1"); !strings.Contains(told, c.told) || (told == "") != (c.told == "") {
				t.Errorf("people are told %q", told)
			}
			if d.Connected("n1") != nil {
				t.Error("somebody is connected")
			}
		})
	}
}

// The words by which the agent finds the daemon name it and its certificate, and have no secret.
func TestDirections(t *testing.T) {
	s := serving(t, t.TempDir(), agent.ServiceOptions{Listen: "127.0.0.1:0"})
	words, err := s.Directions(overNetwork())
	if err != nil {
		t.Fatal(err)
	}
	is, err := start.Parse("", words)
	if err != nil || !strings.HasPrefix(is.Daemon, "127.0.0.1:") || len(is.CA) != 32 || is.Token != "" {
		t.Errorf("%q: %+v, %v", words, is, err)
	}
}

// One address that says nothing on many connections keeps no agent of another one out.
func TestSilentConnectionsOfOneAddress(t *testing.T) {
	d := newDesk(t)
	token := d.expect(bootOne())
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}
	for range 300 {
		c, err := from.Dial("tcp", d.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	d.stays(d.caller(token, machineOne()))
}

// Many addresses that say nothing, each on as many connections as it may, keep no agent out either.
func TestSilentConnectionsOfManyAddresses(t *testing.T) {
	d := newDesk(t)
	token := d.expect(bootOne())
	for n := range 20 {
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(66+n))}}
		for range 16 {
			c, err := from.Dial("tcp", d.address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		}
	}
	d.stays(d.caller(token, machineOne()))
}

// medium is one of the ramdisk with an archive of programs for disks.
func medium(archive []byte) []byte {
	const at = 25 * 2048
	m := make([]byte, at, at+len(archive)+100)
	copy(m[wire.VolumeAt:], "\x01CD001\x01")
	copy(m[wire.VolumeAt+wire.ApplicationUse:], fmt.Sprintf("%s47104 4096\n%s%d %d\n", wire.MediumMark, wire.ToolsMark, at, len(archive)))
	return append(append(m, archive...), "behind it"...)
}

// An agent that was started over the network is sent the programs for disks of the ramdisk that it
// belongs to, and of no other, by the daemon that it installs for.
func TestProgramsForDisksAreSent(t *testing.T) {
	archive := bytes.Repeat([]byte("tools "), 1000)
	sum := fmt.Sprintf("%x", sha256.Sum256(archive))
	store := map[string][]byte{"m1": medium(archive), "m2": medium([]byte("others")), "m3": []byte("no medium")}
	open := func(digest string) (io.ReadCloser, int64, error) {
		content, ok := store[digest]
		if !ok {
			return nil, 0, errors.New("it is not there")
		}
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	}
	for name, c := range map[string]struct {
		medium string
		want   wire.Want
		says   string
	}{
		"the right ones":     {"m1", wire.Want{SHA256: sum, For: wire.ToolsFor}, ""},
		"of another build":   {"m2", wire.Want{SHA256: sum, For: wire.ToolsFor}, "it was started from another build"},
		"no medium":          {"m3", wire.Want{SHA256: sum, For: wire.ToolsFor}, "cannot be read on the medium of the ramdisk"},
		"a medium that left": {"m4", wire.Want{SHA256: sum, For: wire.ToolsFor}, "it is not there"},
		"another thing":      {"m1", wire.Want{SHA256: sum, For: "/etc/motd"}, "no file of the design has this content"},
	} {
		t.Run(name, func(t *testing.T) {
			content, b := agent.WithTools(c.medium, open)(c.want)
			if c.says != "" {
				if content != nil || !strings.Contains(b.Refused, c.says) {
					t.Errorf("got %+v", b)
				}
				return
			}
			got, err := io.ReadAll(content)
			if err != nil || !bytes.Equal(got, archive) || b.Size != int64(len(archive)) || b.Refused != "" {
				t.Errorf("%d bytes, %v, %+v", len(got), err, b)
			}
		})
	}
	again := agent.WithTools("m1", open)
	for i := range 3 {
		if content, b := again(wire.Want{SHA256: sum, For: wire.ToolsFor}); (content != nil) != (i < 2) {
			t.Errorf("asked %d times: %+v", i+1, b)
		}
	}
}

var _ driver.Agents = (*agent.Service)(nil)
