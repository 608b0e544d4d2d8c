package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Present implements engine.Presenter.
func (c *countedSecrets) Present(name string, _ secret.Of, by secret.Versions) (secret.Present, error) {
	v, err := c.Get(secret.Request{Name: name, Use: "any"})
	return secret.Present{Version: by.Of(site.SecretOfCredential(name), v)}, err
}

// becomes gives the credential of BMCs another value, which the machines accept.
func (w *world) becomes(password string) {
	change := func(secret.Value) secret.Value { return secret.New("admin", password) }
	w.secrets.change.Store(&change)
}

// exposed is a secret of an incident.
func (w *world) exposed(incident, name string) site.Exposed {
	w.t.Helper()
	all := w.incident(incident).Exposed
	i := slices.IndexFunc(all, func(x site.Exposed) bool { return x.Secret == name })
	if i < 0 {
		w.t.Fatalf("incident %s has no secret %q: %+v", incident, name, all)
	}
	return all[i]
}

// has fails the test unless a secret of an incident is in a state.
func (w *world) has(incident, name string, want site.Replaced) site.Exposed {
	w.t.Helper()
	x := w.exposed(incident, name)
	if x.State != want {
		w.t.Errorf("%s: %s (old %q, new %q), want %s", name, x.Progress(), x.Old, x.New, want)
	}
	return x
}

// last is the delivery of a secret to the only place where it is.
func last(d site.Delivered, secret string) (site.Delivery, bool) {
	if all := d.Lasts(secret); len(all) == 1 {
		return all[0], true
	}
	return site.Delivery{}, false
}

// checking is a driver that fails a test when it is opened with a value that the records do not have.
type checking struct {
	driver.Driver
	w       *world
	holders map[string]bool // met with a record
}

func (c *checking) Open(ctx context.Context, e site.Endpoint, v secret.Value) (driver.Machine, error) {
	node := strings.TrimSuffix(strings.TrimPrefix(e.URL, "redfish+https://"), "/redfish/v1/Systems/1")
	for _, g := range c.w.engine.Known().Delivered[node].Given {
		c.holders[node] = c.holders[node] || g.Secret == "credential bmc"
	}
	if !c.holders[node] {
		c.w.t.Errorf("%s is sent a password of which there is no record", node)
	}
	return c.Driver.Open(ctx, e, v)
}

func TestLoginIsRecordedBeforeItIsSent(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		c := &checking{Driver: w.fleet.Driver(), w: w, holders: map[string]bool{}}
		w.bmcs = c
		w.on(w.design(names(2)...), names(2)...)
		if len(c.holders) != 2 {
			t.Errorf("asked: %v", c.holders)
		}
		d := w.engine.Known().Delivered["n1"]
		bmc, is := last(d, "credential bmc")
		system, also := last(d, "credential os")
		if !is || !also || bmc.To != site.ToBMC || system.To != site.ToSystem || bmc.Seen.IsZero() || bmc.Version == "" || bmc.When.After(bmc.Seen) {
			t.Errorf("records: %+v", d)
		}
		// Another daemon on the same records knows it, and writes nothing new.
		w.down()
		w.up()
		w.after(5 * time.Minute)
		if again := w.engine.Known().Delivered["n1"]; fmt.Sprint(again) != fmt.Sprint(d) {
			t.Errorf("after a restart: %+v\nbefore: %+v", again, d)
		}
	}, names(2)...)
}

// A daemon that was killed after the record and before the login has a record of what never left, and no machine
// has what is not recorded.
func TestRecordOutlivesALoginThatWasNotSent(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.bmcs = failing{w.fleet.Driver()}
		w.commit(w.design("n1"))
		w.up()
		w.after(time.Minute)
		w.down()
		w.up()
		w.after(time.Second)
		g, is := last(w.engine.Known().Delivered["n1"], "credential bmc")
		if !is || !g.Seen.IsZero() {
			t.Errorf("record: %+v", g)
		}
	}, "n1")
}

// failing is a driver that ends before anything is sent.
type failing struct{ driver.Driver }

func (failing) Open(context.Context, site.Endpoint, secret.Value) (driver.Machine, error) {
	return nil, errors.New("killed")
}

func TestIncidentFollowsItsSecrets(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(3)...), names(3)...)
		w.do(compromised("shell", "n1"))
		w.after(time.Minute)
		x := w.has("shell", "credential bmc", site.ReplacedNot)
		if fmt.Sprint(x.Nodes, x.Known, x.Holders) != "[n1] [n1] [n2 n3]" {
			t.Errorf("bmc: %+v", x)
		}
		// A new value that one machine does not take yet.
		w.fleet.Machine("n3").SetFault(drivertest.Unreachable)
		w.becomes("fresh")
		w.after(5 * time.Minute)
		if x := w.has("shell", "credential bmc", site.ReplacedPartly); fmt.Sprint(x.Old, x.New) != "[n3] [n1 n2]" {
			t.Errorf("bmc: %+v", x)
		}
		w.fleet.Machine("n3").SetFault(drivertest.Healthy)
		w.after(10 * time.Minute)
		w.has("shell", "credential bmc", site.ReplacedAll)
		w.has("shell", "credential os", site.ReplacedNot)
		// The old value comes back.
		w.becomes("pw")
		w.after(2 * time.Minute)
		w.has("shell", "credential bmc", site.ReplacedNot)
		// A restart forgets nothing of it.
		w.becomes("fresh")
		w.down()
		w.up()
		w.after(5 * time.Minute)
		w.has("shell", "credential bmc", site.ReplacedAll)

		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "shell"})
		w.after(5 * time.Minute)
		i := w.incident("shell")
		if i.IsOver() || !strings.HasPrefix(i.Verdict(), "NOT all clear: all nodes released, secrets known to be replaced: 1 of 2") {
			t.Errorf("with an old value: over %v, %s", i.IsOver(), i.Verdict())
		}
		end := site.Order{Verb: site.VerbIncident, Digest: i.ID, End: true}
		w.refuses(end, "say why")
		end.Reason = "the systems take keys alone"
		w.do(end)
		if i := w.incident("shell"); !i.IsOver() || i.Verdict() != "ended by tester, secrets known to be replaced: 1 of 2" {
			t.Errorf("ended: %+v", i)
		}
		w.refuses(end, "is over")
	}, names(3)...)
}

func TestIncidentIsAllClearByItself(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		for _, n := range d.Nodes {
			delete(n.Endpoints, site.OS)
		}
		w.on(d, names(2)...)
		w.do(compromised("shell", "n1"))
		w.after(time.Minute)
		w.becomes("fresh")
		w.after(5 * time.Minute)
		w.refuses(site.Order{Verb: site.VerbIncident, Digest: w.incident("shell").ID, End: true, Reason: "x"}, "release each node first")
		w.do(site.Order{Verb: site.VerbRelease, Node: "n1", Incident: "shell"})
		w.after(time.Minute)
		if i := w.incident("shell"); !i.IsOver() || i.Clear.IsZero() || !w.hasTold(site.EventOrder, "is all clear") {
			t.Errorf("incident: %+v", i)
		}
		w.becomes("pw") // later values are another matter
		w.after(5 * time.Minute)
		w.has("shell", "credential bmc", site.ReplacedAll)
	}, names(2)...)
}

// Without records every secret that the design names counts as read, with the value that its source has then.
func TestIncidentAssumesWhatIsNotRecorded(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design(names(2)...)
		d.Nodes["n1"].System.Users = map[string]site.User{"ann": {Password: "ann"}}
		w.on(w.design(names(2)...), names(2)...)
		w.fleet.Machine("n1").SetFault(drivertest.Unreachable)
		w.commit(d)
		w.after(time.Minute)
		w.do(compromised("shell", "n1"))
		w.after(time.Minute)
		x := w.has("shell", "credential ann", site.ReplacedNot)
		if len(x.Known) != 0 || fmt.Sprint(x.Assumed) != "[n1]" || x.ReadBy() != "n1 (assumed: no record says so)" {
			t.Errorf("ann: %+v", x)
		}
	}, names(2)...)
}

// What an export lacks counts as possible: records that were imported have the value of the source as read, too.
func TestImportedRecordsLackDeliveries(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		var export strings.Builder
		if _, err := w.store.Export(w.t.Context(), &export); err != nil {
			t.Fatal(err)
		}
		w.down()
		if _, err := record.Import(w.t.Context(), w.dir, strings.NewReader(export.String()), true, record.Options{NoSync: true, Tick: time.Second}); err != nil {
			t.Fatal(err)
		}
		imported := time.Now()
		w.up()
		w.after(time.Second)
		if d := w.engine.Known().Delivered["n1"]; len(d.Given) == 0 || d.Since.Before(imported.Add(-time.Minute)) || d.Given[0].When.After(d.Since) {
			t.Errorf("imported: %+v", d)
		}
	}, names(2)...)
}

// Neither values nor digests that anybody could test guesses with are in records, exports or what people see.
func TestNoSecretInRecordsOfDeliveries(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.becomes("canary-1")
		w.on(w.design(names(2)...), names(2)...)
		w.do(compromised("shell", "n1"))
		w.after(time.Minute)
		w.becomes("canary-2")
		w.after(5 * time.Minute)
		var export strings.Builder
		if _, err := w.store.Export(w.t.Context(), &export); err != nil {
			t.Fatal(err)
		}
		shown, err := json.Marshal([]any{w.engine.Report(), w.engine.Known().Delivered, w.engine.Events(0)})
		if err != nil {
			t.Fatal(err)
		}
		versions := 0
		for _, v := range []string{"canary-1", "canary-2"} {
			value := secret.New("admin", v)
			for _, digest := range guessable(v) {
				if strings.Contains(export.String(), digest) || strings.Contains(string(shown), digest) {
					t.Errorf("the digest %s of %s can be guessed, and is recorded or shown", digest, v)
				}
			}
			if strings.Contains(export.String(), v) || strings.Contains(string(shown), v) {
				t.Errorf("%s is recorded or shown", v)
			}
			if strings.Contains(string(shown), value.Digest("test")) {
				t.Errorf("the slow digest of %s is shown", v)
			}
			of, err := secret.VersionsOf(w.key(), "test")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(export.String(), of.Of("credential bmc", value)) {
				versions++
			}
		}
		if versions != 2 {
			t.Errorf("%d of 2 versions are recorded: what was searched?", versions)
		}
		key, err := os.ReadFile(w.dir + ".key")
		if err != nil || strings.Contains(export.String(), strings.TrimSpace(string(key))) {
			t.Error("the site key is in the export", err)
		}
	}, names(2)...)
}

// What a node was given stays when it has left the design, until no incident can need it.
func TestDeliveriesOutliveTheirNode(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.on(w.design(names(2)...), names(2)...)
		w.commit(w.design("n1"))
		w.after(time.Minute)
		w.do(site.Order{Verb: site.VerbApprove, Node: "n2"})
		w.after(time.Minute)
		w.down()
		w.up()
		w.after(time.Minute)
		if d := w.engine.Known().Delivered["n2"]; len(d.Given) == 0 {
			t.Error("what a node was given is forgotten with the node")
		}
		w.down()
		time.Sleep(401 * 24 * time.Hour)
		w.up()
		w.after(time.Minute)
		if all := w.engine.Known().Delivered; len(all["n2"].Given) != 0 || len(all["n1"].Given) == 0 {
			t.Errorf("after 401 days: %+v", all)
		}
	}, names(2)...)
}
