package agent_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// plugged is a node with one designed port.
func plugged() *site.Node {
	return &site.Node{Name: "m0", Interfaces: map[string]site.Interface{"eno1": {Switch: "leaf-1"}},
		References: site.References{Links: map[string]item.Link{"eno1": {Kind: "ethernet"}}}}
}

// A look asks for the links, and for the others that the engine names, in the one command
// that it is; listening is a command of its own.
func TestLinksOnTheLab(t *testing.T) {
	folder := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(folder, "slipway-helper-linux-"+arch), []byte(arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fleet := startLab(t, 1)
	sub := subject(fleet, "m0")
	d := agent.New(agent.Options{Folder: folder})
	m, err := d.Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	target := item.Target{Network: "os", Address: "10.1.0.1", MTU: 9000}
	m.(driver.Linked).Targets(func(*site.Node) []item.Target { return []item.Target{target} })
	before := time.Now().Add(-time.Second)
	seen, err := m.Observe(t.Context(), plugged(), []site.Facet{site.FacetOS, site.FacetLinks})
	if err != nil {
		t.Fatal(err)
	}
	if s := seen.Facets[site.FacetLinks]; s.Seen.IsZero() || len(s.Unread) > 0 || seen.Links == nil {
		t.Fatalf("got %+v, %+v", s, seen.Links)
	}
	if p, there := seen.Links.Port("eno1"); !there || p.Carrier != "up" || seen.Links.BootID == "" {
		t.Errorf("got %+v", seen.Links)
	}
	if r := seen.Links.Reached; len(r) != 1 || r[0].Target != target || r[0].Sized != item.Answered {
		t.Errorf("got %+v", r)
	}
	fleet.Machine("m0").SetLinks(item.LinksSeen{Ports: []item.Port{{Name: "eno1", Carrier: "up", Neighbours: []item.Neighbour{{System: "leaf-1", Port: "7"}}}}})
	heard, err := m.(driver.Linked).Listen(t.Context(), plugged())
	if err != nil || heard == nil || len(heard.Ports) != 1 || len(heard.Ports[0].Neighbours) != 1 || heard.Ports[0].Neighbours[0].Heard.Before(before) {
		t.Errorf("heard %+v, %v", heard, err)
	}
	if seen, err := m.Observe(t.Context(), &site.Node{Name: "m0"}, []site.Facet{site.FacetOS, site.FacetLinks}); err != nil || seen.Links != nil || seen.Facets[site.FacetLinks].Seen.IsZero() {
		t.Errorf("of a node without interfaces: %+v, %v", seen, err)
	}
}

// What a system tells of its links is bounded and printable, and one that tells nothing is
// not taken for one without ports.
func TestHostileLinks(t *testing.T) {
	evil := "\x1b]0;x\a" + strings.Repeat("\u202ey", 500)
	told := &item.LinksSeen{BootID: evil}
	for range 100 {
		p := item.Port{Name: evil, MAC: evil, Carrier: evil, Duplex: evil, Speed: -1, MTU: -7, Master: evil}
		for range 10 {
			p.Neighbours = append(p.Neighbours, item.Neighbour{Chassis: evil, System: evil, Port: evil, PortDescription: evil, By: evil, Heard: time.Unix(1<<32, 0)})
		}
		told.Ports = append(told.Ports, p)
	}
	for range 1000 {
		told.Reached = append(told.Reached, item.Reached{Target: item.Target{Network: evil[:50], Node: evil[:50]}, Answers: evil[:50], Sized: evil[:50], Why: evil[:50]})
	}
	for name, c := range map[string]struct {
		result wire.Result
		says   string
	}{
		"too much":   {wire.Result{Links: told}, ""},
		"nothing":    {wire.Result{}, "the helper does not report them"},
		"an excuse":  {wire.Result{LinksUnread: "no \x1b[31msysfs"}, "sysfs"},
		"an error":   {wire.Result{Error: &wire.Error{Class: wire.Failed, Text: "broken"}}, "broken"},
		"not a root": {wire.Result{Error: &wire.Error{Class: wire.Refused, Text: "no root\x1b"}}, "no root"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.Marshal(wire.Frame{Result: &c.result})
			if err != nil {
				t.Fatal(err)
			}
			s := newServer(t, func(w io.Writer) {
				io.WriteString(w, answer+"\n--helper\n"+string(binary.BigEndian.AppendUint32(nil, uint32(len(text))))+string(text))
			})
			m, err := agent.New(agent.Options{}).Open(t.Context(), s.endpoint(), password)
			if err != nil {
				t.Fatal(err)
			}
			seen, err := m.Observe(t.Context(), plugged(), []site.Facet{site.FacetOS, site.FacetLinks})
			if err != nil {
				t.Fatal(err)
			}
			state := seen.Facets[site.FacetLinks]
			if why := state.Unread["links"]; !strings.Contains(why, c.says) || (c.says != "") != (seen.Links == nil && state.Seen.IsZero()) || why != site.Printable(why) {
				t.Fatalf("got %+v, links %v", state, seen.Links != nil)
			}
			if seen.Links == nil {
				return
			}
			kept, err := json.Marshal(seen.Links)
			if err != nil {
				t.Fatal(err)
			}
			texts := []string{seen.Links.BootID}
			for _, p := range seen.Links.Ports {
				texts = append(texts, p.Name, p.Neighbours[0].System, p.Neighbours[0].Port)
			}
			for _, r := range seen.Links.Reached {
				texts = append(texts, r.Network, r.Node, r.Why)
			}
			for _, text := range texts {
				if text != site.Printable(text) {
					t.Fatalf("told %q", text)
				}
			}
			if len(kept) > 1<<20 {
				t.Errorf("%d bytes are kept: %.300s", len(kept), kept)
			}
			for _, p := range seen.Links.Ports {
				if p.Carrier != "" || p.Speed < 0 || p.MTU < 0 || slices.ContainsFunc(p.Neighbours, func(n item.Neighbour) bool { return time.Since(n.Heard).Abs() > time.Minute }) {
					t.Fatalf("believed %.300v", p)
				}
			}
		})
	}
}
