package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hostile is what a machine may say.
const hostile = "`@all` fixes #1\n<!-- x -->\\(y)"

// world is a repository with a design, and a proposer that appends to it.
type world struct {
	t      *testing.T
	repo   *repotest.Repo
	p      *Proposer
	edits  int
	refuse string
}

func begin(t *testing.T, f forge.Proposer) *world {
	t.Helper()
	w := &world{t: t, repo: repotest.Init(t)}
	w.repo.Write("site.cue", "package fra\n")
	w.repo.Write("other.txt", "kept\n")
	w.repo.Commit("the site")
	w.restart(f)
	return w
}

func (w *world) restart(f forge.Proposer) {
	w.t.Helper()
	remote, err := repo.New(w.repo.Dir, secret.Value{}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.p = New(Config{Remote: remote, Base: "main", Site: "fra", Forge: f, Log: slog.New(slog.DiscardHandler), Edit: w.edit})
}

func (w *world) edit(_ context.Context, files fs.FS, a site.Amendment) (site.Amended, error) {
	w.edits++
	text, err := fs.ReadFile(files, "site.cue")
	if err != nil || w.refuse != "" {
		return site.Amended{Why: w.refuse}, err
	}
	return site.Amended{Files: map[string][]byte{"site.cue": append(text, "// "+a.Digest()+"\n"...)}, Site: &site.Site{}}, nil
}

func fits(site.Amendment, *site.Site) string { return "" }

func (w *world) propose(all ...site.Amendment) []site.Drafted {
	w.t.Helper()
	told, err := w.p.Propose(w.t.Context(), w.repo.Git("rev-parse", "main"), all, fits)
	if err != nil || len(told) != len(all) {
		w.t.Fatalf("told %+v, %v", told, err)
	}
	return told
}

func (w *world) branches() []string {
	return strings.Fields(w.repo.Git("for-each-ref", "--format=%(refname:short)", "refs/heads/slipway/drift"))
}

func change(node string, value string) site.Amendment {
	text, _ := json.Marshal(value)
	return site.Amendment{Node: node, Facet: site.FacetBIOS, Values: []site.AmendedValue{{Path: []string{"bios", "attributes", "X"}, Value: text}}}
}

// A change is one commit on one branch, however often it is proposed and by whom.
func TestBranch(t *testing.T) {
	w := begin(t, nil)
	a := change("n1..lock", hostile)
	first := w.propose(a)[0]
	if first.Facet != site.FacetBIOS || first.String() != "proposed on the branch "+first.Branch || !strings.HasPrefix(first.Branch, "slipway/drift/fra/n1-lock-bios-") {
		t.Fatalf("got %+v", first)
	}
	if got := w.repo.Git("log", "--format=%s%n%b", "main.."+first.Branch); got != "n1..lock: adopt the bios that Slipway observed\n- bios.attributes.X\n\nSlipway-Site: fra" {
		t.Errorf("the commit says\n%s", got)
	}
	if got := w.repo.Git("diff", "--stat", "main", first.Branch); !strings.Contains(got, "1 file changed, 1 insertion(+)") {
		t.Errorf("it changes\n%s", got)
	}
	w.repo.Git("fsck", "--strict")
	if again := w.propose(a)[0]; again != first {
		t.Errorf("again, by the same process: %+v", again)
	}
	head := w.repo.Git("rev-parse", first.Branch)
	w.repo.Write("other.txt", "changed\n")
	w.repo.Commit("something else")
	w.restart(nil)
	if again := w.propose(a)[0]; again.String() != "not proposed: "+foreign(first.Branch) || w.repo.Git("rev-parse", first.Branch) != head || len(w.branches()) != 1 {
		t.Errorf("again: %+v, branches %v", again, w.branches())
	}
	if other := w.propose(change("n1..lock", "other"))[0]; other.Branch != "" || !strings.Contains(other.Why, first.Branch+" proposes other values of this facet") || len(w.branches()) != 1 {
		t.Errorf("another value: %+v", other)
	}
	w.repo.Git("update-ref", "-d", "refs/heads/"+first.Branch)
	if other := w.propose(change("n1..lock", "other"))[0]; other.Branch == first.Branch || len(w.branches()) != 1 {
		t.Errorf("another value, once the branch is deleted: %+v", other)
	}
}

// What cannot be proposed is told, and leaves no branch.
func TestNotProposed(t *testing.T) {
	w := begin(t, nil)
	if got := w.propose(site.Amendment{Node: "n1", Why: "it is a secret"})[0].String(); got != "not proposed: it is a secret" || w.edits != 0 {
		t.Errorf("without words: %q after %d edits", got, w.edits)
	}
	w.refuse = "a comprehension makes it"
	for range 2 {
		if got := w.propose(change("n1", "x"))[0]; got.Why != w.refuse || w.edits != 1 {
			t.Errorf("refused: %+v after %d edits", got, w.edits)
		}
	}
	w.refuse = ""
	w.repo.Write("other.txt", "2\n")
	w.repo.Commit("a change")
	old := w.repo.Git("rev-parse", "main~1")
	told, err := w.p.Propose(t.Context(), old, []site.Amendment{change("n2", "x")}, fits)
	if err != nil || told[0].Why != behind {
		t.Errorf("on another commit: %+v, %v", told, err)
	}
	told, err = w.p.Propose(t.Context(), w.repo.Git("rev-parse", "main"), []site.Amendment{change("n1", "x")}, func(site.Amendment, *site.Site) string { return "it still differs" })
	if err != nil || told[0].Why != "it still differs" || len(w.branches()) != 0 {
		t.Errorf("unproven: %+v, %v, branches %v", told, err, w.branches())
	}
}

// There are only so many branches at once; the others are told to wait for them.
func TestMost(t *testing.T) {
	w := begin(t, nil)
	var all []site.Amendment
	for i := range most + 3 {
		all = append(all, change(fmt.Sprint("n", i), "x"))
	}
	told := w.propose(all...)
	if len(w.branches()) != most || told[most-1].Branch == "" || told[most].Branch != "" || !strings.Contains(told[most].Why, "there are 10 branches slipway/drift/fra/… already") {
		t.Fatalf("%d branches, %+v", len(w.branches()), told[most-1:])
	}
	w.repo.Git("update-ref", "-d", "refs/heads/"+told[0].Branch)
	if told = w.propose(all[1:]...); told[most-1].Branch == "" || len(w.branches()) != most {
		t.Errorf("with room: %+v", told[most-2:])
	}
}

// pulls is a forge with what was proposed by branch.
type pulls struct {
	of     map[string]site.Proposal
	opened []forge.Draft
	away   error
}

func (p *pulls) Proposed(_ context.Context, branch string) (site.Proposal, bool, error) {
	is, found := p.of[branch]
	return is, found, nil
}

func (p *pulls) Propose(_ context.Context, d forge.Draft) (site.Proposal, error) {
	if p.away != nil {
		return site.Proposal{}, p.away
	}
	p.opened = append(p.opened, d)
	p.of[d.Branch] = site.Proposal{Number: len(p.opened), State: site.ProposalOpen}
	return p.of[d.Branch], nil
}

// A pull request is opened once. One that a person closed is not opened again, with its branch or
// without; what was merged is, once its branch is gone.
func TestPullRequest(t *testing.T) {
	f := &pulls{of: map[string]site.Proposal{}, away: fmt.Errorf("%w: required: write", forge.ErrDenied)}
	w := begin(t, f)
	a := change("n1", hostile)
	told, err := w.p.Propose(t.Context(), w.repo.Git("rev-parse", "main"), []site.Amendment{a}, fits)
	if !errors.Is(err, forge.ErrDenied) || told[0].Branch == "" || !strings.Contains(told[0].String(), "no pull request could be opened: denied") {
		t.Fatalf("denied: %+v, %v", told, err)
	}
	f.away = nil
	for range 2 {
		if got := w.propose(a)[0]; got.Number != 1 || got.String() != "proposed in #1" {
			t.Errorf("got %+v", got)
		}
	}
	d := f.opened[0]
	if len(f.opened) != 1 || d.Base != "main" || strings.Contains(d.Title+d.Body, "fixes #1") || !strings.Contains(d.Body, "- `bios.attributes.X`\n") {
		t.Errorf("opened %+v", f.opened)
	}
	for _, state := range []site.ProposalState{site.ProposalClosed, site.ProposalMerged} {
		f.of[d.Branch] = site.Proposal{Number: 1, State: state}
		if got := w.propose(a)[0]; got.State != state || len(f.opened) != 1 {
			t.Errorf("%s: %+v", state, got)
		}
	}
	w.repo.Git("update-ref", "-d", "refs/heads/"+d.Branch)
	f.of[d.Branch] = site.Proposal{Number: 1, State: site.ProposalClosed}
	if got := w.propose(a)[0]; got.Number != 1 || len(w.branches()) != 0 {
		t.Errorf("closed, and its branch deleted: %+v, branches %v", got, w.branches())
	}
	f.of[d.Branch] = site.Proposal{Number: 1, State: site.ProposalMerged}
	if got := w.propose(a)[0]; got.Number != 2 || len(w.branches()) != 1 {
		t.Errorf("merged, and its branch deleted: %+v, branches %v", got, w.branches())
	}
}

// A branch that somebody else has pushed under the name is not vouched for.
func TestBranchOfSomebodyElse(t *testing.T) {
	f := &pulls{of: map[string]site.Proposal{}}
	w := begin(t, f)
	a := change("n1", "x")
	w.repo.Git("branch", w.p.branchOf(a), "main")
	if got := w.propose(a)[0]; len(f.opened) != 0 || !strings.Contains(got.String(), "is there, and Slipway has not pushed it since it was started") {
		t.Errorf("got %+v, opened %+v", got, f.opened)
	}
	f.of[w.p.branchOf(a)] = site.Proposal{Number: 7, State: site.ProposalOpen}
	if got := w.propose(a)[0].String(); !strings.Contains(got, "#7, which may be somebody else's") || strings.HasPrefix(got, "proposed") {
		t.Errorf("with a pull request: %s", got)
	}
}

// What the remote or the forge refuses of one is not tried with all the others.
func TestRoundEndsAtTheFirstRefusal(t *testing.T) {
	f := &pulls{of: map[string]site.Proposal{}, away: fmt.Errorf("%w: required: write", forge.ErrDenied)}
	w := begin(t, f)
	told, err := w.p.Propose(t.Context(), w.repo.Git("rev-parse", "main"), []site.Amendment{change("n1", "x"), change("n2", "x"), change("n3", "x")}, fits)
	if !errors.Is(err, forge.ErrDenied) || len(told) != 3 || len(w.branches()) != 1 || !strings.HasPrefix(told[2].Why, "not looked at yet: ") {
		t.Errorf("%+v, %v, branches %v", told, err, w.branches())
	}
}
