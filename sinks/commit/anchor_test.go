package commit

import (
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/site"
)

func claim(term uint64, instance string) site.TermClaim {
	return site.TermClaim{Site: "lab", Term: term, Instance: instance, Holder: "host " + instance, Records: "r", Since: since, Signature: "s"}
}

func published(t *testing.T, r *Reporter) site.TermClaim {
	t.Helper()
	c, err := r.Term(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A claim is published over the one that was read, and over no other.
func TestClaimFollowsTheOneBefore(t *testing.T) {
	g := repotest.InitBare(t)
	a, b := reporter(t, g), reporter(t, g)
	if c := published(t, a); c.Term != 0 {
		t.Fatalf("a branch that is not there has %+v", c)
	}
	if err := a.Claim(t.Context(), claim(1, "a"), site.TermClaim{}); err != nil {
		t.Fatal(err)
	}
	report(t, a, healthy(2))
	before := published(t, b)
	if before != claim(1, "a") {
		t.Fatalf("read %+v", before)
	}
	if err := a.Claim(t.Context(), claim(2, "a2"), before); err != nil { // while b was about to
		t.Fatal(err)
	}
	if err := b.Claim(t.Context(), claim(9, "b"), before); !errors.Is(err, site.ErrClaimed) {
		t.Errorf("published over another claim: %v", err)
	}
	if got := published(t, b); got != claim(2, "a2") {
		t.Errorf("published is %+v", got)
	}
	if err := b.Claim(t.Context(), claim(9, "b"), published(t, b)); err != nil {
		t.Fatal(err)
	}
	if got := published(t, a); got != claim(9, "b") {
		t.Errorf("a reads %+v", got)
	}
	report(t, b, healthy(2))
	if got := g.Git("ls-tree", "--name-only", branch); !strings.Contains(got, termFile) {
		t.Errorf("the branch has %s", got)
	}
	if err := a.Claim(t.Context(), claim(3, "a3"), claim(2, "a2")); !errors.Is(err, site.ErrClaimed) {
		t.Errorf("published over another claim: %v", err)
	}
}

// A daemon that was stopped in the middle of a report, and goes on once another one acts for the site, writes nothing: the
// other one does not look for that, and goes by what it has written itself.
func TestReportOfADaemonThatWasOvertaken(t *testing.T) {
	for name, learns := range map[string]bool{"it does not know yet": false, "it has read the claim": true} {
		t.Run(name, func(t *testing.T) {
			g := repotest.InitBare(t)
			a, b := reporter(t, g), reporter(t, g)
			if err := a.Claim(t.Context(), claim(1, "a"), site.TermClaim{}); err != nil {
				t.Fatal(err)
			}
			report(t, a, healthy(2))
			if err := b.Claim(t.Context(), claim(2, "b"), published(t, b)); err != nil {
				t.Fatal(err)
			}
			report(t, b, healthy(3))
			head := g.Git("rev-parse", branch)
			if learns {
				published(t, a)
			}
			if err := a.Report(t.Context(), healthy(1)); !errors.Is(err, site.ErrClaimed) {
				t.Errorf("a report: %v", err)
			}
			if err := a.Seal(t.Context(), healthy(1).Status.Nodes[0]); !errors.Is(err, site.ErrClaimed) {
				t.Errorf("a sealed node: %v", err)
			}
			if got := g.Git("rev-parse", branch); got != head {
				t.Errorf("the branch has moved: %s", g.Git("show", "--stat", branch))
			}
			report(t, b, healthy(4))
			g.Git("update-ref", "-d", "refs/heads/"+branch)
			report(t, a, healthy(1)) // nobody's claim is there
			g.Git("update-ref", "refs/heads/"+branch, head)
			if err := a.Claim(t.Context(), claim(3, "a3"), published(t, a)); err != nil { // a person had it take over
				t.Fatal(err)
			}
			report(t, a, healthy(2))
		})
	}
}

// What was read stays true only as long as the branch is where it was.
func TestClaimIsReadAnewWhenTheBranchMoves(t *testing.T) {
	g := repotest.InitBare(t)
	a, b := reporter(t, g), reporter(t, g)
	report(t, a, healthy(1))
	for i := range 4 {
		next := claim(uint64(i+1), strings.Repeat("x", i+1))
		if err := b.Claim(t.Context(), next, published(t, b)); err != nil {
			t.Fatal(err)
		}
		if got := published(t, a); got != next {
			t.Errorf("round %d: read %+v", i, got)
		}
	}
	g.Git("update-ref", "-d", "refs/heads/"+branch)
	if got := published(t, a); got.Term != 0 {
		t.Errorf("of a deleted branch: %+v", got)
	}
}

// A claim that cannot be read is an error, and not a claim of nobody.
func TestDamagedClaim(t *testing.T) {
	for name, text := range map[string]string{
		"cut off":   `{"site":"lab","te`,
		"too large": `{"site":"` + strings.Repeat("x", maxFile) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := repotest.Init(t)
			r := reporter(t, g)
			report(t, r, healthy(1))
			g.Git("checkout", "-q", branch)
			g.Write(termFile, text)
			g.Commit("scribble")
			g.Git("checkout", "-q", "--detach")
			if _, err := r.Term(t.Context()); err == nil || !strings.Contains(err.Error(), termFile) {
				t.Errorf("got %v", err)
			}
			if err := r.Claim(t.Context(), claim(1, "a"), site.TermClaim{}); err == nil {
				t.Error("a claim was published over it")
			}
		})
	}
}

// The sealed parts of nodes come back as they were published; a node's file that
// cannot be read, or has none, counts for nothing.
func TestSealedPartsComeBack(t *testing.T) {
	g := repotest.Init(t)
	r := reporter(t, g)
	if all, err := r.Sealed(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("of no branch: %v, %v", all, err)
	}
	rep := healthy(3)
	rep.Status.Nodes[1].Sealed = &site.Sealed{Site: "lab", Node: "n0001", Records: "r", Closed: 2, HostKeys: []string{"ssh-ed25519 AAAA"}, Signature: "s"}
	rep.Status.Nodes[2].Sealed = &site.Sealed{Site: "lab", Node: "n0002", Records: "r", Signature: "s"}
	report(t, r, rep)
	g.Git("checkout", "-q", branch)
	g.Write(nodeFile("n0002"), "[")
	g.Commit("scribble")
	g.Git("checkout", "-q", "--detach")
	all, err := reporter(t, g).Sealed(t.Context())
	if err != nil || len(all) != 1 || all[0].Node != "n0001" || all[0].Closed != 2 || len(all[0].HostKeys) != 1 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// One node is published by a commit of its own, with nothing of the others, also
// before the first report and beside those who write to the branch.
func TestOneNodeIsSealed(t *testing.T) {
	g := repotest.Init(t)
	r := reporter(t, g)
	n := healthy(3).Status.Nodes[1]
	for closed := range 3 {
		n.Sealed = &site.Sealed{Site: "lab", Node: n.Name, Records: "r", Closed: closed + 1, Signature: "s"}
		if err := r.Seal(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		all, err := reporter(t, g).Sealed(t.Context())
		if err != nil || len(all) != 1 || all[0].Closed != closed+1 {
			t.Errorf("got %+v, %v", all, err)
		}
		rep := healthy(3)
		rep.Status.Nodes[1].Sealed = n.Sealed
		report(t, r, rep)
		if got := g.Git("diff", "--name-only", branch+"~1", branch); closed > 0 && strings.Contains(got, "n0000") {
			t.Errorf("the report after it changed %s", got)
		}
		g.Git("checkout", "-q", branch)
		g.Write("beside.txt", strings.Repeat("x", closed))
		g.Commit("beside it")
		g.Git("checkout", "-q", "--detach")
	}
}

// A daemon without a design does not know which nodes there are, and leaves the
// files of all of them: the seals in them are all that tells of lost records.
func TestNodesStayPublishedWithoutADesign(t *testing.T) {
	g := repotest.Init(t)
	rep := healthy(3)
	rep.Status.Nodes[1].Sealed = &site.Sealed{Site: "lab", Node: rep.Status.Nodes[1].Name, Records: "r", Closed: 2, Signature: "s"}
	report(t, reporter(t, g), rep)
	r, none := reporter(t, g), site.Report{Status: site.Status{Site: "lab"}}
	report(t, r, none)
	if all, err := r.Sealed(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("without a design: %+v, %v", all, err)
	}
	rep.Status.Nodes = rep.Status.Nodes[:1]
	report(t, r, rep)
	if all, err := r.Sealed(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("once a design without the node is in force: %+v, %v", all, err)
	}
}

// The lists of revoked certificates come back as they were published, each by itself. A report without one leaves them
// there: the daemon may have lost its records.
func TestRevocationListsComeBack(t *testing.T) {
	g := repotest.InitBare(t)
	r := reporter(t, g)
	if lists, err := r.RevocationLists(t.Context()); err != nil || len(lists) != 0 {
		t.Fatalf("before the first report: %q, %v", lists, err)
	}
	rep := healthy(1)
	report(t, r, rep)
	if lists, err := r.RevocationLists(t.Context()); err != nil || len(lists) != 0 {
		t.Fatalf("without a list: %q, %v", lists, err)
	}
	of := func(text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte(text)}))
	}
	rep.RevocationLists = []site.RevocationList{{PEM: of("first")}, {PEM: of("second")}}
	report(t, r, rep)
	rep.RevocationLists = nil
	rep.Status.Applied.Subject = "another"
	report(t, reporter(t, g), rep)
	lists, err := reporter(t, g).RevocationLists(t.Context())
	if err != nil || !slices.Equal(lists, []string{of("first"), of("second")}) {
		t.Errorf("read %q, %v", lists, err)
	}
}

// What nobody could have published in place of the lists is no list: reading goes on, and the next report with a list
// replaces it. Else whoever can write to the branch would stop the daemon by it.
func TestDamagedRevocationLists(t *testing.T) {
	for name, c := range map[string]struct{ file, text string }{
		"too large": {revokedFile, strings.Repeat("x", maxRevoked+1)},
		"a folder":  {revokedFile + "/x", "x"},
		"garbled":   {revokedFile, "-----BEGIN X509 CRL-----\nx"},
	} {
		t.Run(name, func(t *testing.T) {
			g := repotest.Init(t)
			r := reporter(t, g)
			report(t, r, healthy(1))
			g.Git("checkout", "-q", branch)
			g.Write(c.file, c.text)
			g.Commit("scribble")
			g.Git("checkout", "-q", "--detach")
			r = reporter(t, g)
			if lists, err := r.RevocationLists(t.Context()); err != nil || len(lists) != 0 {
				t.Errorf("read %q, %v", lists, err)
			}
			rep := healthy(2)
			text := string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: []byte("x")}))
			rep.RevocationLists = []site.RevocationList{{PEM: text}}
			report(t, r, rep)
			if lists, err := r.RevocationLists(t.Context()); err != nil || !slices.Equal(lists, []string{text}) {
				t.Errorf("after a report: %q, %v", lists, err)
			}
		})
	}
}
