package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What a departed node still has, nobody takes: its machine, its endpoint, its
// addresses and its MAC addresses.
func TestNewcomerTakesNothing(t *testing.T) {
	gone := site.Reach{
		Manager:   site.Endpoint{URL: "redfish+https://10.0.0.1/redfish/v1/Systems/1?a=b"},
		Machine:   site.Identity{UUID: "u1", Serial: "s1"},
		Addresses: map[string]string{"os": "10.0.1.1", "dhcp": site.AddressDHCP, "any": site.AddressAllocate},
		MACs:      []string{"aa", "bb"},
	}
	serial := gone
	serial.Machine = site.Identity{Serial: "s1"}
	slot := gone
	slot.Machine = site.Identity{Serial: "s1", Slot: "1"}
	for name, c := range map[string]struct {
		own, gone site.Reach
		want      string
	}{
		"nothing in common": {site.Reach{Machine: site.Identity{UUID: "u2"}}, gone, ""},
		"nothing at all":    {site.Reach{}, site.Reach{}, ""},
		"the UUID":          {site.Reach{Machine: site.Identity{UUID: "u1"}}, gone, "UUID u1"},
		"the UUID of a real machine": {site.Reach{Machine: site.Identity{UUID: "00112233-4455-6677-8000-000000000001"}},
			site.Reach{Machine: site.Identity{UUID: "00112233-4455-6677-8000-000000000001"}}, "the machine (UUID 00112233"},
		"a serial, and none": {site.Reach{Machine: site.Identity{Serial: "s1"}}, site.Reach{Machine: site.Identity{MAC: "m2"}}, ""},
		"the UUID turned round": {site.Reach{Machine: site.Identity{UUID: "33221100-5544-7766-8000-000000000001"}},
			site.Reach{Machine: site.Identity{UUID: "00112233-4455-6677-8000-000000000001"}}, "the machine (UUID 33221100"},
		"the port of its identity":         {site.Reach{Machine: site.Identity{MAC: "aa"}}, gone, "the MAC address aa"},
		"its serial alone":                 {site.Reach{Machine: site.Identity{Serial: "s1"}}, gone, "serial s1"},
		"the serial of both":               {site.Reach{Machine: site.Identity{UUID: "u2", Serial: "s1"}}, serial, "serial s1"},
		"a shared serial":                  {site.Reach{Machine: site.Identity{UUID: "u2", Serial: "s1"}}, gone, ""},
		"another slot":                     {site.Reach{Machine: site.Identity{Serial: "s1", Slot: "2"}}, slot, ""},
		"the same slot":                    {site.Reach{Machine: site.Identity{Serial: "s1", Slot: "1"}}, slot, "serial s1"},
		"another serial":                   {site.Reach{Machine: site.Identity{Serial: "s2"}}, serial, ""},
		"the endpoint":                     {site.Reach{Manager: site.Endpoint{URL: "redfish+https://10.0.0.1/redfish/v1/Systems/1?a=b"}}, gone, "the endpoint"},
		"the endpoint in another spelling": {site.Reach{Manager: site.Endpoint{URL: "redfish+https://10.0.0.1:443/redfish/v1/Systems/1/?a=b"}}, gone, "the endpoint"},
		"another host":                     {site.Reach{Manager: site.Endpoint{URL: "redfish+https://10.0.0.2/redfish/v1/Systems/1?a=b"}}, gone, ""},
		"another system":                   {site.Reach{Manager: site.Endpoint{URL: "redfish+https://10.0.0.1/redfish/v1/Systems/2?a=b"}}, gone, ""},
		"another query":                    {site.Reach{Manager: site.Endpoint{URL: "redfish+https://10.0.0.1/redfish/v1/Systems/1?a=c"}}, gone, ""},
		"an address":                       {site.Reach{Addresses: map[string]string{"os": "10.0.1.1"}}, gone, "the address 10.0.1.1 in the network os"},
		"another address":                  {site.Reach{Addresses: map[string]string{"os": "10.0.1.2"}}, gone, ""},
		"another network":                  {site.Reach{Addresses: map[string]string{"bmc": "10.0.1.1"}}, gone, ""},
		"DHCP as well":                     {site.Reach{Addresses: map[string]string{"dhcp": site.AddressDHCP}}, gone, ""},
		"any address too":                  {site.Reach{Addresses: map[string]string{"any": site.AddressAllocate}}, gone, ""},
		"a MAC address":                    {site.Reach{MACs: []string{"cc", "bb"}}, gone, "the MAC address bb"},
		"other MACs":                       {site.Reach{MACs: []string{"cc"}}, gone, ""},
	} {
		if got := shared(c.own, c.gone); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func held(r site.Reach) site.Reach { r.Held = true; return r }

func TestWhoseThingsAreTaken(t *testing.T) {
	n := &site.Node{Name: "n1", Identity: site.Identity{UUID: "u1"}}
	s := &site.Site{Name: "s", Nodes: map[string]*site.Node{"n1": n, "back": {}, "paused": {Paused: &site.Hold{}}, "away": {Away: "sent in"}}}
	same, other := site.Reach{Machine: site.Identity{UUID: "u1"}}, site.Reach{Machine: site.Identity{UUID: "u2"}}
	for name, c := range map[string]struct {
		gone map[string]site.Reach
		want string
	}{
		"nobody has left":              {nil, ""},
		"one that has left":            {map[string]site.Reach{"a": other, "old": same}, "of old, which left"},
		"its own":                      {map[string]site.Reach{"n1": same}, ""},
		"one that has come back":       {map[string]site.Reach{"back": same}, ""},
		"own and another's":            {map[string]site.Reach{"n1": same, "old": same}, "of old, which left"},
		"it has other things":          {map[string]site.Reach{"old": other}, ""},
		"one that is held":             {map[string]site.Reach{"back": held(same)}, "of back, which is paused, away or quarantined and still has it"},
		"held, with other things":      {map[string]site.Reach{"back": held(other)}, ""},
		"one that the design pauses":   {map[string]site.Reach{"paused": same}, "n1 waits until Slipway acts on paused again"},
		"one that the design has away": {map[string]site.Reach{"away": same}, "until Slipway acts on away again"},
	} {
		if got := takesFrom(s, n, c.gone); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	// A design that has lost its own copy of the node is judged by the name.
	if got := takesFrom(&site.Site{}, n, map[string]site.Reach{"n1": same}); got != "" {
		t.Errorf("a node takes from itself: %q", got)
	}
}

// A machine under quarantine is switched off, also while another node that is held has something of its node.
func TestQuarantineDoesNotWaitForWhatOthersHave(t *testing.T) {
	for name, change := range map[string]func(n *site.Node){
		"one address": func(n *site.Node) { n.Addresses = map[string]string{"os": "10.0.0.1"} },
		"one BMC": func(n *site.Node) {
			n.Endpoints = map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "https://10.9.0.1"}}
		},
		"moved": func(n *site.Node) { n.Identity, n.Moved = site.Identity{UUID: "u2"}, site.Identity{UUID: "u1"} },
	} {
		for holder, theirs := range map[string]*site.Node{"paused": {Name: "a", Paused: &site.Hold{}}, "quarantined": {Name: "a"}, "left": nil} {
			n := &site.Node{Name: "n1", Identity: site.Identity{UUID: "u1"}}
			change(n)
			s := &site.Site{Name: "s", Nodes: map[string]*site.Node{"n1": n}}
			if theirs != nil {
				s.Nodes["a"] = theirs
			}
			had := held(site.Reach{Manager: site.Endpoint{URL: "https://10.9.0.1"}, Addresses: map[string]string{"os": "10.0.0.1"}})
			if n.Moved.Known() {
				had.Machine = n.Moved
			}
			m := site.Memory{Observed: site.Observed{Identity: site.Identity{UUID: "u1"}, Facets: map[site.Facet]site.FacetState{site.FacetPower: {Seen: lookedAt, Have: site.Values{"state": "on"}}}}}
			m.Recorded.Adopted = &site.Adoption{Machine: n.Identity}
			known := site.Known{Nodes: map[string]site.Memory{"n1": m}, Reach: map[string]site.Reach{"a": had}}
			if p := Node(s, n, known); len(p.Blocked) == 0 || len(p.Steps) != 0 {
				t.Errorf("%s, %s: without a quarantine %+v", name, holder, p)
			}
			m.Recorded.Quarantined = &site.Hold{By: "ann", Reason: "a shell"}
			known.Nodes["n1"] = m
			if p := Node(s, n, known); len(p.Blocked) != 0 || len(p.Steps) != 1 || p.Steps[0].Facet != site.FacetPower {
				t.Errorf("%s, %s: blocked %q, steps %+v", name, holder, p.Blocked, p.Steps)
			}
			m.Observed.Identity.UUID = "u3"
			known.Nodes["n1"] = m
			if p := Node(s, n, known); len(p.Blocked) == 0 || len(p.Steps) != 0 {
				t.Errorf("%s, %s: another machine answers, and the plan is %+v", name, holder, p)
			}
		}
	}
}

var lookedAt = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestWhichSystemAnswers(t *testing.T) {
	s := &site.Site{Name: "lab"}
	n := &site.Node{Name: "n1", Generation: 2, Image: "debian"}
	answers := func(mk *site.Marker, i *site.Installation) site.Memory {
		return site.Memory{
			Recorded: site.Recorded{Installed: i},
			Observed: site.Observed{Marker: mk, Facets: map[site.Facet]site.FacetState{site.FacetOS: {Seen: lookedAt}}},
		}
	}
	good := func(change func(*site.Marker)) *site.Marker {
		m := &site.Marker{Site: "lab", Node: "n1", Generation: 2, Image: "aaaaaaaaaaaaaaaa"}
		change(m)
		return m
	}
	same := func(*site.Marker) {}
	ours := func(change func(*site.Installation)) *site.Installation {
		i := &site.Installation{Generation: 2, Image: "aaaaaaaaaaaaaaaa", Since: lookedAt, Reported: true}
		change(i)
		return i
	}
	reported := ours(func(*site.Installation) {})
	silent := ours(func(i *site.Installation) { i.Reported = false })
	accepted := func(mk *site.Marker) *site.Installation {
		return ours(func(i *site.Installation) { i.Accepted = mk.Digest() })
	}
	foreign := good(func(m *site.Marker) { m.Node = "n2" })
	unread := answers(foreign, accepted(foreign))
	unread.Observed.MarkerUnread = "no permission"
	underWay := answers(foreign, reported)
	underWay.Recorded.Installing = &site.Installation{Generation: 1}
	nobody := answers(foreign, reported)
	nobody.Observed.Facets = nil
	for name, c := range map[string]struct {
		m    site.Memory
		want string
	}{
		"ours":                   {answers(good(same), reported), ""},
		"nobody has looked":      {nobody, ""},
		"it is being installed":  {underWay, ""},
		"accepted":               {answers(foreign, accepted(foreign)), ""},
		"another was accepted":   {answers(foreign, accepted(good(same))), `node "n2"`},
		"accepted, and not read": {unread, "was not read: no permission"},
		"no marker any more":     {answers(nil, reported), "has no marker"},
		"there never was one":    {answers(nil, silent), ""},
		"no marker, no record":   {answers(nil, nil), ""},
		"another site's":         {answers(good(func(m *site.Marker) { m.Site = "x" }), reported), `of site "x"`},
		"it names no site":       {answers(good(func(m *site.Marker) { m.Site = "" }), reported), ""},
		"another node's":         {answers(foreign, reported), `node "n2"`},
		"another's, no record":   {answers(foreign, nil), `node "n2"`},
		"generation 0":           {answers(good(func(m *site.Marker) { m.Generation = 0 }), reported), "no design can ask for"},
		"too high":               {answers(good(func(m *site.Marker) { m.Generation = site.MaxGeneration + 1 }), nil), "no design can ask for"},
		"the highest there is":   {answers(good(func(m *site.Marker) { m.Generation = site.MaxGeneration }), nil), ""},
		"the first, no record":   {answers(good(func(m *site.Marker) { m.Generation = 1 }), nil), ""},
		"a later one":            {answers(good(func(m *site.Marker) { m.Generation = 3 }), silent), "2 is the last that is recorded"},
		"an earlier one":         {answers(good(func(m *site.Marker) { m.Generation = 1 }), reported), "was installed on 2026-11-22"},
		"an earlier one, silent": {answers(good(func(m *site.Marker) { m.Generation = 1 }), silent), ""},
		"another image":          {answers(good(func(m *site.Marker) { m.Image = "bbbbbbbbbbbbbbbb" }), reported), "from image bbbbbbbbbbbb; generation 2 from image aaaaaaaaaaaa was"},
		"another image, silent":  {answers(good(func(m *site.Marker) { m.Image = "b" }), silent), ""},
		"a short image":          {answers(good(func(m *site.Marker) { m.Image = "b" }), reported), "from image b;"},
	} {
		if got := otherSystem(s, n, c.m); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWhatASystemClaims(t *testing.T) {
	n := &site.Node{Name: "n1", Generation: 2, Image: "debian"}
	says := func(node string, generation int) site.Memory {
		return site.Memory{Observed: site.Observed{
			Marker: &site.Marker{Node: node, Generation: generation},
			Facets: map[site.Facet]site.FacetState{site.FacetOS: {Seen: lookedAt}},
		}}
	}
	for name, c := range map[string]struct {
		m        site.Memory
		claims   bool
		unproven bool
	}{
		"as designed":   {says("n1", 2), true, true},
		"later":         {says("n1", 3), true, true},
		"earlier":       {says("n1", 1), true, false},
		"none":          {says("n1", 0), false, false},
		"the highest":   {says("n1", site.MaxGeneration), true, true},
		"too high":      {says("n1", site.MaxGeneration+1), false, false},
		"another node":  {says("n2", 2), false, false},
		"nothing there": {site.Memory{}, false, false},
	} {
		if claims(n, c.m) != c.claims || (unproven(n, c.m) != "") != c.unproven {
			t.Errorf("%s: claims %t, unproven %q", name, claims(n, c.m), unproven(n, c.m))
		}
		want := 2
		if c.claims {
			want = c.m.Observed.Marker.Generation
		}
		if got := AcceptedGeneration(n, c.m); got != want {
			t.Errorf("%s: accepted as generation %d, want %d", name, got, want)
		}
		c.m.Recorded.Installed = &site.Installation{Generation: 5}
		if unproven(n, c.m) != "" {
			t.Errorf("%s: unproven although it is recorded", name)
		}
		if got := AcceptedGeneration(n, c.m); !c.claims && got != 5 {
			t.Errorf("%s: accepted as generation %d, want the recorded one", name, got)
		}
	}
}

func TestWhatAnInstallationDestroys(t *testing.T) {
	s := &site.Site{Name: "lab"}
	n := &site.Node{Name: "n1", Generation: 1, Image: "debian"}
	looked := map[site.Facet]site.FacetState{site.FacetOS: {Seen: lookedAt}}
	for want, m := range map[string]site.Memory{
		` (Slipway has never seen what runs there)`:    {},
		`, with the system that runs there`:            {Observed: site.Observed{Facets: looked}},
		`, with a system that says it is generation 1`: {Observed: site.Observed{Facets: looked, Marker: &site.Marker{Site: "lab", Node: "n1", Generation: 1}}},
		`, with the system of node "n1" of site "x"`:   {Observed: site.Observed{Facets: looked, Marker: &site.Marker{Site: "x", Node: "n1", Generation: 1}}},
		`, with the system of node "n2"`:               {Observed: site.Observed{Facets: looked, Marker: &site.Marker{Node: "n2", Generation: 1}}},
		``:                                             {Observed: site.Observed{Facets: looked}, Recorded: site.Recorded{Installed: &site.Installation{Generation: 1}}},
		`, with the system of node "n1" of site "lab"`: {Observed: site.Observed{Facets: looked, Marker: &site.Marker{Site: "lab", Node: "n1", Generation: 2}},
			Recorded: site.Recorded{Installed: &site.Installation{Generation: 1}}},
	} {
		if got := whatRuns(s, n, m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := unseen(m); got != strings.Contains(want, "never seen") {
			t.Errorf("%q: unseen is %v: no system is waited for to shut down there", want, got)
		}
	}
	reported := site.Recorded{Installed: &site.Installation{Generation: 1, Reported: true}}
	for name, m := range map[string]site.Memory{
		"a system without a marker":        {Observed: site.Observed{Facets: looked}, Recorded: reported},
		"a higher generation, of no site":  {Observed: site.Observed{Facets: looked, Marker: &site.Marker{Node: "n1", Generation: 2}}, Recorded: reported},
		"another's marker during its work": {Observed: site.Observed{Facets: looked, Marker: &site.Marker{Node: "n2", Generation: 1}}, Recorded: site.Recorded{Installing: &site.Installation{Generation: 1}}},
	} {
		if got := whatRuns(s, n, m); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestDisksOfALoss(t *testing.T) {
	inside := &site.Inside{Disks: []site.Block{{Kind: "disk", Name: "sda"}, {Kind: "part", Serial: "P"}, {Kind: "disk", Serial: "Z"}}}
	told := func(serials ...string) *site.Disks { return &site.Disks{Serials: serials} }
	step := &site.Step{Action: site.ActionInstall}
	for name, c := range map[string]struct {
		inspect string
		o       site.Observed
		want    string
	}{
		"the BMC tells":            {"", site.Observed{Disks: told("S1", "S2"), Inside: inside}, "S1, S2, Z, sda"},
		"both tell of one":         {"", site.Observed{Disks: told("S1", "z"), Inside: inside}, "S1, sda, z"},
		"the BMC tells of some":    {"", site.Observed{Disks: &site.Disks{Serials: []string{"S1"}, Partly: true}}, "S1, and disks that could not be read"},
		"the BMC can read none":    {"", site.Observed{Disks: &site.Disks{Partly: true}}, site.DisksUnknown},
		"nobody has asked":         {"", site.Observed{Inside: inside}, ""},
		"the BMC tells of none":    {"", site.Observed{Disks: told(), Inside: inside}, "Z, sda"},
		"the BMC is never asked":   {inspectNever, site.Observed{Inside: inside}, "Z, sda"},
		"nobody tells":             {"", site.Observed{Disks: told()}, site.DisksUnknown},
		"never asked, none inside": {inspectNever, site.Observed{}, site.DisksUnknown},
	} {
		if got := disksOf(step, &site.Node{Name: "n1", Inspect: c.inspect}, c.o); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A step that has used its approval stays as it was approved, and nothing else
// does.
func TestStepKeepsTheLossThatItUsed(t *testing.T) {
	n := &site.Node{Name: "n1", Generation: 1}
	machine := site.Identity{UUID: "u1"}
	install := site.Step{Node: "n1", Action: site.ActionInstall, Generation: 1, Machine: machine, Impact: site.ImpactDestructive}
	approved := install
	approved.Loses, approved.Disks, approved.Attempt, approved.Records = "what was lost then", "S1", 1, "r1"
	flight := func(change func(*site.InFlight)) *site.InFlight {
		f := site.InFlight{Step: approved, Consumed: true}
		change(&f)
		return &f
	}
	for name, c := range map[string]struct {
		flight *site.InFlight
		keeps  bool
	}{
		"used":               {flight(func(*site.InFlight) {}), true},
		"nothing begun":      {nil, false},
		"not used":           {flight(func(f *site.InFlight) { f.Consumed = false }), false},
		"another step":       {flight(func(f *site.InFlight) { f.Step.Action = site.ActionZeroize }), false},
		"another generation": {flight(func(f *site.InFlight) { f.Step.Generation = 2 }), false},
		"other records":      {flight(func(f *site.InFlight) { f.Step.Records = "r0" }), false},
	} {
		m := site.Memory{
			Account:  site.Account{Records: "r1", Closed: 4},
			Recorded: site.Recorded{InFlight: c.flight},
			Observed: site.Observed{Disks: &site.Disks{Serials: []string{"S2"}}},
		}
		before := site.NodePlan{Steps: []site.Step{install}}
		got := Renumbered(before, n, m).Steps[0]
		if before.Steps[0].Attempt != 0 {
			t.Errorf("%s: the plan before was changed", name)
		}
		want := approved
		if !c.keeps {
			want = install
			want.Disks, want.Attempt, want.Records = "S2", 5, "r1"
		}
		if got.Loses != want.Loses || got.Disks != want.Disks || got.Attempt != want.Attempt || got.Records != want.Records {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	harmless := site.Step{Node: "n1", Action: site.ActionPowerOn}
	complete(&harmless, n, site.Memory{Account: site.Account{Records: "r1"}})
	if harmless.Attempt != 0 || harmless.Records != "" {
		t.Errorf("a step that destroys nothing has %+v", harmless)
	}
}

func TestWhatWaitsForAPerson(t *testing.T) {
	l := site.Loss{Node: "n1", Action: "install generation 1", Generation: 1, Disks: "S1", Attempt: 2, Records: "r1"}
	flight := func(consumed bool, attempt int, records string) site.Recorded {
		return site.Recorded{InFlight: &site.InFlight{Consumed: consumed, Step: site.Step{Attempt: attempt, Records: records}}}
	}
	unread := l
	unread.Disks = ""
	open := map[string]site.Account{"n1": {Entries: []site.LedgerEntry{{Loss: l}}}}
	used := map[string]site.Account{"n1": {Entries: []site.LedgerEntry{{Loss: l, Consumed: lookedAt}}}}
	for name, c := range map[string]struct {
		loss     site.Loss
		recorded site.Recorded
		accounts map[string]site.Account
		waits    bool
	}{
		"nobody has approved it":        {l, site.Recorded{}, nil, true},
		"its disks were not read":       {unread, site.Recorded{}, nil, false},
		"approved":                      {l, site.Recorded{}, open, false},
		"the approval was used":         {l, site.Recorded{}, used, true},
		"it is happening":               {l, flight(true, 2, "r1"), nil, false},
		"begun, the approval not used":  {l, flight(false, 2, "r1"), nil, true},
		"another attempt is happening":  {l, flight(true, 1, "r1"), nil, true},
		"of other records is happening": {l, flight(true, 2, "r0"), nil, true},
	} {
		k := site.Known{Nodes: map[string]site.Memory{"n1": {Recorded: c.recorded}}, Accounts: c.accounts, Records: "r1"}
		set := site.Losses{c.loss}
		if got := Unapproved(set, k); (len(got) == 1) != c.waits || len(set) != 1 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// A node that leaves, or that nobody uses, is brought to the end of the installation
// that is under way; no higher generation is begun on it.
func TestNothingIsInstalledOnWhatLeaves(t *testing.T) {
	for name, change := range map[string]func(*site.Site, *site.Node){
		"stays":          func(*site.Site, *site.Node) {},
		"decommissioned": func(_ *site.Site, n *site.Node) { n.Decommission = true },
		"unused":         func(s *site.Site, n *site.Node) { s.Roles["r"].Enabled = false },
	} {
		for _, under := range []site.Recorded{
			{Installing: &site.Installation{Generation: 2}},
			{InFlight: &site.InFlight{Consumed: true, Sent: true, Step: site.Step{Node: "n1", Action: site.ActionInstall, Impact: site.ImpactDestructive, Generation: 2}}},
		} {
			n := &site.Node{Name: "n1", Identity: site.Identity{UUID: "u1"}, Image: "debian", Role: "r", Generation: 3, Power: "on"}
			s := &site.Site{Nodes: map[string]*site.Node{"n1": n}, Images: map[string]*site.Image{"debian": {SHA256: "d1"}}, Roles: map[string]*site.Role{"r": {Enabled: true}}}
			change(s, n)
			under.Adopted = &site.Adoption{Machine: n.Identity}
			p := Node(s, n, site.Known{Nodes: map[string]site.Memory{"n1": {Recorded: under}}})
			begins := slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Action == site.ActionInstall && s.Generation == 3 })
			if begins != (name == "stays") {
				t.Errorf("%s, %+v: generation 3 is installed: %t", name, under, begins)
			}
			if n.Generation != 3 {
				t.Error("the design was changed")
			}
		}
	}
}

// A quarantine switches the machine off also while a change of its network waits to be confirmed.
func TestQuarantineDoesNotWaitForAConfirmation(t *testing.T) {
	n := &site.Node{Name: "n1", Power: "on", Identity: site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001"}}
	m := site.Memory{
		Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetPower:   {Have: site.Values{"state": "on"}, Seen: lookedAt},
			site.FacetNetwork: {Unconfirmed: true, Seen: lookedAt},
		}},
		Recorded: site.Recorded{
			Quarantined: &site.Hold{By: "eve", Reason: "compromised", Since: lookedAt},
			InFlight:    &site.InFlight{Step: site.Step{Node: "n1", Facet: site.FacetNetwork, Action: site.ActionNetwork, Impact: site.ImpactInterrupts}},
		},
	}
	p := Node(&site.Site{}, n, site.Known{Nodes: map[string]site.Memory{"n1": m}})
	if len(p.Steps) == 0 || p.Steps[0].Action != site.ActionPowerOff || !p.Steps[0].Force {
		t.Errorf("a quarantined machine that is on gets %+v", p.Steps)
	}
}
