package start

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Neighbours stay known between two looks, and go with the link.
func TestNeighbours(t *testing.T) {
	h := inside.Real(t.TempDir(), false)
	for _, name := range []string{"eth0", "eth1"} {
		folder := h.Path("/sys/class/net/" + name + "/device")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(folder), "address"), []byte("52:54:00:aa:00:0"+name[3:]+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n := &neighbours{}
	leaf := []item.Neighbour{{System: "leaf-1", Port: "7"}}
	has := func() (all []string) {
		for _, p := range n.in(hardware.Machine(h)).Ports {
			for _, x := range p.Neighbours {
				all = append(all, p.Name+" "+x.System+" "+x.Port)
			}
		}
		return all
	}
	if got := has(); len(got) != 0 {
		t.Errorf("before: %q", got)
	}
	n.take([]item.Port{{Name: "eth0", Carrier: "up", Neighbours: leaf}, {Name: "eth1", Carrier: "up"}})
	n.take([]item.Port{{Name: "eth0", Carrier: "up"}, {Name: "eth1", Carrier: "up"}}) // it was not heard this time
	if got := has(); !slices.Equal(got, []string{"eth0 leaf-1 7"}) {
		t.Errorf("heard: %q", got)
	}
	n.take([]item.Port{{Name: "eth0", Carrier: "down"}})
	if got := has(); len(got) != 0 {
		t.Errorf("after the link is gone: %q", got)
	}
}

// The daemon is told what is on the disks: a disk that is kept, and what lies on several disks, is
// known by that alone.
func TestWhatIsOnTheDisksIsTold(t *testing.T) {
	h := inside.Real(t.TempDir(), false)
	for name, content := range map[string]string{
		"sys/block/sda/size": "2048\n", "sys/block/sda/queue/logical_block_size": "512\n", "sys/block/sda/device/model": "Disk\n",
		"dev/sda": "XFSB\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x09" + strings.Repeat("\x00", 1<<20),
	} {
		if err := os.MkdirAll(filepath.Dir(h.Path("/"+name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(h.Path("/"+name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := program(Settings{}, h, &neighbours{}).Do(t.Context(), wire.Request{Version: wire.Version, Op: wire.OpObserve, Machine: true})
	if r.Error != nil || r.Machine == nil || len(r.Machine.Disks) != 1 || len(r.Machine.Disks[0].Holds) != 1 || r.Machine.Disks[0].Holds[0].Kind != "xfs" {
		t.Errorf("got %+v, %+v", r.Machine, r.Error)
	}
}

// The daemon is told the last lines of the console, each once.
func TestLinesForTheDaemon(t *testing.T) {
	c := &console{}
	for n := range 3 * wire.MaxSaid {
		c.say("line %d %s", n, strings.Repeat("x", 1000))
	}
	got := c.untold()
	if len(got) != wire.MaxSaid || !strings.Contains(got[len(got)-1], "line 299 ") || len(got[0]) > longestLine {
		t.Errorf("%d lines, the last is %q", len(got), got[len(got)-1])
	}
	c.forget()
	if c.say("more"); len(c.untold()) != 1 {
		t.Errorf("then: %q", c.untold())
	}
}
