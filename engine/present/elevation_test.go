package present_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// aRack has a node in each state, an enclosure, a node that was never seen, names that
// are too long, and nodes without a position.
func aRack() (map[string]*site.Rack, []site.NodeStatus) {
	nodes := []site.NodeStatus{
		{Name: "controller-1", Role: "controller", Position: site.Position{Unit: 20}, State: site.InSync, Power: "on", Health: "OK"},
		{Name: "storage-1", Role: "storage", Position: site.Position{Unit: 17, Height: 2}, State: site.Blocked, Reason: "waits for the window night", Power: "on", Health: "Warning"},
		{Name: "compute-1", Role: "compute", Position: site.Position{Unit: 16}, State: site.Progressing, Power: "off"},
		{Name: "compute-2", Position: site.Position{Unit: 15}, State: site.Retrying, Power: "on"},
		{Name: "compute-3", Position: site.Position{Unit: 14}, State: site.Stalled, Power: "on"},
		{Name: "compute-4", Position: site.Position{Unit: 13}, State: site.Foreign, Power: "on"},
		{Name: "compute-5", Position: site.Position{Unit: 12}, State: site.Paused, Power: "off"},
		{Name: "compute-6", Position: site.Position{Unit: 11}, State: site.Unknown},
		{Name: "a-name-that-is-far-too-long-for-a-picture-7", Position: site.Position{Unit: 10}, State: site.Blocked, Power: "on"},
		{Name: "spare-1", State: site.InSync, Power: "on"},
		{Name: "spare-2", State: site.Stalled, Power: "on"},
		{Name: "spare-10", State: site.InSync, Power: "off"},
		{Name: "vm-1", Hypervisor: "hv-1", State: site.InSync},
	}
	for i := range 4 {
		nodes = append(nodes, site.NodeStatus{Name: fmt.Sprintf("twin-%d", i+1), Position: site.Position{Unit: 5, Height: 2, Enclosure: "c1"},
			State: site.States[2*i%len(site.States)], Power: "on"})
	}
	for i := range nodes {
		nodes[i].Rack, nodes[i].Seen = "r1", time.Unix(1, 0)
	}
	nodes = append(nodes, site.NodeStatus{Name: "new-1", Rack: "r1", Position: site.Position{Unit: 1, Height: 2}, State: site.Unknown},
		site.NodeStatus{Name: "new-2", Rack: "r1", Position: site.Position{Unit: 3}, State: site.Stalled, Person: true})
	return map[string]*site.Rack{"r1": {Units: 22, Location: "row A, place 1"}}, nodes
}

func drawn(t *testing.T, e present.Elevation) string {
	t.Helper()
	var b strings.Builder
	if err := e.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The picture of a rack as people see it; -update draws it again.
func TestElevationGolden(t *testing.T) {
	racks, nodes := aRack()
	all := present.Elevations(racks, nodes, present.ElevationView{StandAlone: true, Link: func(n string) string { return "/nodes/" + n }})
	if len(all) != 1 {
		t.Fatalf("%d racks", len(all))
	}
	const file = "testdata/elevation.svg"
	got := drawn(t, all[0])
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%s is not current (-update makes it so): %v", file, err)
	}
	if got, want := all[0].Summary(), "18 nodes, 4 in-sync, 1 progressing, 2 retrying, 2 blocked, 4 stalled, 1 foreign, 2 paused, 2 unknown, 2 never seen"; got != want {
		t.Errorf("summary %q, want %q", got, want)
	}
}

// A rack is drawn from its top to its bottom; nodes of an enclosure are beside each other,
// and what has no unit, or one that no rack has, is in the list below.
func TestElevationPlaces(t *testing.T) {
	at := func(name string, p site.Position) site.NodeStatus {
		return site.NodeStatus{Name: name, Rack: "r1", Position: p}
	}
	nodes := []site.NodeStatus{
		at("b2", site.Position{Unit: 3, Height: 2, Enclosure: "c"}), at("b10", site.Position{Unit: 3, Height: 2, Enclosure: "c"}),
		at("top", site.Position{Unit: 9}), at("none", site.Position{Height: 2}), at("high", site.Position{Unit: 100, Height: 2}),
	}
	e := present.Elevations(nil, nodes, present.ElevationView{})[0]
	var got []string
	for _, p := range e.Placed {
		got = append(got, fmt.Sprintf("%s %d/%d", p.Node.Name, p.Column, p.Columns))
	}
	for _, n := range e.Loose {
		got = append(got, n.Name)
	}
	if want := []string{"top 0/1", "b2 0/2", "b10 1/2", "high", "none"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if e.Units() != 9 {
		t.Errorf("%d units are drawn, want 9", e.Units())
	}
}

// More nodes in one unit than can be drawn beside each other are not lost.
func TestElevationCrowd(t *testing.T) {
	var nodes []site.NodeStatus
	for i := range 300 {
		nodes = append(nodes, site.NodeStatus{Name: fmt.Sprintf("n%d", i), Rack: "r1", Position: site.Position{Unit: 1}})
	}
	e := present.Elevations(nil, nodes, present.ElevationView{})[0]
	if len(e.Placed) != 8 || len(e.Loose) != 292 {
		t.Errorf("%d placed and %d below, want 8 and 292", len(e.Placed), len(e.Loose))
	}
	if svg := drawn(t, e); !strings.Contains(svg, "… 92 more") {
		t.Error("the nodes that are not drawn are not counted")
	}
}

// A view that chooses nodes leaves out racks without one, and draws the others faint.
func TestElevationChosen(t *testing.T) {
	nodes := []site.NodeStatus{{Name: "a", Rack: "r10", State: site.Stalled}, {Name: "b", Rack: "r10", State: site.InSync}, {Name: "c", Rack: "r2", State: site.InSync}}
	racks := map[string]*site.Rack{"r2": {}, "r10": {}, "empty": {Units: 3}}
	names := func(v present.ElevationView) (all []string) {
		for _, e := range present.Elevations(racks, nodes, v) {
			all = append(all, e.Rack)
		}
		return all
	}
	if got, want := names(present.ElevationView{}), []string{"empty", "r2", "r10"}; !slices.Equal(got, want) {
		t.Errorf("all racks %q, want %q", got, want)
	}
	stalled := present.ElevationView{Only: func(n *site.NodeStatus) bool { return n.State == site.Stalled }}
	if got, want := names(stalled), []string{"r10"}; !slices.Equal(got, want) {
		t.Errorf("racks with a stalled node %q, want %q", got, want)
	}
	if svg := drawn(t, present.Elevations(racks, nodes, stalled)[0]); strings.Count(svg, ` other"`) != 1 {
		t.Errorf("want one faint node:\n%s", svg)
	}
}

// Whatever names, reasons and places hold, the picture is well-formed XML with the elements
// and classes that it always has, and of bounded size.
func FuzzElevation(f *testing.F) {
	f.Add("n1", "r1", "row A", "in-sync", "on", 3, 2, "c1")
	f.Add(`"><script>alert(1)</script>`, "</svg>", "]]>&lt;", `x" onload="y`, "\u202e", -1, 1<<40, "\xff")
	f.Add(strings.Repeat("W", 5000), strings.Repeat("é", 300), "\x00\x1b[31m", "stalled", "off", 100, 1, "'")
	f.Fuzz(func(t *testing.T, name, rack, location, state, power string, unit, height int, enclosure string) {
		n := site.NodeStatus{Name: name, Rack: rack, Role: location, State: site.State(state), Reason: name, Power: power, Health: location,
			Position: site.Position{Unit: unit, Height: height, Enclosure: enclosure}}
		v := present.ElevationView{StandAlone: true, Link: func(n string) string { return "/nodes/" + n }}
		for _, e := range present.Elevations(map[string]*site.Rack{rack: {Units: height, Location: location}}, []site.NodeStatus{n}, v) {
			var b strings.Builder
			if err := e.WriteSVG(&b); err != nil {
				t.Fatal(err)
			}
			checkSVG(t, b.String())
			if !utf8.ValidString(b.String()) || b.Len() > 60_000 {
				t.Errorf("%d bytes", b.Len())
			}
		}
	})
}

// checkSVG refuses elements and attributes that the picture never has.
func checkSVG(t *testing.T, svg string) {
	t.Helper()
	elements := []string{"svg", "style", "title", "rect", "path", "text", "g", "a", "defs", "use"}
	attributes := []string{"xmlns", "id", "class", "viewBox", "width", "height", "role", "aria-label", "x", "y", "rx", "d", "transform", "text-anchor", "href"}
	classes := []string{"rackshape", "unseen", "other", "rack", "paper", "name", "dim", "unit", "frame", "slots", "box", "badge", "sign", "mark", "small", "alert"}
	for _, s := range site.States {
		classes = append(classes, string(s))
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, svg)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains(elements, start.Name.Local) {
			t.Fatalf("element %q in:\n%s", start.Name.Local, svg)
		}
		for _, a := range start.Attr {
			if !slices.Contains(attributes, a.Name.Local) {
				t.Fatalf("attribute %q in:\n%s", a.Name.Local, svg)
			}
			for _, class := range strings.Fields(a.Value) {
				if a.Name.Local == "class" && !slices.Contains(classes, class) {
					t.Fatalf("class %q in:\n%s", class, svg)
				}
			}
		}
	}
}

// BenchmarkElevations draws ten thousand machines in 250 racks.
func BenchmarkElevations(b *testing.B) {
	racks, nodes := map[string]*site.Rack{}, []site.NodeStatus{}
	for i := range 10_000 {
		rack := fmt.Sprintf("r%d", i/40)
		racks[rack] = &site.Rack{Units: 42, Location: "row A"}
		nodes = append(nodes, site.NodeStatus{Name: fmt.Sprintf("compute-%d", i), Role: "compute", Rack: rack, Position: site.Position{Unit: i%40 + 1},
			State: site.States[i%8], Power: "on", Health: "OK", Seen: time.Unix(1, 0)})
	}
	v := present.ElevationView{Link: func(n string) string { return "/sites/example/nodes/" + n }}
	for b.Loop() {
		size := 0
		for _, e := range present.Elevations(racks, nodes, v) {
			var text strings.Builder
			if err := e.WriteSVG(&text); err != nil {
				b.Fatal(err)
			}
			size += text.Len()
		}
		b.ReportMetric(float64(size)/float64(len(racks)), "bytes/rack")
	}
}

// Pictures whose shapes are apart define none, use only those that the document defines, and a machine that changes its state
// changes no shape of the document.
func TestShapesApart(t *testing.T) {
	draw := func(state site.State) (pictures, shapes string) {
		racks, nodes := aRack()
		nodes[0].State = state
		view := present.ElevationView{Shared: present.Symbols{}, Apart: true}
		var b strings.Builder
		for _, e := range present.Elevations(racks, nodes, view) {
			if err := e.WriteSVG(&b); err != nil {
				t.Fatal(err)
			}
		}
		return b.String(), view.Shared.SVG()
	}
	pictures, shapes := draw(site.InSync)
	if strings.Contains(pictures, "<defs>") || strings.Contains(pictures, `id="`) {
		t.Error("a picture defines shapes")
	}
	used := strings.Split(pictures, `<use href="#`)[1:]
	for _, use := range used {
		id, _, _ := strings.Cut(use, `"`)
		if strings.Count(shapes, `id="`+id+`"`) != 1 {
			t.Errorf("the document defines %s %d times", id, strings.Count(shapes, `id="`+id+`"`))
		}
	}
	if len(used) < 10 {
		t.Errorf("the pictures use %d shapes", len(used))
	}
	for _, state := range site.States {
		if other, now := draw(state); now != shapes || (other == pictures) != (state == site.InSync) {
			t.Errorf("%s: other shapes, or no other picture", state)
		}
	}
}
