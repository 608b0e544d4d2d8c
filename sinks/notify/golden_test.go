package notify

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

var update = flag.Bool("update", false, "rewrite testdata/forms.txt")

// night is a report with what calls people at night, in the words of docs/troubleshooting.md.
func night() *site.Report {
	at := time.Date(2026, 11, 29, 3, 2, 0, 0, time.UTC)
	stalled := func(node, reason, release string) site.NodeStatus {
		return site.NodeStatus{Name: node, State: site.Stalled, Reason: reason, Release: release, Since: at}
	}
	login := "wrong BMC password or locked account (credential \"bmc\"); Slipway does not send it again until its file or the endpoint in the design changes, or by `slipway retry`"
	return &site.Report{Status: site.Status{
		Nodes: []site.NodeStatus{
			stalled("compute-1", login, ""), stalled("compute-2", login, ""), stalled("compute-3", login, ""), stalled("compute-4", login, ""), stalled("compute-5", login, ""),
			stalled("web-1", "the certificate of the BMC at 10.9.0.21 changed at 02:58 (was sha256:4f1c)", ""),
			stalled("db-1", "another machine answers: the design says serial CZJ01234AB, the machine at redfish+https://10.9.0.31/redfish/v1/Systems/1 is serial CZJ99999ZZ; nothing is written to it",
				"check cabling and DHCP; for a machine that was replaced add `moved`, for one with a new address correct its endpoint"),
			{Name: "gone-1", State: site.Blocked, Person: true, Since: at,
				Reason: "revision 12ab removes the node, which was not decommissioned first", Release: "a commit that puts the node back with `decommission: true`, or `slipway approve gone-1`"},
		},
		Waiting:  site.Losses{{Node: "new-1", Action: "install generation 1", Lost: "everything on its disks"}, {Node: "new-2", Action: "install generation 1", Lost: "everything on its disks"}},
		Approve:  "d86f",
		Rollout:  &site.RolloutStatus{Halted: "2 of 12 nodes failed", Failed: map[string]string{"web-3": "", "web-4": ""}, Since: at},
		Problems: []site.Problem{{About: "design", What: "revision 12ab is broken: site.cue:42:9: profiles.worker.power is \"onn\"; it must be \"on\" or \"off\"; 77fe stays in force", Since: at}},
	}}
}

// testdata/forms.txt is what people read in each form: -update writes it. Each text names the site, who has the cause, the
// cause, and what to do.
func TestWhatPeopleReadInEachForm(t *testing.T) {
	var events []Event
	for _, kind := range []Kind{Problem, Halted, Approval, Stalled, Held} {
		for _, e := range eventsOf(night()) {
			if e.Kind == kind {
				events = append(events, e)
			}
		}
	}
	m := newMessage("fra", "77fe", time.Date(2026, 11, 29, 3, 5, 0, 0, time.UTC), events)
	var b strings.Builder
	for _, name := range []string{Own, "slack", "teams", "pagerduty", "alertmanager"} {
		address := &url.URL{Scheme: "https", Host: "example.org", Path: "/hook"}
		k := credential{name: "notify", text: "https://example.org/hook"}
		if name == "pagerduty" {
			k.text = strings.Repeat("0", 32)
		}
		posts, err := forms[name].posts(address, k, m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range posts {
			var text bytes.Buffer
			if err := json.Indent(&text, p.body, "", " "); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			fmt.Fprintf(&b, "== %s\n%s\n", name, text.String())
			if !bytes.Contains(p.body, []byte("fra")) {
				t.Errorf("%s does not name the site", name)
			}
		}
	}
	const golden = "testdata/forms.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("want (-), got (+); read it, and run with -update:\n%s", diff)
	}
}

// eventsOf are the new events of a report, by their text.
func eventsOf(r *site.Report) []Event {
	var all []Event
	for k, c := range causes(r) {
		all = append(all, Event{Event: EventNew, Cause: k, Kind: c.kind, What: c.what, Do: c.do, Since: c.since, first: c.since, Count: len(c.nodes), Added: len(c.nodes), all: c.nodes})
	}
	slices.SortFunc(all, func(a, b Event) int { return strings.Compare(fmt.Sprint(a.Kind, a.all), fmt.Sprint(b.Kind, b.all)) })
	return all
}

// Nodes of which the same is said, and that ask for different actions, are two causes: nobody is told to do the one for both.
func TestOtherActionsAreOtherCauses(t *testing.T) {
	reason := "a step has no effect"
	r := &site.Report{Status: site.Status{Nodes: []site.NodeStatus{
		{Name: "n1", State: site.Stalled, Reason: reason, Release: "`slipway retry n1`"},
		{Name: "n2", State: site.Stalled, Reason: reason, Release: "`slipway retry n2`"},
		{Name: "n3", State: site.Stalled, Reason: reason, Release: "look at the machine, then `slipway retry n3`"},
		{Name: "n4", State: site.Blocked, Person: true, Reason: reason, Release: "`slipway retry n4`"},
	}}}
	var got []string
	for _, e := range eventsOf(r) {
		got = append(got, fmt.Sprint(e.Kind, e.all, e.Do))
	}
	want := []string{"held[n4]`slipway retry n4`", "stalled[n1 n2]`slipway retry n1`", "stalled[n3]look at the machine, then `slipway retry n3`"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
