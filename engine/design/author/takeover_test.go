package author_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// wiredSite is a design of two nodes that says nothing of their network.
const wiredSite = `package x

site: {schema: "v1alpha2", rollout: maxUnavailable: "1"}
racks: r1: {}
roles: web: {}
credentials: {bmc: {}, os: {}}
networks: {
	bmc: cidr: "10.9.0.0/24"
	data: {cidr: "10.2.0.0/24", vlan: 20}
}
profiles: base: {role: "web", rack: "r1", endpoints: manager: url: "redfish+https://{addresses.bmc}/redfish/v1/Systems/1"}
nodes: {
	"w-1": {profiles: ["base"], identity: serial: "S1", addresses: bmc: "10.9.0.11"}
	"w-2": {profiles: ["base"], identity: serial: "S2", addresses: bmc: "10.9.0.12"}
}
`

// evaluated is the site of a folder with these files; errors are given as text.
func evaluated(t *testing.T, files map[string]string) (*site.Site, string) {
	t.Helper()
	dir := t.TempDir()
	files = maps.Clone(files)
	files["cue.mod/module.cue"] = "module: \"example.org/x\"\nlanguage: version: \"v0.9.0\"\n"
	if err := os.Mkdir(filepath.Join(dir, "cue.mod"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := design.EvaluateHere(os.DirFS(dir), "")
	var wrong strings.Builder
	for _, f := range r.Findings {
		if f.Severity == site.SeverityError {
			wrong.WriteString(f.String() + "\n")
		}
	}
	return r.Site, wrong.String()
}

func link(name string, l item.Link) item.Item { return item.New("links."+name, l.Fields(), l) }

// machine is a node with a bond of two ports, a VLAN and a bridge.
func machine(n, mac string) []item.Item {
	return []item.Item{
		link("eno1", item.Link{Kind: "ethernet", MAC: mac + ":01", MTU: 9000}),
		link("eno2", item.Link{Kind: "ethernet", MAC: mac + ":02", MTU: 9000}),
		link("eno3", item.Link{Kind: "ethernet", MAC: mac + ":03"}),
		link("bond0", item.Link{
			Kind: "bond", MTU: 9000, Members: []string{"eno1", "eno2"}, Addresses: []string{"10.1.0." + n + "/24"}, Servers: []string{"10.1.0.2"}, Search: []string{"example.org"},
			Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}, {To: "10.8.0.0/16", Via: "10.1.0.254", Metric: 50}},
			Bond:   &item.Bond{Mode: "802.3ad", LACPRate: "fast", HashPolicy: "layer3+4", Monitor: 100, UpDelay: 200, MinLinks: 1},
		}),
		link("bond0.20", item.Link{Kind: "vlan", Parent: "bond0", VLAN: 20, MTU: 9000, Addresses: []string{"10.2.0." + n + "/24"}}),
		link("br0", item.Link{Kind: "bridge", Members: []string{"eno3"}, STP: true, Addresses: []string{"10.3.0." + n + "/24"}}),
	}
}

// A network that was found becomes a design that asks for the same network.
func TestTakesTheNetworkOver(t *testing.T) {
	s, wrong := evaluated(t, map[string]string{"site.cue": wiredSite})
	if wrong != "" {
		t.Fatal(wrong)
	}
	takeover := author.Takeover{Package: "x", Site: s, Drop: map[string]map[site.Facet]map[string]string{}, Found: map[string]map[site.Facet]item.Found{
		"w-1": {site.FacetNetwork: {Items: machine("11", "52:54:00:00:01")}},
		"w-2": {site.FacetNetwork: {Items: machine("12", "52:54:00:00:02")}},
	}}
	draft := takeover.CUE()
	if len(draft.Left) > 0 {
		t.Errorf("left is %+v", draft.Left)
	}
	got, wrong := evaluated(t, map[string]string{"site.cue": wiredSite, "inside.cue": string(draft.Text)})
	if wrong != "" {
		t.Fatalf("%s\n%s", wrong, draft.Text)
	}
	for node, items := range map[string][]item.Item{"w-1": machine("11", "52:54:00:00:01"), "w-2": machine("12", "52:54:00:00:02")} {
		if diff := cmp.Diff(item.Values(items), item.Values(got.Nodes[node].Items(site.FacetNetwork))); diff != "" {
			t.Errorf("%s: %s\n%s", node, diff, draft.Text)
		}
	}
	if strings.Count(string(draft.Text), "bonding:") != 1 {
		t.Errorf("two nodes have one link:\n%s", draft.Text)
	}
}

// Several addresses, announced ones, shared ones and routes of one node alone are said,
// and the design asks for the same again.
func TestTakesOverWhatIsOfOneNode(t *testing.T) {
	shares := wiredSite + `
networks: mgmt: {cidr: "10.1.0.0/24", shared: api: address: "10.1.0.5"}
nodes: "w-2": {addresses: mgmt: "10.1.0.12", interfaces: eth0: {mac: "52:54:00:00:01:12", networks: ["mgmt"]}}
`
	s, wrong := evaluated(t, map[string]string{"site.cue": shares})
	if wrong != "" {
		t.Fatal(wrong)
	}
	one := item.Link{Kind: "ethernet", MAC: "52:54:00:00:01:11", SLAAC: true, Addresses: []string{"10.1.0.11/24", "10.1.0.5/24", "10.1.0.21/24", "fd00:5::11/64"},
		Routes: []item.Route{{To: "10.8.0.0/16", Via: "10.1.0.254"}}}
	found := link("eth0", one)
	found.Fields["leased"] = "fd00:5::5054:ff:fe00:1/64"
	takeover := author.Takeover{Package: "x", Site: s, Drop: map[string]map[site.Facet]map[string]string{}, Found: map[string]map[site.Facet]item.Found{
		"w-1": {site.FacetNetwork: {Items: []item.Item{found}}}}}
	draft := takeover.CUE()
	if len(draft.Left) > 0 {
		t.Errorf("left is %+v", draft.Left)
	}
	got, wrong := evaluated(t, map[string]string{"site.cue": shares, "inside.cue": string(draft.Text)})
	if wrong != "" {
		t.Fatalf("%s\n%s", wrong, draft.Text)
	}
	one.Addresses = slices.DeleteFunc(one.Addresses, func(a string) bool { return a == "10.1.0.5/24" }) // another node may have it by then
	one.Shared = []string{"10.1.0.5"}
	if diff := cmp.Diff(item.Values([]item.Item{link("eth0", one)}), item.Values(got.Nodes["w-1"].Items(site.FacetNetwork))); diff != "" {
		t.Errorf("%s\n%s", diff, draft.Text)
	}
}

// A machine with a default route of each family keeps both, whichever networks beside have a
// gateway. What no primary network can say is told.
func TestTakesBothDefaultRoutesOver(t *testing.T) {
	way := func(to, via string) item.Route { return item.Route{To: to, Via: via} }
	port := func(n int, addresses []string, routes ...item.Route) item.Item {
		return link(fmt.Sprintf("eth%d", n), item.Link{Kind: "ethernet", MAC: fmt.Sprintf("52:54:00:00:01:%02d", n), Addresses: addresses, Routes: routes})
	}
	others := "\nnetworks: {lan2: {cidr: \"10.4.0.0/24\", gateway: \"10.4.0.1\"}, lan6: {cidr: \"fd00:2::/64\", gateway: \"fd00:2::1\"}}\n"
	for name, c := range map[string]struct {
		items   []item.Item
		primary string
		beside  string // of the design
		why     string
	}{
		"one of each": {[]item.Item{port(0, []string{"10.1.0.11/24", "fd00:1::11/64"}, way("0.0.0.0/0", "10.1.0.1"), way("::/0", "fd00:1::1"))}, "", "", ""},
		"two of each": {[]item.Item{port(0, []string{"10.1.0.11/24", "fd00:1::11/64"}, way("0.0.0.0/0", "10.1.0.1"), way("::/0", "fd00:1::1")),
			port(1, []string{"10.4.0.11/24", "fd00:2::11/64"})}, "net-10-1-0-0-24", "", ""},
		"two of IPv6": {[]item.Item{port(0, []string{"10.1.0.11/24"}, way("0.0.0.0/0", "10.1.0.1")),
			port(1, []string{"fd00:1::11/64"}, way("::/0", "fd00:1::1")), port(2, []string{"fd00:2::11/64"})}, "net-fd00-1-64", "", ""},
		"on two interfaces": {[]item.Item{port(0, []string{"10.1.0.11/24", "fd00:3::11/64"}, way("0.0.0.0/0", "10.1.0.1")),
			port(1, []string{"10.4.0.11/24", "fd00:2::11/64"}, way("::/0", "fd00:2::1")), port(2, []string{"fd00:1::11/64"})}, "",
			"networks: net6: {cidr: \"fd00:1::/64\", gateway: \"fd00:1::1\"}\n", "no primary network says so"},
	} {
		s, wrong := evaluated(t, map[string]string{"site.cue": wiredSite + others + c.beside})
		if wrong != "" {
			t.Fatal(wrong)
		}
		draft := author.Takeover{Package: "x", Site: s, Drop: map[string]map[site.Facet]map[string]string{}, Found: map[string]map[site.Facet]item.Found{"w-1": {site.FacetNetwork: {Items: c.items}}}}.CUE()
		if c.why != "" {
			if len(draft.Left) != 1 || !strings.Contains(draft.Left[0].Why, c.why) {
				t.Errorf("%s: left is %+v\n%s", name, draft.Left, draft.Text)
			}
			continue
		}
		got, wrong := evaluated(t, map[string]string{"site.cue": wiredSite + others + c.beside, "inside.cue": string(draft.Text)})
		if wrong != "" || len(draft.Left) > 0 {
			t.Errorf("%s: %+v %s\n%s", name, draft.Left, wrong, draft.Text)
			continue
		}
		if diff := cmp.Diff(item.Values(c.items), item.Values(got.Nodes["w-1"].Items(site.FacetNetwork))); diff != "" || got.Nodes["w-1"].PrimaryNetwork != c.primary {
			t.Errorf("%s: primary %q, %s\n%s", name, got.Nodes["w-1"].PrimaryNetwork, diff, draft.Text)
		}
	}
}

// What a design cannot say of a network is told, and nothing of that node is written;
// the other's is.
func TestTellsWhatANetworkCannotBe(t *testing.T) {
	s, wrong := evaluated(t, map[string]string{"site.cue": wiredSite})
	if wrong != "" {
		t.Fatal(wrong)
	}
	address := func(all ...string) []item.Item {
		return []item.Item{link("eth0", item.Link{Kind: "ethernet", MAC: "52:54:00:00:01:01", Addresses: all})}
	}
	for name, c := range map[string]struct {
		items []item.Item
		says  string
	}{
		"two addresses": {append(address("10.1.0.11/24"), link("eth1", item.Link{Kind: "ethernet", Addresses: []string{"10.1.0.12/24"}})), "two addresses in the network"},
		"both ways": {append(address("fd00:5::1/64"), item.New("links.eth1", map[string]string{"leased": "fd00:5::2/64"}, item.Link{Kind: "ethernet", SLAAC: true})),
			"some interfaces in the network net-fd00-5-64 listen"},
		"a part":         {address("10.9.0.99/25"), "over the same addresses"},
		"another":        {address("10.9.0.99/24"), "the design gives the node 10.9.0.11 there"},
		"a far gateway":  {[]item.Item{link("eth0", item.Link{Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.5.0.1"}}})}, "which is in no network"},
		"a lease":        {[]item.Item{item.New("links.eth0", map[string]string{"leased": "10.1.0.77/24"}, item.Link{Kind: "ethernet", DHCP4: true})}, "by DHCP"},
		"advertisements": {[]item.Item{link("eth0", item.Link{Kind: "ethernet", SLAAC: true})}, "router advertisements"},
		"no body":        {[]item.Item{item.New("links.eth0", nil, nil)}, "did not report all of it"},
	} {
		t.Run(name, func(t *testing.T) {
			takeover := author.Takeover{Package: "x", Site: s, Drop: map[string]map[site.Facet]map[string]string{}, Found: map[string]map[site.Facet]item.Found{
				"w-1": {site.FacetNetwork: {Items: c.items}}, "w-2": {site.FacetNetwork: {Items: address("10.7.0.5/24")}},
			}}
			d := takeover.CUE()
			if len(d.Left) != 1 || d.Left[0].Node != "w-1" || !strings.Contains(d.Left[0].Why, c.says) {
				t.Errorf("left is %+v, want %q", d.Left, c.says)
			}
			if text := string(d.Text); strings.Contains(text, `"w-1":`) || !strings.Contains(text, "10.7.0.5") || strings.Contains(text, `cidr: "10.1.0.0/24"`) {
				t.Errorf("got\n%s", text)
			}
		})
	}
}

// What systems tell never becomes another text of the design than a value: whatever is
// in it, the file is one that CUE reads, and what nobody sees is left out.
func TestHostileFindings(t *testing.T) {
	s, _ := evaluated(t, map[string]string{"site.cue": wiredSite})
	text := "[Service]\nExecStart=/bin/echo \"\"\" \\(profiles) #\"\n"
	hidden := "[Service]\n# \u202e\n"
	found := item.Found{Items: []item.Item{
		item.New("units.a.service", map[string]string{"enabled": "true"}, item.Unit{Content: &text}),
		item.New("units.b.service", map[string]string{"enabled": "true"}, item.Unit{Content: &hidden}),
		item.New("sysctl.kernel.core_pattern", map[string]string{"": `|/bin/x \(1) "q" %p`}, nil),
	}}
	found.Leave("a\nb */", "because\nnodes: x: 1")
	d := author.Takeover{Package: "x", Site: s, Drop: map[string]map[site.Facet]map[string]string{}, Found: map[string]map[site.Facet]item.Found{"w-1": {site.FacetConfig: found}}}.CUE()
	got, wrong := evaluated(t, map[string]string{"site.cue": wiredSite, "inside.cue": string(d.Text)})
	if wrong != "" {
		t.Fatalf("%s\n%s", wrong, d.Text)
	}
	system := got.Nodes["w-1"].System
	if u := system.Units["a.service"]; u.Content == nil || *u.Content != text || len(system.Units) != 1 || site.SettingText(system.Sysctl["kernel.core_pattern"]) != `|/bin/x \(1) "q" %p` {
		t.Errorf("got %+v\n%s", system, d.Text)
	}
}
