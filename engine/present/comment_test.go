package present_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// edited is a plan in which one profile changes the BIOS of nodes, as they were
// seen some time ago.
func edited(nodes int) (*site.Site, site.Plan) {
	s := &site.Site{Nodes: map[string]*site.Node{}, Rollout: site.Rollout{MaxUnavailable: "5%"}}
	var p site.Plan
	set := site.Change{Field: "bios.LogicalProc", Intent: "smt", Have: "Enabled", Want: "Disabled", Origin: site.At("profiles/compute.cue", 14, 9, "profile/compute")}
	for i := range nodes {
		name := fmt.Sprintf("c%05d", i)
		s.Nodes[name] = &site.Node{Name: name, Role: "compute", Rack: fmt.Sprint("r", i/40)}
		p.Nodes = append(p.Nodes, site.NodePlan{Node: name, Expect: site.Duration(6 * time.Minute), Seen: now.Add(-time.Duration(i%300) * time.Second),
			Steps: []site.Step{{Node: name, Action: site.ActionRestart, Facet: site.FacetBIOS, Impact: site.ImpactReboot,
				Changes: []site.Change{set}, Reason: "differs from the design", Expect: site.Duration(6 * time.Minute)}}})
	}
	return s, p
}

// erased is a plan that installs nodes.
func erased(nodes int) site.Plan {
	var p site.Plan
	for i := range nodes {
		name := fmt.Sprintf("s%05d", i)
		p.Nodes = append(p.Nodes, site.NodePlan{Node: name, Seen: now.Add(-time.Minute), Expect: site.Duration(15 * time.Minute), Steps: []site.Step{{
			Node: name, Machine: site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i)}, Action: site.ActionInstall, Generation: 2,
			Impact: site.ImpactDestructive, Loses: "everything on its disks", Disks: fmt.Sprintf("A%d, B%d", i, i), Reason: "generation 2 of the design is not installed", Expect: site.Duration(15 * time.Minute),
			Changes: []site.Change{{Field: "image.generation", Have: "1", Want: "2", Origin: site.At("nodes.cue", i+1, 9, "node/"+name)}},
		}}})
	}
	return p
}

// switched is a plan that switches one node off.
func switched() site.Plan {
	off := site.Change{Field: "power.state", Have: "on", Want: "off", Origin: site.At("rack-1.cue", 15, 9, "node/c00007")}
	return site.Plan{Nodes: []site.NodePlan{{Node: "c00007", Seen: now.Add(-time.Second), Expect: site.Duration(3 * time.Minute), Steps: []site.Step{{
		Node: "c00007", Action: site.ActionPowerOff, Facet: site.FacetPower, Impact: site.ImpactReboot, Changes: []site.Change{off},
		Reason: "differs from the design", Expect: site.Duration(3 * time.Minute)}}}}}
}

// merges are reviews of merged proposals: on the way to the machines, done, stopped,
// and with more to erase than the merge has approved.
func merges() map[string]*site.Review {
	p := erased(3)
	all := p.Destroys()
	nodes := []string{"s00000", "s00001", "s00002"}
	merged := func(l site.Landing, approved, held site.Losses) *site.Review {
		r := proposed(site.Plan{})
		r.Proposal.MergedBy, r.Proposal.Merge, r.Proposal.MergedAt = "bob", "0123456789abcdef", now
		l.InForce, l.Revision, l.Asked = now.Add(30*time.Second), "0123456789abcdef", held
		l.Lines = map[string]site.Origin{"s00000": site.At("nodes.cue", 1, 9, "node/s00000")}
		r.Landing, r.Approved, r.Held = &l, approved, held
		return r
	}
	rollout := func(is site.RolloutStatus) *site.RolloutStatus {
		is.Revision, is.Since, is.Nodes = site.Revision{ID: "0123456789abcdef"}, now.Add(30*time.Second), nodes
		return &is
	}
	const reason = "the design boots from Cd, and this machine offers only Hdd"
	failed := map[string]string{"s00000": reason, "s00001": reason, "s00002": reason}
	order := &site.Change{Field: "boot.order", Have: "Hdd", Want: "Cd, Hdd", Origin: site.At("profiles.cue", 66, 3, "profile/compute")}
	return map[string]*site.Review{
		"merged": merged(site.Landing{Rollout: rollout(site.RolloutStatus{Done: 1}), Expected: now.Add(38 * time.Minute), Machines: []site.MachineNow{
			{Node: "s00000", State: site.MachineDone, Since: now.Add(19 * time.Minute)},
			{Node: "s00001", State: site.MachineRunning, What: "install: generation 1 → 2", Since: now.Add(time.Minute)},
			{Node: "s00002", State: site.MachineWaiting, What: "2 machines may be out of service at once", Since: now.Add(time.Minute)}}}, all, nil),
		"done": merged(site.Landing{Done: true, Rollout: rollout(site.RolloutStatus{Done: 3, Ended: now.Add(26 * time.Minute)})}, all, nil),
		"halted": merged(site.Landing{Rollout: rollout(site.RolloutStatus{Failed: failed, Halted: "3 nodes have failed, more than maxFailures 1", HaltedSince: now.Add(4 * time.Minute)}),
			Machines: []site.MachineNow{{Node: "s00000", State: site.MachineFailed, Change: order}}}, nil, nil),
		"held":     merged(site.Landing{Rollout: rollout(site.RolloutStatus{Done: 1}), Unapproved: "a commit was pushed after the plan that you could read"}, nil, all[:2]),
		"decision": merged(site.Landing{Unapproved: "a commit was pushed after the plan that you could read"}, nil, all[:2]),
	}
}

func proposed(p site.Plan) *site.Review {
	return &site.Review{Site: "test", Plan: p, When: now, Base: "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
		Proposal: site.Proposal{Number: 7, Base: "main", Head: "89abcdef0123456789abcdef0123456789abcdef"}}
}

func TestComments(t *testing.T) {
	s, bios := edited(412)
	forecast := func(r *site.Review) {
		for _, n := range r.Plan.Nodes {
			if s.Nodes[n.Node] == nil {
				s.Nodes[n.Node] = &site.Node{Name: n.Node, Role: "storage"}
			}
		}
		r.Plan.Forecast = rollout.Forecast(s, &r.Plan, site.Known{}, now)
	}
	profile := proposed(bios)
	forecast(profile)
	wipe := proposed(erased(3))
	wipe.Plan.Nodes = append(wipe.Plan.Nodes, bios.Nodes[0])
	wipe.Plan.Nodes[2].Seen = time.Time{}
	wipe.Pending = site.Plan{Nodes: erased(4).Nodes[3:]}
	wipe.Waiting = wipe.Pending.Destroys()
	wipe.Spared = []string{"c00007"}
	forecast(wipe)
	broken := proposed(site.Plan{})
	broken.Before = 3
	broken.Findings = []site.Finding{
		{Code: "image-unused", Severity: site.SeverityWarning, File: "images.cue", Line: 3, Col: 2, Message: "no node has image old", Fix: "remove it"},
		{Code: "unknown-image", Severity: site.SeverityError, File: "nodes/rack 1.cue", Line: 12, Col: 9, Node: "n1", More: 40, Message: "there is no image debain12", Fix: "write debian12"},
	}
	conflict := proposed(site.Plan{})
	conflict.Conflicts, conflict.More = []string{"nodes.cue: both sides changed it", "old.cue: it was changed on the branch and removed in the proposal"}, 3
	rules := proposed(site.Plan{})
	rules.Rules = []string{"rollout: maxUnavailable", "approvals: 1 added"}
	rights := proposed(site.Plan{})
	rights.Access = []string{"eve may now approve on 2 nodes: n1, n2", "group ops may now read on the whole site"}
	rights.Restrictions = []string{"ana may no longer pause on 1 node: n1 (with another machine)"}
	away := proposed(site.Plan{})
	away.Problem = "the repository does not answer"
	fork := proposed(site.Plan{})
	fork.Problem, fork.Allow = "it comes from a fork", "89abcdef"
	idle := proposed(site.Plan{})
	idle.Pending = switched()
	small := proposed(switched())
	small.Plan.Forecast = rollout.Forecast(s, &small.Plan, site.Known{}, now)
	known := site.Known{Nodes: map[string]site.Memory{}}
	for i := range 3 {
		s.Nodes[fmt.Sprintf("s%05d", i)].Rack = fmt.Sprint("r", 1+i/2)
		known.Nodes[fmt.Sprintf("s%05d", i)] = site.Memory{Observed: site.Observed{Inventory: &site.Inventory{Drives: []site.Drive{
			{Part: site.Part{ID: "1", Model: "LAB-NVME-960", Serial: fmt.Sprint("A", i)}, Bytes: 960e9}}}}}
	}
	all := map[string]*site.Review{"profile": profile, "wipe": wipe, "broken": broken, "conflict": conflict, "rules": rules, "rights": rights, "away": away, "fork": fork, "idle": idle, "small": small}
	for name, r := range merges() {
		all[name] = r
	}
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			view := present.View{Site: s, Known: known, Now: now, Pages: "https://git.example/blob/89abcdef/"}
			got, whole := "", true
			switch {
			case r.Landing == nil:
				got, whole = comment(r, view)
			case name == "decision":
				r.Whole = true
				got = present.Call(r).Text
			default:
				got, whole = landed(r, view)
			}
			if !whole {
				t.Error("not all that is erased is named")
			}
			checkText(t, got)
			file := filepath.Join("testdata", "comment", name+".md")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// An edit of a profile that ten thousand nodes have is a small comment.
func TestCommentOnAProfileIsSmall(t *testing.T) {
	s, p := edited(10_000)
	p.Forecast = rollout.Forecast(s, &p, site.Known{}, now)
	text, _ := comment(proposed(p), present.View{Site: s, Now: now})
	if len(text) > 10_000 || !strings.Contains(text, "| 10000 machines of profile compute | restart | about 6 min |") {
		t.Errorf("%d bytes:\n%s", len(text), text[:min(len(text), 2000)])
	}
}

// What is destroyed is named machine by machine for as long as that fits; when
// it does not, the comment says that merging approves nothing.
func TestCommentNamesAllOfASetOrSaysSo(t *testing.T) {
	for _, c := range []struct {
		nodes int
		whole bool
	}{{1, true}, {150, true}, {400, true}, {2000, false}, {10_000, false}} {
		r := proposed(erased(c.nodes))
		for i := range r.Plan.Nodes {
			r.Plan.Nodes[i].Steps[0].Reason = fmt.Sprint("reason ", i) // no two alike
		}
		text, whole := comment(r, present.View{Now: now})
		checkText(t, text)
		if whole != c.whole {
			t.Errorf("%d nodes: whole is %t", c.nodes, whole)
		}
		if approves := strings.Contains(text, "Merging approves exactly this"); approves != whole {
			t.Errorf("%d nodes: it says that merging approves: %t, and names all: %t", c.nodes, approves, whole)
		}
		named := 0
		for _, l := range r.Plan.Destroys() {
			entry, there := strings.CutPrefix(text[max(0, strings.Index(text, "**"+l.Node+"** (UUID ")):], "**"+l.Node+"** (UUID "+l.Machine.UUID)
			line, _, _ := strings.Cut(strings.NewReplacer("<code>", "", "</code>", "").Replace(entry), "\n")
			if there && strings.Contains(line, "2 disks: "+l.Disks) {
				named++
			}
		}
		if (named == c.nodes) != whole {
			t.Errorf("%d of %d are named, and whole is %t", named, c.nodes, whole)
		}
		if cut := strings.Contains(text, "**Cut at 60,000 characters.** Left out: "); cut != (c.nodes >= 400) {
			t.Errorf("%d nodes: it says that it is cut: %t", c.nodes, cut)
		}
	}
}

// What was merged says what that approved, and what grew beside it.
func TestLanded(t *testing.T) {
	r := proposed(site.Plan{})
	r.Proposal.MergedBy, r.Proposal.Merge = "@ann", "0123456789abcdef"
	p := erased(10_000)
	all := p.Destroys()
	r.Approved, r.Landing = all[:3], &site.Landing{InForce: now, Rollout: &site.RolloutStatus{Since: now}}
	for held, want := range map[int]string{0: ": 0 of 0 machines done\n",
		1: "; erasing 1 more machine needs a decision\n", 9_000: "; erasing 9000 more machines needs a decision\n"} {
		r.Held = all[3 : 3+held]
		text, whole := landed(r, present.View{Now: now})
		if offered := strings.Contains(text, "/slipway approve "+r.Held.Digest()); whole != (held < 9_000) || offered != (whole && held > 0) {
			t.Errorf("%d held: all are named: %t, offered to be approved: %t", held, whole, offered)
		}
		checkText(t, text)
		if !strings.Contains(text, want) || strings.Contains(text, r.Held.Digest()) != (held > 0) || strings.Contains(text, "Cut at") != (held == 9_000) {
			t.Errorf("%d held:\n%s", held, text[:min(len(text), 1000)])
		}
	}
}

// A text that is much too long is shown in part, and pushes nothing else out.
func TestCommentOfHugeTexts(t *testing.T) {
	huge := strings.Repeat("long ", 1<<14)
	r, v := hostile(huge, huge)
	text, _ := comment(r, v)
	if len(text) > 60_000 || !strings.Contains(text, "long …") || strings.Contains(text, "Cut at") {
		t.Errorf("%d bytes:\n%s", len(text), text[max(0, len(text)-500):])
	}
}

func BenchmarkComment(b *testing.B) {
	s, p := edited(10_000)
	r := proposed(p)
	for b.Loop() {
		comment(r, present.View{Site: s, Now: now})
	}
}

// erasing is a review of which merging erases disks, with the disks in the loss
// and in the inventory, and as many findings as its author likes.
func erasing(findings int) (*site.Review, present.View) {
	p := erased(1)
	p.Nodes[0].Steps[0].Disks = "CUSTOMER-1, CUSTOMER-2"
	r := proposed(p)
	for i := range findings {
		r.Findings = append(r.Findings, site.Finding{Code: "image-unused", Severity: site.SeverityWarning, File: "images.cue", Line: i + 1, Col: 2,
			Message: fmt.Sprintf("no node has image %d, %s", i, strings.Repeat("and so on ", 20)), Fix: "remove it"})
	}
	inv := &site.Inventory{Drives: []site.Drive{{Part: site.Part{ID: "1", Serial: "CUSTOMER-1"}}, {Part: site.Part{ID: "2", Serial: "CUSTOMER-2"}}}}
	known := site.Known{Nodes: map[string]site.Memory{"s00000": {Observed: site.Observed{Inventory: inv}}}}
	return r, present.View{Site: &site.Site{Name: "test"}, Now: now, Known: known}
}

// A comment whose merge approves a loss names the disks of it, however much else
// the author of the proposal has it say.
func TestCommentThatMergingApprovesNamesTheDisks(t *testing.T) {
	for _, findings := range []int{0, 2000} {
		r, v := erasing(findings)
		text, whole := comment(r, v)
		if whole && !strings.Contains(text, "CUSTOMER-2") {
			t.Errorf("with %d findings merging approves the loss of the disks %q, and the comment of %d bytes does not name them", findings, r.Plan.Nodes[0].Steps[0].Disks, len(text))
		}
	}
}

// The disks that people read are those of the loss that they approve, and not
// what an inventory had at some other time, or has lost since.
func TestTextNamesTheDisksOfTheLoss(t *testing.T) {
	for name, inv := range map[string]*site.Inventory{
		"no inventory":               nil,
		"taken while it was off":     {Drives: []site.Drive{}},
		"of before disks were moved": {Drives: []site.Drive{{Part: site.Part{ID: "1", Serial: "SCRATCH-1"}}}},
	} {
		r, v := erasing(0)
		v.Known.Nodes["s00000"] = site.Memory{Observed: site.Observed{Inventory: inv, Disks: &site.Disks{Serials: []string{"CUSTOMER-1", "CUSTOMER-2"}}}}
		text, whole := comment(r, v)
		if i := strings.Index(text, "what is lost"); whole && !strings.Contains(text, "CUSTOMER-2") {
			t.Errorf("%s: merging approves the loss of the disks %q; the comment says: %s", name, r.Plan.Nodes[0].Steps[0].Disks, strings.SplitN(text[i:], "\n", 2)[0])
		}
	}
}
