package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// table is a source of secrets by name.
type table map[string]secret.Value

func (t table) Get(r secret.Request) (secret.Value, error) {
	if v, is := t[r.Name]; is {
		return v, nil
	}
	return secret.Value{}, secret.ErrMissing
}

// plainRoot is a site key, from which everything derives the same.
type plainRoot struct{}

func (plainRoot) Derive(_ string, size int) ([]byte, error) { return make([]byte, size), nil }

// known are the secrets that a holder was given, those that were seen with an "!".
func known(e *Engine, holder string) (names []string) {
	if is := e.deliveriesOf(holder).is.Load(); is != nil {
		for _, g := range is.Given {
			name := strings.TrimPrefix(g.Secret, "credential ")
			if !g.Seen.IsZero() {
				name += "!"
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestWhatCountsAsGiven(t *testing.T) {
	e, w := gated(t)
	key := secret.New("", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
	e.Secrets = table{"pw": secret.New("", "canary"), "key": key, "bmc": secret.New("", "canary"), "ann": secret.New("", "canary")}
	get := func(s secret.Source, name string, use secret.Use) {
		t.Helper()
		if _, err := s.Get(secret.Request{Name: name, Use: use}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, want ...string) {
		t.Helper()
		if got := known(e, "n1"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	get(lent{w}, "ann", secret.Account)
	is("a value that was only compared")
	w.lending.begin(t.Context())
	get(lent{w}, "bmc", secret.Redfish)
	is("an account of a BMC that was only compared")
	get(lent{w}, "key", secret.File)
	w.lending.end()
	get(lent{w}, "pw", secret.File)
	is("a key as a file, in a step", "key")
	get(w.loginsTo(t.Context(), w.node, site.OS), "key", secret.SSH)
	get(w.loginsTo(t.Context(), w.node, site.Manager), "bmc", secret.Redfish)
	is("logins", "bmc", "key")

	// What a machine says of other fields proves nothing, and one of two accounts with a password not both.
	j := jobOf(e, w)
	j.node.System.Users = map[string]site.User{"ann": {Password: "ann"}, "bob": {Password: "ann"}}
	says := site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetBase: {Have: site.Values{
		"users.ann.password": item.ValueOf("ann"), "users.bob.password": item.OtherValue, "files./etc/x.owner": item.ValueOf("pw"), "hostname": item.ValueOf("bmc")}}}}
	look := func() {
		t.Helper()
		if err := w.foundInside(t.Context(), j, &says); err != nil {
			t.Fatal(err)
		}
	}
	look()
	is("found in one place of two", "bmc", "key")
	says.Facets[site.FacetBase].Have["users.bob.password"] = item.ValueOf("ann")
	look()
	is("found inside", "ann!", "bmc", "key")

	n := *w.node
	n.BMC.Accounts = map[string]site.BMCAccount{"monitor": {Credential: "monitor"}}
	p := w.passwords(&n)
	if err := p.Begin(t.Context(), "monitor", secret.New("monitor", "canary")); err != nil {
		t.Fatal(err)
	}
	is("a password that is about to be set", "ann!", "bmc", "key", "monitor")
	if err := p.Prove(t.Context(), "monitor", secret.New("monitor", "canary"), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	is("a password that was proven", "ann!", "bmc", "key", "monitor!")
}

// A value of which there is no record is not sent, and that is not taken for a denial.
func TestWhatCannotBeRecordedIsNotSent(t *testing.T) {
	e, w := gated(t)
	e.Secrets = table{"bmc": secret.New("", "canary")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v, err := w.loginsTo(ended, w.node, site.Manager).Get(secret.Request{Name: "bmc"})
	if err == nil || !v.IsZero() || !errors.Is(err, secret.ErrUnavailable) || strings.Contains(err.Error(), "canary") {
		t.Errorf("a login: %v, %v", v, err)
	}
	w.lending.begin(ended)
	if v, err := (lent{w}).Get(secret.Request{Name: "bmc", Use: secret.File}); err == nil || !v.IsZero() {
		t.Errorf("lent: %v, %v", v, err)
	}
	n := *w.node
	n.BMC.Accounts = map[string]site.BMCAccount{"monitor": {Credential: "bmc"}}
	sent := false
	err = w.passwords(&n).Prove(ended, "monitor", secret.New("monitor", "canary"), func() error { sent = true; return nil })
	if err == nil || sent || driver.WasDenied(err) {
		t.Errorf("proving: %v, sent %v", err, sent)
	}
	if w.memory.Recorded.Accounts["monitor"].Tries != 0 {
		t.Error("what was not sent counts as a try")
	}
}

// Slipway reaches a machine, to switch it off for an incident too, while nothing can be recorded: a password that is recorded
// is sent again without a write.
func TestAPasswordThatIsRecordedNeedsNoWrite(t *testing.T) {
	e, w := gated(t)
	var err error
	if e.versions, err = secret.VersionsOf(plainRoot{}, "test"); err != nil {
		t.Fatal(err)
	}
	e.Secrets = table{"bmc": secret.New("", "canary")}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	get := func(ctx context.Context) error {
		_, err := w.loginsTo(ctx, w.node, site.Manager).Get(secret.Request{Name: "bmc"})
		return err
	}
	if get(ended) == nil || get(t.Context()) != nil {
		t.Fatal("the context does not keep anything from being recorded")
	}
	w.memory.Recorded.Installed = &site.Installation{Generation: 7} // a BMC keeps its password
	if err := get(ended); err != nil {
		t.Error(err)
	}
	e.Secrets = table{"bmc": secret.New("", "another")}
	if err := get(ended); err == nil || !strings.Contains(err.Error(), "credential bmc was not sent to n1: Slipway records a secret before it sends it") {
		t.Errorf("another password: %v", err)
	}
}

// The login to a hypervisor goes to it and the node that it runs on, and not to its guest.
func TestLoginToAHypervisorIsItsOwn(t *testing.T) {
	e, w := gated(t)
	e.Secrets = table{"hv": secret.New("", "canary")}
	e.design.Hypervisors = map[string]*site.Hypervisor{"one": {Node: "host"}}
	n := *w.node
	n.Style, n.Virtual.Host.Hypervisor = site.StyleVirtual, "one"
	if _, err := w.loginsTo(t.Context(), &n, site.Manager).Get(secret.Request{Name: "hv"}); err != nil {
		t.Fatal(err)
	}
	for holder, want := range map[string]int{"hypervisor one": 1, "host": 1, "n1": 0} {
		if got := known(e, holder); len(got) != want {
			t.Errorf("%s was given %q", holder, got)
		}
	}
}

// What a source had weeks ago, for an incident that is over, is not what the nodes of a new one had.
func TestSourcesThatNoIncidentFollowsAreForgotten(t *testing.T) {
	e, _ := gated(t)
	e.setPresent(presentKey{"bmc", ""}, incident.Present{Version: "k.1"})
	e.readPresent(t.Context(), e.followed())
	if len(e.present) != 0 {
		t.Errorf("kept: %v", e.present)
	}
}

// A status of a large site is made often: it shows what the loop of the secrets found last.
func TestStatusJudgesNoIncidentAnew(t *testing.T) {
	e, _ := gated(t)
	e.incidents["i"] = site.IncidentState{Name: "shell", ID: "i", Acted: time.Now(), Held: time.Now(), Follows: true, Incident: site.Incident{Nodes: []string{"n1"}},
		Nodes: map[string]site.IncidentNode{"n1": {}}, Exposed: []site.Exposed{{Secret: "credential bmc", Nodes: []string{"n1"}}}}
	shows := func(want string) {
		t.Helper()
		e.mu.Lock()
		defer e.mu.Unlock()
		if x := e.incidentsLocked()[0].Exposed[0]; !strings.Contains(x.Why, want) {
			t.Errorf("%s, want %q", x.Progress(), want)
		}
	}
	shows("has not read its source")
	e.setPresent(presentKey{"bmc", ""}, incident.Present{Err: "the server is down"})
	shows("has not read its source")
	if err := e.noteReplaced(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows("the server is down")
}

// Whoever has left the design may still have what an open incident wants replaced.
func TestAnOpenIncidentForgetsNoDelivery(t *testing.T) {
	e, w := gated(t)
	now := time.Now()
	old := site.Delivery{Secret: "credential bmc", Version: "k.1", When: now.Add(-2 * deliveriesLast)}
	e.restoreDeliveredLocked(map[string]site.Delivered{"gone": {Given: []site.Delivery{old}}})
	i := site.IncidentState{Name: "shell", ID: "i", Acted: now, Follows: true, Incident: site.Incident{Nodes: []string{w.name}},
		Nodes: map[string]site.IncidentNode{w.name: {Released: now}}}
	e.incidents["i"] = i
	if gone := e.holdersGone(now); len(gone) != 0 {
		t.Errorf("forgotten while an incident is open: %v", gone)
	}
	i.Clear = now
	e.incidents["i"] = i
	if gone := e.holdersGone(now); !slices.Equal(gone, []string{"gone"}) {
		t.Errorf("forgotten when it is over: %v", gone)
	}
	d := e.deliveriesOf("gone") // which comes back before it is forgotten
	again := site.Delivery{Secret: "credential bmc", Version: "k.2", When: now}
	if err := errors.Join(d.add(t.Context(), e, "gone", again), d.forget(t.Context(), e, "gone", now)); err != nil || len(known(e, "gone")) != 2 {
		t.Errorf("it was given something meanwhile: %q, %v", known(e, "gone"), err)
	}
	if err := d.forget(t.Context(), e, "gone", now.Add(deliveriesLast)); err != nil || len(known(e, "gone")) != 0 {
		t.Errorf("after as long again: %q, %v", known(e, "gone"), err)
	}
}

// An incident keeps which system each node had, and an installation under way counts as that: what proves itself later with
// the same generation is no later system.
func TestAnIncidentKeepsTheGenerationOfEachNode(t *testing.T) {
	e, w := gated(t)
	w.memory.Recorded.Installed = &site.Installation{Generation: 3}
	is := func(want int) {
		t.Helper()
		nodes, missing := e.nodesOf(site.Incident{Nodes: []string{w.name}})
		if got := nodes[w.name].Generation; got != want || len(missing) != 0 {
			t.Errorf("generation %d, want %d; missing %v", got, want, missing)
		}
	}
	is(3)
	w.memory.Recorded.Installing = &site.Installation{Generation: 4}
	is(4)
	w.memory.Recorded.InFlight = &site.InFlight{Step: site.Step{Action: site.ActionInstall, Generation: 5}}
	is(5)
}
