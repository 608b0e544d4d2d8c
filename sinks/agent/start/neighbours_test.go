package start

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
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
		for _, p := range n.machine(h).Ports {
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
