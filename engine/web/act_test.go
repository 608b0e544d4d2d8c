package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Whoever may approve on some racks and may not read the status of the site is offered no set: the page
// cannot show what it destroys.
func TestNoSetIsApprovedUnseen(t *testing.T) {
	address, as := onNetwork(t, &fleet{said: "there"})
	for who, offered := range map[string]bool{"ana@example.org": true, "carol@example.org": false} {
		status, text, _ := sends(t, as(who), "GET", address+"/sites/berlin/do/approve?digest="+digestOfSet, "")
		if status != 200 {
			t.Fatalf("%s: %d", who, status)
		}
		if got := strings.Contains(text, `name="digest" value="`+digestOfSet); got != offered {
			t.Errorf("%s: the form has the digest: %t", who, got)
		}
		if got := strings.Contains(text, "everything on 2 disks"); got != offered {
			t.Errorf("%s: the losses are shown: %t", who, got)
		}
		if got := strings.Contains(text, "You may not read what this set destroys, so you cannot approve it here."); got == offered {
			t.Errorf("%s: is told that they may not read it: %t", who, got)
		}
	}
}

// The approval of a node is for its whole plan: whoever gives it sees all steps and why others wait.
func TestApprovalOfNodeShowsItsSteps(t *testing.T) {
	plan := site.NodePlan{Node: "db-1", Blocked: []string{"the generation is lower"}, Waiting: "the installer runs", Reported: []string{"the time zone differs"}}
	for i := range 60 {
		plan.Steps = append(plan.Steps, site.Step{Node: "db-1", Action: site.ActionBIOS, Impact: site.ImpactReboot, Changes: []site.Change{{Field: fmt.Sprintf("setting-%d.", i), Have: "a", Want: "b"}}})
	}
	_, text := asked(opened(t, &fleet{said: "there", plans: []site.NodePlan{plan}}), "GET", "/sites/berlin/do/approve?node=db-1", "")
	for _, part := range []string{"powers off db-1", "60 steps", "the generation is lower", "the installer runs", "the time zone differs", "By revision <code>0123456", `name="shown" value="` + digestOfSet} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not shown", part)
		}
	}
	for i := range 60 {
		if !strings.Contains(text, fmt.Sprintf("setting-%d.", i)) {
			t.Errorf("step %d is not shown", i)
		}
	}
}

// "Nothing was done" is said only where that is known: where the daemon refused. What else went wrong may
// have happened after the order was carried out.
func TestUnknownOutcomeIsSaid(t *testing.T) {
	own := []string{"Sec-Fetch-Site", "same-origin"}
	for reason, want := range map[string]struct {
		status int
		says   string
	}{
		"refuse": {409, "Nothing was done: refused: not now"},
		"break":  {500, "Slipway does not know whether this was done. Look at the node and the audit log before you repeat it: the records cannot be written"},
	} {
		f := &fleet{said: "there"}
		status, text := asked(opened(t, f), "POST", "/sites/berlin/do/pause", "reason="+reason+"&sure=yes", own...)
		if status != want.status || !strings.Contains(text, want.says) || strings.Count(text, "was done") != 1 {
			t.Errorf("%s: %d\n%s", reason, status, text)
		}
	}
}

// An order that was carried out is reported as done, also where the rest of the page cannot be made then.
func TestDoneIsSaidWithoutPage(t *testing.T) {
	f := &fleet{said: "there"}
	h := opened(t, f)
	f.broken = true
	status, text := asked(h, "POST", "/sites/berlin/do/pause", "reason=smoke&sure=yes", "Sec-Fetch-Site", "same-origin")
	if status != 200 || len(f.orders) != 1 || !strings.Contains(text, "<h1>Done</h1>") || !strings.Contains(text, "pause is done there") {
		t.Errorf("%d, %d orders\n%s", status, len(f.orders), text)
	}
}

// A form that was refused says why, also where the form cannot be shown again.
func TestRefusalIsSaidWithoutForm(t *testing.T) {
	f := &fleet{said: "there"}
	h := opened(t, f)
	f.broken = true
	status, text := asked(h, "POST", "/sites/berlin/do/pause", "reason=break&sure=yes", "Sec-Fetch-Site", "same-origin")
	if status != 500 || !strings.Contains(text, "Slipway does not know whether this was done.") {
		t.Errorf("%d\n%s", status, text)
	}
}

// What a page says before an act is what the engine does.
func TestActsSayWhatTheyDo(t *testing.T) {
	h := opened(t, &fleet{said: "there"})
	for verb, x := range map[string]struct{ has, hasNot string }{
		"pause":  {"What is in progress on a machine stops before its next request.", "is finished"},
		"retry":  {"tries a refused credential once more", ""},
		"verify": {"The next page shows what is wrong or unknown.", "this page shows"},
	} {
		_, text := asked(h, "GET", "/sites/berlin/do/"+verb, "")
		if !strings.Contains(text, x.has) || x.hasNot != "" && strings.Contains(text, x.hasNot) {
			t.Errorf("%s does not say %q, or says %q", verb, x.has, x.hasNot)
		}
	}
}

// Whoever takes approvals back sees which ones end, as far as they may. A digest that no record lists is
// taken back too: a merged proposal may have approved it.
func TestTakeBackShowsWhatEnds(t *testing.T) {
	address, as := onNetwork(t, &fleet{said: "there"})
	const lost, form = "everything on 2 disks", `name="sure"`
	const other = "ffffffffffffffffffffffffffffffff"
	for _, x := range []struct{ who, of, says string }{
		{"ana", "digest=" + digestOfSet, lost},
		{"ana", "node=web-2", lost},
		{"ana", "node=db-1", "No open approval of db-1 is in the records."},
		{"ana", "digest=" + other, "No open approval with this digest is in the records."},
		{"carol", "node=web-2", "You may not read the records of approvals, so what ends is not shown."},
	} {
		_, text, _ := sends(t, as(x.who+"@example.org"), "GET", address+"/sites/berlin/do/disapprove?"+x.of, "")
		if !strings.Contains(text, x.says) || !strings.Contains(text, form) || strings.Contains(text, "whole site") || strings.Contains(text, lost) != (x.says == lost) {
			t.Errorf("%s, %s: does not say %q, or has no form", x.who, x.of, x.says)
		}
	}
	if _, text, _ := sends(t, as("ana@example.org"), "GET", address+"/sites/berlin/do/disapprove", ""); strings.Contains(text, form) || !strings.Contains(text, "Choose an approval") {
		t.Error("a form that names nothing is offered")
	}
}
