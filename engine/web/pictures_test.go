package web

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// A cable is judged by the same rule as in the findings, and what nobody has seen is unknown.
func TestCables(t *testing.T) {
	f := &fleet{said: "there", links: func(node string) *item.LinksSeen {
		port := item.Port{Name: "eno1", Carrier: "up"}
		switch node {
		case "db-1": // is designed for Ethernet1/0 of leaf-1
			port.Neighbours = []item.Neighbour{{System: "LEAF-1.example.org", Port: "Eth1/0"}}
		case "db-2":
			port.Neighbours = []item.Neighbour{{System: "leaf-2", Port: "Ethernet1/1"}}
		case "web-1":
			port.Carrier = "down"
		case "web-2": // has heard nothing
		case "web-3":
			return nil
		case "web-4":
			port.Name = "eth7"
		}
		return &item.LinksSeen{Ports: []item.Port{port}}
	}}
	_, text := asked(opened(t, f), "GET", "/sites/berlin/network", "")
	for node, want := range map[string]string{
		"db-1":  "up|LEAF-1.example.org Eth1/0|✓ as designed",
		"db-2":  "up|leaf-2 Ethernet1/1|✕ differs",
		"web-1": "down|nothing|✕ no carrier",
		"web-2": "up|nothing|? unknown",
		"web-3": "unknown|unknown|? unknown",
		"web-4": "unknown|unknown|✕ differs",
	} {
		_, row, _ := strings.Cut(text, `/nodes/`+node+`">`)
		row, _, _ = strings.Cut(row, "</tr>")
		var cells []string
		for _, cell := range strings.Split(row, "<td")[2:] {
			_, cell, _ = strings.Cut(cell, ">")
			cells = append(cells, strings.TrimSuffix(cell, "</td>"))
		}
		if got := strings.Join(cells, "|"); got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}

// Without the records a cable has the verdict of its node, and nothing is said of what was heard.
func TestCablesWithoutRecords(t *testing.T) {
	address, as := onNetwork(t, &fleet{said: "there"})
	_, text, _ := sends(t, as("bob@example.org"), "GET", address+"/sites/berlin/network", "")
	const unheard = `data-l="heard by LLDP">unknown</td><td class="match `
	if strings.Count(text, unheard+`good">✓ as designed`) != 5 || strings.Count(text, unheard+`">? unknown`) != 1 || strings.Contains(text, "leaf-1 there") {
		t.Errorf("%d as designed, %d unknown", strings.Count(text, "✓ as designed"), strings.Count(text, "? unknown"))
	}
}
