package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/github"
)

// scenarios are what pull requests go through. Each leaves the machines, and
// the branch but for a file of no meaning, as they were.
var scenarios = []struct {
	name string
	play func(*hall, *github.Hook)
}{
	{"a life", life}, {"the branch moves", branchMoves}, {"a fork", fork}, {"people write", peopleWrite},
	{"webhooks go wrong", webhooksGoWrong}, {"the forge is lost and found", lostAndFound}, {"a flood", flood},
}

// A daemon goes through what pull requests bring, one after the other. In the
// end there is one comment on each, every check went its way, nothing was said
// twice, and GitHub's limits were kept.
//
// With SLIPWAY_PROVE set it goes through all, otherwise through SLIPWAY_RUNS of
// them, drawn from SLIPWAY_SEED.
func TestProvePullRequests(t *testing.T) {
	t.Parallel()
	h := openHall(t, false)
	hook := h.hook()
	order := rand.New(rand.NewPCG(uint64(number("SLIPWAY_SEED", 1)), 6)).Perm(len(scenarios))
	runs := number("SLIPWAY_RUNS", 2)
	if os.Getenv("SLIPWAY_PROVE") != "" {
		runs = len(order)
	}
	for _, i := range order[:min(runs, len(order))] {
		t.Log(scenarios[i].name)
		scenarios[i].play(h, hook)
	}
	h.stop()
	if !t.Failed() {
		fmt.Printf("prove: pull-request-scenarios %d ok\n", runs)
	}
}

// life is that of a pull request that is opened, pushed to, forced, broken,
// closed, opened again and mended: there is one comment on it all along, which
// is about its newest commit. A draft is planned as well.
func life(h *hall, _ *github.Hook) {
	p := h.proposes("life", ordered("old-1"))
	first := p.HeadID()
	h.stands(first, "success")
	text := h.says(p, "1 machine changes its boot order, all stay in service")
	if !strings.Contains(text, first[:12]) || !strings.Contains(text, h.repo.Head("main")[:12]) {
		h.t.Errorf("the comment does not say which commits it stands for:\n%s", text)
	}
	second := h.repo.Push("ada", "life", "one more", ordered("old-2"))
	h.stands(second, "success")
	h.says(p, "2 machines change their boot order, all stay in service")
	if why := h.stands(first, "error"); !strings.Contains(why, "superseded by "+second[:7]) {
		h.t.Errorf("the check of the first commit does not say what took its place: %q", why)
	}
	third := h.repo.ForcePush("ada", "life", "main", "only one", ordered("old-2"))
	h.stands(third, "success")
	h.says(p, "1 machine changes its boot order, all stay in service")
	broken := h.repo.Push("ada", "life", "a mistake", github.Files{"old-1.cue": "package town\n\nnodes: \"old-1\": power: \"onn\"\n"})
	h.stands(broken, "failure")
	if states := h.repo.States(broken, checkName); slices.Contains(states, "success") {
		h.t.Errorf("the check was good before it was bad: %q", states)
	}
	if text := h.says(p, "no plan, the design has 1 error"); !strings.Contains(text, "old-1.cue") {
		h.t.Errorf("the finding has no place:\n%s", text)
	}
	p.Close("ada")
	p.Reopen("ada")
	mended := h.repo.Push("ada", "life", "mended", github.Files{"old-1.cue": ""})
	h.stands(mended, "success")
	h.says(p, "1 machine changes its boot order, all stay in service")

	h.repo.Push("bob", "draft", "a draft", ordered("new-1"))
	draft := h.repo.Open(github.Proposal{Author: "bob", Head: "draft", Title: "Draft", Draft: true})
	h.says(draft, "1 machine changes")
	h.stands(draft.HeadID(), "success")
	h.closes(p, draft)
}

// branchMoves under what is open: what still merges is planned again, and what
// does not is told with the file.
func branchMoves(h *hall, _ *github.Hook) {
	clash := h.proposes("clash", github.Files{"NOTES": "one way"})
	apart := h.proposes("apart", ordered("old-2"))
	h.says(clash, "no machine changes")
	h.says(apart, "1 machine changes")
	base := h.repo.Push("bob", "main", "another way", github.Files{"NOTES": "another way " + clash.HeadID()})
	h.says(clash, "no plan, this conflicts with main in NOTES")
	h.stands(clash.HeadID(), "failure")
	h.says(apart, base[:12])
	h.stands(apart.HeadID(), "success")
	h.closes(clash, apart)
}

// fork is one whose commit is planned once somebody who may write has allowed
// that very commit: not who may only read, and not the next commit.
func fork(h *hall, _ *github.Hook) {
	eves := h.repo.Fork("eve")
	eves.Push("eve", "theirs", "from a fork", ordered("old-1"))
	p := h.repo.Open(github.Proposal{Author: "eve", From: eves, Head: "theirs", Title: "From a fork"})
	allow := "/slipway approve " + p.HeadID()
	h.says(p, allow)
	h.answered(p.Comment("ben", allow), "-1")
	h.answered(p.Comment("eve", allow), "-1")
	if text := h.says(p, allow); strings.Contains(text, "machine changes") {
		h.t.Errorf("it was planned before a writer allowed it:\n%s", text)
	}
	h.answered(p.Comment("bob", allow), "eyes")
	h.says(p, "1 machine changes")
	h.stands(p.HeadID(), "success")
	eves.ForcePush("eve", "theirs", "main", "another one", ordered("old-2"))
	h.says(p, "/slipway approve "+p.HeadID())
	if state, _ := h.verdict(p.HeadID()); state == "success" {
		h.t.Error("the check of a commit that nobody has allowed is good")
	}
	h.closes(p)
}

// peopleWrite what is a command, what was made one afterwards, and what is
// none; and somebody deletes the comment, which comes again with news.
func peopleWrite(h *hall, _ *github.Hook) {
	p := h.proposes("talk", ordered("old-1"))
	h.says(p, "1 machine changes")
	edited, talk := p.Comment("bob", "nice work"), p.Comment("ada", "I would not write /slipway plan here")
	h.hub.Pass(2e9) // GitHub's times are in seconds
	edited.Edit("bob", "/slipway plan")
	h.answered(p.Comment("bob", "/slipway plan\n\nto be sure"), "eyes")
	h.answered(p.Comment("bob", "/slipway destroy"), "confused")
	h.answered(p.Comment("bob", "/slipway approve "+strings.Repeat("0", site.DigestDigits)), "-1")
	h.answered(edited, "confused") // which is what it asks for by now, and not what bob wrote
	if r := talk.Reactions(); len(r) > 0 {
		h.t.Errorf("talk was answered: %q", r)
	}
	one, _ := h.kept(p)
	one[0].Delete("bob")
	h.repo.Push("ada", "talk", "go on", ordered("old-2"))
	h.says(p, "2 machines change")
	h.closes(p)
}

// webhooksGoWrong has them forged, sent twice, late, in another order, and
// broken. They only make the daemon look sooner: without any it finds by itself
// what there is.
func webhooksGoWrong(h *hall, hook *github.Hook) {
	sent := len(hook.Deliveries())
	hook.Hold()
	p := h.proposes("hints", ordered("old-1"))
	h.repo.Push("ada", "hints", "more", ordered("old-2"))
	all := hook.Deliveries()[sent:]
	for i := range all { // the newest first
		d := all[len(all)-1-i]
		if code := d.Send(github.Forge(d, "another secret")); code != http.StatusUnauthorized {
			h.t.Errorf("forged %s: answered %d", d.Event(), code)
		}
		for range 2 {
			if code := d.Send(); code != http.StatusAccepted {
				h.t.Errorf("%s: answered %d", d.Event(), code)
			}
		}
	}
	for _, body := range []string{"{", "[]", `{"number": "seven"}`, strings.Repeat(" ", 5<<20)} {
		if code := all[0].Send(github.Replace(body, hookSecret)); code >= 500 {
			h.t.Errorf("%.20q: answered %d", body, code)
		}
	}
	h.says(p, "2 machines change")
	h.repo.ForcePush("ada", "hints", "main", "less", ordered("old-1"))
	h.says(p, "1 machine changes") // though nothing was said
	hook.Release()
	h.closes(p)
}

// lostAndFound are the rights that the daemon needs, GitHub itself while the
// daemon is killed, and the token, which is replaced: what happened meanwhile
// is told, and nothing twice.
func lostAndFound(h *hall, _ *github.Hook) {
	p := h.proposes("lost", ordered("old-1"))
	h.says(p, "1 machine changes")
	h.repo.Grant(machine, github.Read)
	h.repo.Push("ada", "lost", "more", ordered("old-2"))
	h.problem("Commit statuses: write")
	h.repo.Grant(machine, github.Write)
	h.says(p, "2 machines change")

	end := h.hub.Suffer(github.Outage{Kind: github.Fail, For: func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }})
	h.repo.Push("ada", "lost", "even more", ordered("new-1"))
	h.problem("502")
	h.daemon.kill()
	h.hub.Forget() // a daemon does not know when its last life has written
	end()
	h.start()
	h.says(p, "3 machines change")

	h.renew()
	q := h.proposes("found", ordered("new-2"))
	h.says(q, "1 machine changes")
	h.keepsSecrets(p)
	h.closes(p, q)
}

// flood is a day of a busy team at once: many pull requests, and many pushes to
// one of them. Each is told of in the end, at its newest commit, and what
// nobody would have read any more is left out.
func flood(h *hall, _ *github.Hook) {
	const pulls, pushes = 10, 40
	before := len(h.writesTo())
	var all []*github.Pull
	for i := range pulls {
		all = append(all, h.proposes(fmt.Sprint("flood-", i), github.Files{fmt.Sprintf("p%d.cue", i): ordered("old-1")["old-1.cue"]}))
	}
	for i := range pushes {
		h.repo.Push("ada", "flood-0", fmt.Sprint("push ", i), github.Files{"note.txt": fmt.Sprint(i)})
	}
	for _, p := range all {
		h.says(p, p.HeadID()[:12])
		h.stands(p.HeadID(), "success")
	}
	if n := len(h.writesTo()) - before; n > 3*pulls+2*pushes {
		h.t.Errorf("%d writes for %d pull requests and %d pushes", n, pulls, pushes)
	}
	h.closes(all...)
}

// closes looks at pull requests as they are in the end, and closes them.
func (h *hall) closes(pulls ...*github.Pull) {
	h.t.Helper()
	h.orderly(pulls...)
	for _, p := range pulls {
		p.Close("bob")
	}
}

// files are all of several changes.
func files(all ...github.Files) github.Files {
	one := github.Files{}
	for _, f := range all {
		maps.Copy(one, f)
	}
	return one
}
