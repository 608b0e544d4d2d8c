package incident_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/site"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// shell is an incident of n1, on which Slipway acted at noon.
func shell() *site.IncidentState {
	return &site.IncidentState{Name: "shell", Incident: site.Incident{Nodes: []string{"n1"}}, Acted: noon, Held: noon, Follows: true,
		Nodes: map[string]site.IncidentNode{"n1": {}}}
}

// held is how an incident keeps n1, whose system had generation 1 when Slipway acted, off and released if so.
func held(released bool) site.IncidentNode {
	n := site.IncidentNode{Machine: site.Identity{UUID: "1"}, Generation: 1, Off: noon}
	if released {
		n.Released = noon.Add(time.Hour)
	}
	return n
}

// installed is a system of a generation that has proven itself some minutes after noon.
func installed(generation, minutes int) *site.Installation {
	return &site.Installation{Generation: generation, Since: noon.Add(time.Duration(minutes) * time.Minute), Proven: true, Reported: true, Signed: true}
}

// inGeneration is a delivery to the system of a generation on the machine of held.
func inGeneration(generation int, g site.Delivery) site.Delivery {
	g.Machine, g.Generation = held(false).Machine.String(), generation
	return g
}

// given is a delivery some minutes after noon, and whether it was seen.
func given(secret, version string, to site.Recipient, minutes int, seen bool) site.Delivery {
	g := site.Delivery{Secret: secret, Version: version, To: to, When: noon.Add(time.Duration(minutes) * time.Minute)}
	if seen {
		g.Seen = g.When
	}
	return g
}

// facts are those in which the sources of credentials have some versions.
func facts(present map[string]incident.Present, delivered map[string][]site.Delivery) incident.Facts {
	f := incident.Facts{Now: noon.Add(24 * time.Hour), LoginLife: time.Hour, Delivered: map[string]site.Delivered{},
		Installed: func(string, site.IncidentNode) *site.Installation { return nil },
		Present: func(credential, node string) (incident.Present, bool) {
			p, is := present[credential+"@"+node]
			if !is {
				p, is = present[credential]
			}
			return p, is
		}}
	for holder, all := range delivered {
		f.Delivered[holder] = site.Delivered{Since: noon.Add(-1000 * time.Hour), Given: all}
	}
	return f
}

func of(t *testing.T, all []site.Exposed, secret string) site.Exposed {
	t.Helper()
	i := slices.IndexFunc(all, func(x site.Exposed) bool { return x.Secret == secret })
	if i < 0 {
		t.Fatalf("there is no %q among %+v", secret, all)
	}
	return all[i]
}

func TestReplacedIsWhatWasSeen(t *testing.T) {
	bmc := "credential bmc"
	before := map[string][]site.Delivery{
		"n1": {given(bmc, "k.1", site.ToBMC, -60, true)}, "n2": {given(bmc, "k.1", site.ToBMC, -60, true)}, "n3": {given(bmc, "k.1", site.ToBMC, -60, true)},
	}
	for name, c := range map[string]struct {
		present incident.Present
		after   map[string][]site.Delivery
		want    site.Replaced
		old     string
	}{
		"nothing was done":         {incident.Present{Version: "k.1"}, nil, site.ReplacedNot, ""},
		"only the source":          {incident.Present{Version: "k.2"}, nil, site.ReplacedPartly, "[n1 n2 n3]"},
		"sent, and not seen":       {incident.Present{Version: "k.2"}, map[string][]site.Delivery{"n1": {given(bmc, "k.2", site.ToBMC, 5, false)}, "n2": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n3": {given(bmc, "k.2", site.ToBMC, 5, true)}}, site.ReplacedPartly, "[n1]"},
		"seen everywhere":          {incident.Present{Version: "k.2"}, map[string][]site.Delivery{"n1": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n2": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n3": {given(bmc, "k.2", site.ToBMC, 5, true)}}, site.ReplacedAll, "[]"},
		"the source went on":       {incident.Present{Version: "k.3"}, map[string][]site.Delivery{"n1": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n2": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n3": {given(bmc, "k.3", site.ToBMC, 5, true)}}, site.ReplacedPartly, "[n1 n2]"},
		"a node that left has it":  {incident.Present{Version: "k.2"}, map[string][]site.Delivery{"gone": {given(bmc, "k.1", site.ToBMC, -90, true)}, "n1": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n2": {given(bmc, "k.2", site.ToBMC, 5, true)}, "n3": {given(bmc, "k.2", site.ToBMC, 5, true)}}, site.ReplacedPartly, "[gone]"},
		"the source does not tell": {incident.Present{Err: "the server is down"}, nil, site.ReplacedUnknown, ""},
		"no site key":              {incident.Present{}, nil, site.ReplacedUnknown, ""},
		"another site key":         {incident.Present{Version: "l.1"}, nil, site.ReplacedUnknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i, all := shell(), map[string][]site.Delivery{}
			i.Exposed = incident.Begun(town(), i, facts(map[string]incident.Present{"bmc": {Version: "k.1"}}, before))
			for holder, g := range before {
				all[holder] = append(slices.Clone(g), c.after[holder]...)
			}
			all["gone"] = c.after["gone"]
			f := facts(map[string]incident.Present{"bmc": c.present}, all)
			i.Exposed = incident.Noted(town(), i, f)
			judged := incident.Judged(town(), i, f)
			if x := of(t, judged, bmc); x.State != c.want || c.old != "" && fmt.Sprint(x.Old) != c.old {
				t.Errorf("%s, old %q, had %v", x.Progress(), x.Old, x.Had)
			}
			if incident.AllClear(i, judged) {
				t.Error("it is all clear while n1 is held")
			}
		})
	}
}

// A secret that was replaced before the incident was declared is not replaced once more where the records know.
func TestReplacedBeforeTheIncident(t *testing.T) {
	f := facts(map[string]incident.Present{"own": {Version: "k.2"}, "bmc": {Version: "k.1"}, "key": {Version: "k.9"}},
		map[string][]site.Delivery{"n1": {given("credential own", "k.1", site.ToSystem, -60, true)}})
	i := shell()
	i.Exposed = incident.Begun(town(), i, f)
	judged := incident.Judged(town(), i, f)
	if x := of(t, judged, "credential own"); x.State != site.ReplacedAll || x.ReadBy() != "n1 (recorded)" {
		t.Errorf("own: %s by %s", x.Progress(), x.ReadBy())
	}
	if x := of(t, judged, "credential bmc"); x.State != site.ReplacedNot || x.ReadBy() != "n1 (assumed: no record says so)" || fmt.Sprint(x.Assumed) != "[n1]" {
		t.Errorf("bmc: %s by %s, %v", x.Progress(), x.ReadBy(), x.Assumed)
	}
	// A record from a backup may lack the value that the source has.
	d := f.Delivered["n1"]
	d.Since = noon.Add(-time.Minute)
	f.Delivered["n1"] = d
	i = shell()
	i.Exposed = incident.Begun(town(), i, f)
	if x := of(t, incident.Judged(town(), i, f), "credential own"); x.State != site.ReplacedNot || len(x.Had["n1"]) != 2 {
		t.Errorf("own after an import: %s, had %v", x.Progress(), x.Had)
	}
}

func TestWhatIsSentToAMachineThatIsOffWasNotRead(t *testing.T) {
	i := shell()
	f := facts(map[string]incident.Present{"bmc": {Version: "k.3"}, "own": {Version: "k.3"}}, map[string][]site.Delivery{"n1": {
		given("credential bmc", "k.1", site.ToBMC, -60, true), given("credential own", "k.1", site.ToSystem, -60, true),
		given("credential bmc", "k.2", site.ToBMC, 1, true), given("credential own", "k.2", site.ToSystem, 1, true),
		given("credential bmc", "k.3", site.ToBMC, 9, true), given("credential own", "k.3", site.ToSystem, 9, true),
	}})
	i.Exposed = incident.Begun(town(), i, f)
	if x := of(t, i.Exposed, "credential own"); len(x.Had["n1"]) != 3 {
		t.Errorf("a machine that is not proven off had %v", x.Had)
	}
	i = shell()
	i.Nodes["n1"] = site.IncidentNode{Off: noon.Add(5 * time.Minute)}
	i.Exposed = incident.Begun(town(), i, f)
	if x := of(t, i.Exposed, "credential own"); fmt.Sprint(x.Had["n1"]) != "[k.1 k.2]" {
		t.Errorf("off at five past: %v", x.Had)
	}
	if x := of(t, i.Exposed, "credential bmc"); fmt.Sprint(x.Had["n1"]) != "[k.1]" {
		t.Errorf("a BMC that keeps it off: %v", x.Had)
	}
}

func TestAPrivateKeyIsNeverSent(t *testing.T) {
	s := town()
	s.Nodes["n1"].Endpoints[site.OS] = site.Endpoint{Credential: "login"}
	f := facts(map[string]incident.Present{"login": {Version: "k.1", Key: true}, "own": {Version: "k.1", Key: true}}, nil)
	i := shell()
	i.Exposed = incident.Begun(s, i, f)
	judged := incident.Judged(s, i, f)
	if x := of(t, judged, "credential login"); x.State != site.NeverSent || x.ReadBy() != "nobody" {
		t.Errorf("login: %s by %s", x.Progress(), x.ReadBy())
	}
	if x := of(t, judged, "credential own"); x.State != site.ReplacedNot { // a key that is put into the system
		t.Errorf("own: %s", x.Progress())
	}
}

func TestDerivedPasswordsAreOfOneMachine(t *testing.T) {
	s := town()
	s.Credentials["bmc"] = &site.Credential{From: site.FromDerived, Account: "slipway", Epoch: 3}
	s.Origins = site.OriginsByPath(map[string]site.Origin{"credentials.bmc.epoch": site.At("site.cue", 7, 9, "")})
	f := facts(map[string]incident.Present{"bmc@n1": {Version: "k.1"}, "bmc@n2": {Version: "k.2"}},
		map[string][]site.Delivery{"n1": {given("credential bmc", "k.1", site.ToBMC, -60, true)}, "n2": {given("credential bmc", "k.2", site.ToBMC, -60, true)}})
	i := shell()
	i.Exposed = incident.Begun(s, i, f)
	x := of(t, incident.Judged(s, i, f), "credential bmc")
	if x.State != site.ReplacedNot || len(x.Holders) != 0 || x.Epoch != 3 || !strings.Contains(x.Do, "Raise `epoch` to 4 in credential bmc of the design (site.cue:7:9)") {
		t.Errorf("%+v", x)
	}
	f.Present = func(_, node string) (incident.Present, bool) {
		return incident.Present{Version: "k.next-" + node}, true
	}
	if x := of(t, incident.Judged(s, i, f), "credential bmc"); x.State != site.ReplacedPartly || fmt.Sprint(x.Old) != "[n1]" {
		t.Errorf("a BMC that has not answered since: %s, old %v", x.Progress(), x.Old)
	}
}

func TestNodesThatHaveLeftKeepAnIncidentOpen(t *testing.T) {
	i := shell()
	i.Incident.Nodes, i.Nodes = []string{"gone"}, map[string]site.IncidentNode{"gone": {Released: noon}}
	i.Exposed = incident.Begun(town(), i, facts(nil, nil))
	if judged := incident.Judged(town(), i, facts(nil, nil)); len(judged) != 1 || judged[0].State != site.ReplacedUnknown || incident.AllClear(i, judged) {
		t.Errorf("%+v", judged)
	}
}

func TestThePlanSaysWhoReadWhat(t *testing.T) {
	before, after := town(), town()
	for s, epoch := range map[*site.Site]int{before: 1, after: 2} {
		s.Credentials["bmc"] = &site.Credential{From: site.FromDerived, Account: "slipway", Epoch: epoch}
	}
	after.Incidents = map[string]site.Incident{"shell": {Nodes: []string{"n1"}, Since: noon, Reason: "a shell"}}
	text := strings.Join(incident.New(before, after, map[string]site.Delivered{"n1": {Given: []site.Delivery{given("credential old", "k.1", site.ToSystem, -60, true)}}}), "\n")
	for _, part := range []string{"until then these nodes get no new password, and nothing is changed in their systems or installed", "credential bmc, read by n1 (assumed: no record says so). This change raises its epoch from 1 to 2", "credential old, read by n1 (recorded)", "credential key, read by n1 (assumed: no record says so), also held by n2. "} {
		if !strings.Contains(text, part) {
			t.Errorf("the plan has no %q:\n%s", part, text)
		}
	}
}

// A system that is released without an installation still has the old password on its disks.
func TestAReleasedSystemKeepsItsPasswordUntilItIsReplaced(t *testing.T) {
	own := "credential own"
	before := inGeneration(1, given(own, "k.1", site.ToSystem, -60, true))
	fresh, stale := given(own, "k.2", site.ToSystem, 70, true), inGeneration(2, given(own, "k.1", site.ToSystem, 81, true))
	unseen, accepted := given(own, "k.2", site.ToSystem, 70, false), installed(2, 80)
	accepted.Accepted = "a marker that a person was asked about"
	for name, c := range map[string]struct {
		node      site.IncidentNode
		after     []site.Delivery
		installed *site.Installation
		want      site.Replaced
	}{
		"off":                          {held(false), nil, nil, site.ReplacedAll},
		"released":                     {held(true), nil, nil, site.ReplacedPartly},
		"sent, and not seen":           {held(true), []site.Delivery{unseen}, nil, site.ReplacedPartly},
		"seen":                         {held(true), []site.Delivery{fresh}, nil, site.ReplacedAll},
		"installed again":              {held(true), nil, installed(2, 80), site.ReplacedAll},
		"installed again with the old": {held(true), []site.Delivery{stale}, installed(2, 80), site.ReplacedPartly},
		"installed with the old, which was sent before the system proved itself": {held(true), []site.Delivery{inGeneration(2, given(own, "k.1", site.ToSystem, 75, false))}, installed(2, 80), site.ReplacedPartly},
		"installed before, then broken":                                          {held(true), nil, installed(1, -80), site.ReplacedPartly},
		"another system that a person accepted":                                  {held(true), nil, accepted, site.ReplacedPartly},
		"the same system found again, after a move or a return":                  {held(true), nil, installed(1, 80), site.ReplacedPartly},
		"a later system that has not proven itself":                              {held(true), nil, &site.Installation{Generation: 2, Since: noon.Add(80 * time.Minute)}, site.ReplacedPartly},
		"not in the design when Slipway acted":                                   {site.IncidentNode{Released: noon.Add(time.Hour)}, nil, installed(2, 80), site.ReplacedPartly},
	} {
		t.Run(name, func(t *testing.T) {
			i := shell()
			i.Nodes["n1"] = c.node
			i.Exposed = incident.Begun(town(), i, facts(map[string]incident.Present{"own": {Version: "k.1"}}, map[string][]site.Delivery{"n1": {before}}))
			f := facts(map[string]incident.Present{"own": {Version: "k.2"}}, map[string][]site.Delivery{"n1": append([]site.Delivery{before}, c.after...)})
			f.Installed = func(string, site.IncidentNode) *site.Installation { return c.installed }
			if x := of(t, incident.Judged(town(), i, f), own); x.State != c.want {
				t.Errorf("%s, old %q, new %q", x.Progress(), x.Old, x.New)
			}
		})
	}
}

// A BMC keeps its passwords when the system is installed again, and also one of which there is no record.
func TestABMCWithoutRecordsMayHaveTheOldValue(t *testing.T) {
	i := shell()
	i.Nodes["n1"] = held(true)
	i.Exposed = incident.Begun(town(), i, facts(map[string]incident.Present{"bmc": {Version: "k.1"}}, nil))
	others := map[string][]site.Delivery{}
	for _, name := range []string{"n2", "n3"} {
		others[name] = []site.Delivery{given("credential bmc", "k.2", site.ToBMC, 5, true)}
	}
	f := facts(map[string]incident.Present{"bmc": {Version: "k.2"}}, others)
	f.Installed = func(string, site.IncidentNode) *site.Installation { return installed(2, 80) }
	if x := of(t, incident.Judged(town(), i, f), "credential bmc"); x.State != site.ReplacedPartly || fmt.Sprint(x.Old) != "[n1]" {
		t.Errorf("released, and installed again: %s, old %q", x.Progress(), x.Old)
	}
	i.Nodes["n1"] = held(false)
	if x := of(t, incident.Judged(town(), i, f), "credential bmc"); x.State != site.ReplacedPartly || fmt.Sprint(x.Old) != "[n1]" {
		t.Errorf("off: %s, old %q", x.Progress(), x.Old)
	}
}

// Nobody knows what was given to a system of which there are no records: it counts as having what the design names.
func TestAReleasedSystemWithoutRecordsMayHaveTheOldValue(t *testing.T) {
	i := shell()
	i.Nodes["n1"] = site.IncidentNode{Off: noon, Released: noon.Add(time.Hour)}
	i.Exposed = incident.Begun(town(), i, facts(map[string]incident.Present{"own": {Version: "k.1"}}, nil))
	f := facts(map[string]incident.Present{"own": {Version: "k.2"}}, nil)
	if x := of(t, incident.Judged(town(), i, f), "credential own"); x.State != site.ReplacedPartly || fmt.Sprint(x.Old) != "[n1]" {
		t.Errorf("%s", x.Progress())
	}
	s := town() // whose account has left the design since
	s.Nodes["n1"].System.Users = nil
	if x := of(t, incident.Judged(s, i, f), "credential own"); x.State != site.ReplacedPartly || fmt.Sprint(x.Old) != "[n1]" {
		t.Errorf("an account that has left the design: %s", x.Progress())
	}
}

// What a search may have sent to a BMC is not its password: nobody waits until it was seen there.
func TestTheCredentialOfASearchIsReplacedAtItsSource(t *testing.T) {
	s := town()
	s.Discovery = &site.Discovery{Credential: "search"}
	i := shell()
	i.Nodes["n1"] = held(true)
	i.Exposed = incident.Begun(s, i, facts(map[string]incident.Present{"search": {Version: "k.1"}}, nil))
	for version, want := range map[string]site.Replaced{"k.1": site.ReplacedNot, "k.2": site.ReplacedAll} {
		if x := of(t, incident.Judged(s, i, facts(map[string]incident.Present{"search": {Version: version}}, nil)), "credential search"); x.State != want {
			t.Errorf("%s: %s, old %q", version, x.Progress(), x.Old)
		}
	}
}

// A machine that got another name, and another credential with it, may keep the account with the old password. Where the
// node that has it now was seen with the new one, the old name says nothing more.
func TestARenamedMachineCountsUnderItsNewName(t *testing.T) {
	s := town()
	s.Nodes["n3"].Endpoints[site.Manager] = site.Endpoint{Credential: "other"}
	s.Nodes["n3"].Identity = site.Identity{UUID: "3"}
	was := given("credential bmc", "k.1", site.ToBMC, -60, true)
	was.Machine = "UUID 3"
	all := map[string][]site.Delivery{"n1": {given("credential bmc", "k.1", site.ToBMC, -60, true), given("credential bmc", "k.2", site.ToBMC, 5, true)},
		"n2": {given("credential bmc", "k.2", site.ToBMC, 5, true)}, "before": {was}}
	i := shell()
	i.Exposed = incident.Begun(s, i, facts(map[string]incident.Present{"bmc": {Version: "k.1"}}, all))
	f := facts(map[string]incident.Present{"bmc": {Version: "k.2"}}, all)
	if x := of(t, incident.Judged(s, i, f), "credential bmc"); x.State != site.ReplacedPartly || fmt.Sprint(x.Old) != "[n3]" {
		t.Errorf("%s, old %q", x.Progress(), x.Old)
	}
	all["n3"] = []site.Delivery{given("credential bmc", "k.2", site.ToBMC, 5, true)}
	if x := of(t, incident.Judged(s, i, facts(map[string]incident.Present{"bmc": {Version: "k.2"}}, all)), "credential bmc"); x.State != site.ReplacedAll {
		t.Errorf("%s, old %q", x.Progress(), x.Old)
	}
	// The node of the incident itself is renamed while it is held.
	i = shell()
	i.Nodes["n1"] = site.IncidentNode{Machine: site.Identity{UUID: "1"}, Off: noon, Released: noon.Add(time.Hour)}
	old, fresh := given("credential bmc", "k.1", site.ToBMC, -60, true), given("credential bmc", "k.2", site.ToBMC, 70, true)
	old.Machine, fresh.Machine = "UUID 1", "UUID 1"
	all = map[string][]site.Delivery{"n1": {old}, "n2": {given("credential bmc", "k.2", site.ToBMC, 5, true)}, "new-1": {fresh}}
	i.Exposed = incident.Begun(s, i, facts(map[string]incident.Present{"bmc": {Version: "k.1"}}, all))
	s.Nodes["new-1"] = s.Nodes["n1"]
	s.Nodes["new-1"].Identity = site.Identity{UUID: "1"}
	delete(s.Nodes, "n1")
	if x := of(t, incident.Judged(s, i, facts(map[string]incident.Present{"bmc": {Version: "k.2"}}, all)), "credential bmc"); x.State != site.ReplacedAll {
		t.Errorf("renamed: %s, old %q", x.Progress(), x.Old)
	}
}

// The secrets of a system count as replaced where a record shows that a later one was given others.
func TestTheSamePassphraseIsNoOtherOne(t *testing.T) {
	passphrase := site.SecretDiskPassphrase
	other, same := inGeneration(2, given(passphrase, "k.2", site.ToSystem, 70, false)), inGeneration(2, given(passphrase, "k.1", site.ToSystem, 70, false))
	accepted := installed(2, 80)
	accepted.Accepted = "none"
	for name, c := range map[string]struct {
		after     []site.Delivery
		installed *site.Installation
		want      site.Replaced
	}{
		"another one":              {[]site.Delivery{other}, installed(2, 80), site.ReplacedAll},
		"the same":                 {[]site.Delivery{same}, installed(2, 80), site.ReplacedNot},
		"none":                     {nil, installed(2, 80), site.ReplacedNot},
		"sent, not yet proven":     {[]site.Delivery{other}, installed(1, -80), site.ReplacedNot},
		"accepted by a person":     {[]site.Delivery{other}, accepted, site.ReplacedNot},
		"the same generation":      {[]site.Delivery{other}, installed(1, 80), site.ReplacedNot},
		"nothing is known of both": {nil, nil, site.ReplacedNot},
	} {
		all := map[string][]site.Delivery{"n1": {inGeneration(1, given(passphrase, "k.1", site.ToSystem, -60, false))}}
		i := shell()
		i.Nodes["n1"] = held(true)
		i.Exposed = incident.Begun(town(), i, facts(nil, all))
		all["n1"] = append(all["n1"], c.after...)
		f := facts(nil, all)
		f.Installed = func(string, site.IncidentNode) *site.Installation { return c.installed }
		if x := of(t, incident.Judged(town(), i, f), passphrase+" of n1"); x.State != c.want {
			t.Errorf("%s: %s", name, x.Progress())
		}
	}
}

func BenchmarkJudged(b *testing.B) {
	const nodes = 10_000
	s := &site.Site{Name: "town", Nodes: map[string]*site.Node{}, Credentials: map[string]*site.Credential{}}
	all := map[string][]site.Delivery{}
	i := shell()
	i.Incident.Nodes = nil
	for n := range nodes {
		name := fmt.Sprintf("n%05d", n)
		s.Nodes[name] = &site.Node{Name: name, Identity: site.Identity{UUID: name}, Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {Credential: "bmc"}, site.OS: {Credential: "os"}}}
		for c := range 5 {
			g := given(fmt.Sprintf("credential c%d", c), "k.1", site.ToSystem, -60, true)
			g.Machine = "UUID " + name
			all[name] = append(all[name], g)
		}
		if n < 50 {
			i.Incident.Nodes = append(i.Incident.Nodes, name)
			i.Nodes[name] = site.IncidentNode{Machine: s.Nodes[name].Machine()}
		}
		if n%10 == 0 { // a machine that had another name
			all["old-"+name] = all[name]
		}
	}
	present := map[string]incident.Present{"bmc": {Version: "k.2"}, "os": {Version: "k.2"}}
	for c := range 5 {
		present[fmt.Sprintf("c%d", c)] = incident.Present{Version: "k.2"}
	}
	f := facts(present, all)
	i.Exposed = incident.Begun(s, i, f)
	for b.Loop() {
		incident.Judged(s, i, f)
	}
}

// A value that was sent and never seen has replaced nothing: the machine may still accept the one before, also when it has
// left the design since.
func TestAValueThatWasOnlySentReplacesNothing(t *testing.T) {
	bmc := "credential bmc"
	old, sent, seen := given(bmc, "k.1", site.ToBMC, -60, true), given(bmc, "k.2", site.ToBMC, 5, false), given(bmc, "k.2", site.ToBMC, 5, true)
	for name, c := range map[string]struct {
		gone []site.Delivery
		want string
	}{
		"sent":                                 {[]site.Delivery{old, sent}, "[gone]"},
		"sent, and the next one too":           {[]site.Delivery{old, sent, given(bmc, "k.3", site.ToBMC, 9, false)}, "[gone]"},
		"seen, and the next one was only sent": {[]site.Delivery{old, seen, given(bmc, "k.3", site.ToBMC, 9, false)}, "[]"},
		"seen":                                 {[]site.Delivery{old, seen}, "[]"},
		"never given the old one":              {[]site.Delivery{sent}, "[]"},
	} {
		i, all := shell(), map[string][]site.Delivery{"gone": {c.gone[0]}}
		for _, node := range []string{"n1", "n2", "n3"} {
			all[node] = []site.Delivery{old}
		}
		i.Exposed = incident.Begun(town(), i, facts(map[string]incident.Present{"bmc": {Version: "k.1"}}, all))
		for _, node := range []string{"n1", "n2", "n3"} {
			all[node] = []site.Delivery{old, seen}
		}
		all["gone"] = c.gone
		if x := of(t, incident.Judged(town(), i, facts(map[string]incident.Present{"bmc": {Version: "k.2"}}, all)), bmc); fmt.Sprint(x.Old) != c.want {
			t.Errorf("%s: %s, old %q, want %s", name, x.Progress(), x.Old, c.want)
		}
	}
}

// A login with the new password says nothing of an account or a file inside that is to have it too, and of which no record
// says that it was ever looked at.
func TestALoginDoesNotReplaceWhatIsInside(t *testing.T) {
	s := town()
	for _, node := range []string{"n1", "n2"} {
		s.Nodes[node].Endpoints[site.OS] = site.Endpoint{Credential: "key"}
	}
	login := func(version string, minutes int) site.Delivery {
		g := given("credential key", version, site.ToSystem, minutes, true)
		g.As = site.AsLogin
		return g
	}
	i := shell()
	i.Nodes["n1"] = held(true)
	all := map[string][]site.Delivery{"n1": {login("k.1", -60)}, "n2": {login("k.1", -60)}}
	i.Exposed = incident.Begun(s, i, facts(map[string]incident.Present{"key": {Version: "k.1"}}, all))
	present := map[string]incident.Present{"key": {Version: "k.2"}}
	all = map[string][]site.Delivery{"n1": {login("k.1", -60), login("k.2", 70)}, "n2": {login("k.1", -60), login("k.2", 5)}}
	if x := of(t, incident.Judged(s, i, facts(present, all)), "credential key"); fmt.Sprint(x.Old) != "[n1 n2]" {
		t.Errorf("logins alone: %s, old %q", x.Progress(), x.Old)
	}
	for node := range all {
		all[node] = append(all[node], given("credential key", "k.2", site.ToSystem, 75, true))
	}
	if x := of(t, incident.Judged(s, i, facts(present, all)), "credential key"); x.State != site.ReplacedAll {
		t.Errorf("and found inside: %s, old %q", x.Progress(), x.Old)
	}
}

// Slipway took the machines over by the account of the factory, and logs in with its own since. The login of before is replaced
// where the password of that very account was set and accepted.
func TestTheNewPasswordOfAnAccountReplacesItsLogin(t *testing.T) {
	as := func(what, user, version, machine string, minutes int, seen bool) site.Delivery {
		g := given("credential bmc", version, site.ToBMC, minutes, seen)
		g.As, g.User, g.Machine = what, user, machine
		return g
	}
	s := town()
	s.Credentials["own"] = &site.Credential{From: site.FromDerived, Account: "slipway", Epoch: 2}
	delete(s.Nodes, "n3")
	for _, n := range s.Nodes {
		n.Endpoints[site.Manager] = site.Endpoint{Credential: "own"}
		n.BMC.Accounts = map[string]site.BMCAccount{"admin": {Credential: "bmc"}}
	}
	const machine = "UUID 1"
	for what, c := range map[string]struct {
		user, as, machine string
		seen              bool
		old               string
	}{
		"set and accepted":            {"admin", site.AsAccount("admin"), machine, true, "[]"},
		"not accepted yet":            {"admin", site.AsAccount("admin"), machine, false, "[n1 n2]"},
		"the login was of another":    {"root", site.AsAccount("admin"), machine, true, "[n1 n2]"},
		"whose login it was":          {"", site.AsAccount("admin"), machine, true, "[n1 n2]"},
		"the account is another":      {"admin", site.AsAccount("root"), machine, true, "[n1 n2]"},
		"on a machine that came anew": {"admin", site.AsAccount("admin"), "UUID 2", true, "[n1 n2]"},
	} {
		i := shell()
		n := held(true)
		n.Machine = site.Identity{}
		i.Nodes["n1"] = n
		all := map[string][]site.Delivery{"n1": {as(site.AsLogin, c.user, "k.1", machine, -60, true)}, "n2": {as(site.AsLogin, c.user, "k.1", machine, -60, true)}}
		i.Exposed = incident.Begun(s, i, facts(map[string]incident.Present{"bmc": {Version: "k.1"}}, all))
		for node := range all {
			all[node] = append(all[node], as(c.as, "", "k.2", c.machine, 70, c.seen))
		}
		x := of(t, incident.Judged(s, i, facts(map[string]incident.Present{"bmc": {Version: "k.2"}}, all)), "credential bmc")
		if fmt.Sprint(x.Old) != c.old || (x.State == site.ReplacedAll) != (c.old == "[]") {
			t.Errorf("%s: %s, old %q", what, x.Progress(), x.Old)
		}
	}
}

// The name of a node of an incident can go to another machine. What is installed there replaces nothing on the first one.
func TestAnotherMachineUnderTheNameReplacesNothing(t *testing.T) {
	passphrase := site.SecretDiskPassphrase
	i := shell()
	i.Nodes["n1"] = held(true)
	before := []site.Delivery{inGeneration(1, given(passphrase, "k.1", site.ToSystem, -60, false))}
	i.Exposed = incident.Begun(town(), i, facts(nil, map[string][]site.Delivery{"n1": before}))
	elsewhere := inGeneration(2, given(passphrase, "k.2", site.ToSystem, 70, false))
	elsewhere.Machine = "UUID 2"
	f := facts(nil, map[string][]site.Delivery{"n1": append(before, elsewhere)})
	f.Installed = func(_ string, n site.IncidentNode) *site.Installation {
		if n.Machine != i.Nodes["n1"].Machine {
			t.Errorf("asked for the machine %s", n.Machine)
		}
		return installed(2, 80)
	}
	if x := of(t, incident.Judged(town(), i, f), passphrase+" of n1"); x.State != site.ReplacedNot {
		t.Errorf("given to another machine: %s", x.Progress())
	}
	f.Delivered["new-1"] = site.Delivered{Since: noon.Add(-1000 * time.Hour), Given: []site.Delivery{inGeneration(2, given(passphrase, "k.2", site.ToSystem, 75, false))}}
	if x := of(t, incident.Judged(town(), i, f), passphrase+" of n1"); x.State != site.ReplacedAll {
		t.Errorf("given to it under another name: %s", x.Progress())
	}
}
