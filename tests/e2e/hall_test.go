package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/github"
	"github.com/slipway-gitops/slipway/tests/markdown"
)

const (
	// checkName is what the daemon's check is called, and kept the kind of the
	// comment that it keeps.
	checkName = "slipway/town"
	kept      = "plan"
	// machine is as whom a daemon with a token writes.
	machine = "slipway-machine"
)

// onWord has everything done at the same time, and looks rarely by itself for
// what was pushed: GitHub tells.
var onWord = rules{cue: `
site: schema.#Site & {rollout: {maxUnavailable: "100%", pollEvery: "2s", observeEvery: "3s", reportEvery: "1s"}}
roles: worker: {}
`}

// openHall founds a town whose machines are as designed, and whose daemon is
// told of what happens at its GitHub. Beside Ada, Bob may write to it.
func openHall(t *testing.T, app bool) *hall {
	t.Helper()
	h := newHall(t, onWord, app, "--webhook-listen", freeAddress(t)) // also of its next lives
	h.repo.Grant("bob", github.Write)
	h.start()
	h.converge()
	return h
}

// renew ends the daemon's token, and gives it another.
func (h *hall) renew() {
	h.t.Helper()
	h.hub.Revoke(h.secrets["the token"])
	h.secrets["the token"] = h.hub.Token(machine, "repo")
	h.write("github.new", "hosts: 127.0.0.1\nuse: github\nports: 1024-65535\n\n"+h.secrets["the token"]+"\n")
	h.rename("github.new", "cred/github")
}

// readable waits until the daemon knows that people can read what a comment
// names, from where on merging approves it: not in the same second, as GitHub
// counts in those.
func (h *hall) readable(what string) {
	h.t.Helper()
	h.eventually("merging approves "+what, func() bool { return strings.Contains(h.log(), "merging approves what the comment names") })
	h.hub.Pass(2 * time.Second)
}

// problem waits until the daemon's status says what is wrong with the forge.
func (h *hall) problem(words string) {
	h.t.Helper()
	h.status("a problem: "+words, func(s site.Status) bool { return strings.Contains(fmt.Sprint(s.Problems), words) })
}

// ordered is a file that gives a node another boot order, which is a change
// without a restart.
func ordered(node string) github.Files {
	return github.Files{node + ".cue": fmt.Sprintf("package town\n\nnodes: %q: boot: order: [\"Pxe\", \"Hdd\"]\n", node)}
}

// reinstalled is the design in which a node is to be installed once more.
func (h *hall) reinstalled(nodes ...string) github.Files {
	design := h.design()
	for _, node := range nodes {
		head := fmt.Sprintf("nodes: %q: {\n", node)
		before, after, _ := strings.Cut(design, head)
		before = strings.Replace(before, h.digests(1, node), h.digests(2, node), 1)
		design = before + head + strings.Replace(after, "generation: 1", "generation: 2", 1)
	}
	return github.Files{"site.cue": design}
}

// proposes pushes files to a new branch and opens a pull request for it.
func (h *hall) proposes(branch string, files github.Files) *github.Pull {
	h.t.Helper()
	h.repo.Push("ada", branch, "propose "+branch, files)
	return h.repo.Open(github.Proposal{Author: "ada", Head: branch, Title: "Propose " + branch})
}

// kept are the comments of the daemon on a pull request: the one that it keeps,
// and those that call a person.
func (h *hall) kept(p *github.Pull) (one []*github.Comment, calls []*github.Comment) {
	for _, c := range p.Comments() {
		if !ofDaemon(c.Author()) {
			continue
		}
		if m, ok := forge.ReadMarker(c.Body()); ok && m.Site == "town" && m.Kind == kept {
			one = append(one, c)
		} else {
			calls = append(calls, c)
		}
	}
	return one, calls
}

// ofDaemon says whether somebody is the daemon, with a token or as an App.
func ofDaemon(login string) bool { return login == machine || login == "slipway[bot]" }

// says waits until the comment that the daemon keeps says something, and gives
// it.
func (h *hall) says(p *github.Pull, words string) (text string) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the comment of %d says\n%s", p.Number(), text)
		}
	}()
	h.eventually(fmt.Sprintf("the comment of %d says %q", p.Number(), words), func() bool {
		text = ""
		if one, _ := h.kept(p); len(one) > 0 {
			text = one[0].Body()
		}
		return strings.Contains(text, words)
	})
	return text
}

// stands waits until the newest check of a commit is as asked, and gives what
// it says.
func (h *hall) stands(commit, want string) (why string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("the check of %.7s is %s", commit, want), func() bool {
		var state string
		state, why = h.verdict(commit)
		return state == want
	})
	return why
}

// verdict is how a commit's check stands, and what it says.
func (h *hall) verdict(commit string) (state, why string) {
	state, why = h.repo.Status(commit, checkName)
	for _, k := range h.repo.Checks(commit) {
		if s := k.State(); s.Name == checkName {
			state, why = s.Status, s.Title
			if s.Conclusion != "" {
				state = s.Conclusion
			}
		}
	}
	return state, why
}

// writesTo are the requests that changed something at the forge.
func (h *hall) writesTo() (all []github.Call) {
	for _, c := range h.hub.Calls() {
		if c.Write() && c.Route != "" && !strings.Contains(c.Route, "access_tokens") {
			all = append(all, c)
		}
	}
	return all
}

// orderly holds what the daemon wrote to what it has promised, on all pull
// requests and commits.
func (h *hall) orderly(pulls ...*github.Pull) {
	h.t.Helper()
	for _, p := range pulls {
		one, calls := h.kept(p)
		if len(one) != 1 {
			h.t.Errorf("pull request %d has %d comments of the kind that it keeps", p.Number(), len(one))
		}
		for _, c := range append(one, calls...) {
			page := markdown.Render(c.Body())
			if found := page.Found(); len(found)+len(page.Taken) > 0 || len(page.Hidden) != 1 {
				h.t.Errorf("pull request %d: GitHub makes something of %q, takes out %q, and hides %q", p.Number(), found, page.Taken, page.Hidden)
			}
		}
	}
	h.withinLimits()
}

// withinLimits holds the requests to GitHub's limits: no two writes within a
// second, and none that was refused for a limit.
func (h *hall) withinLimits() {
	h.t.Helper()
	var last time.Time
	for _, c := range h.hub.Calls() {
		if c.Limit != "" {
			h.t.Errorf("%s %s was refused for a limit: %s", c.Method, c.Path, c.Limit)
		}
	}
	for _, c := range h.writesTo() {
		if !last.IsZero() && c.When.Sub(last) < time.Second-50*time.Millisecond {
			h.t.Errorf("%s %s came %s after another write", c.Method, c.Path, c.When.Sub(last))
		}
		last = c.When
	}
}

// shoot leaves a picture of the comment, where pictures are wanted.
func (h *hall) shoot(p *github.Pull, name string) {
	folder := os.Getenv("SLIPWAY_SHOTS")
	if folder == "" {
		return
	}
	h.t.Helper()
	one, _ := h.kept(p)
	b := markdown.Open(h.t)
	page := markdown.Render(one[0].Body())
	b.Shoot(filepath.Join(folder, name+".png"), markdown.Wide, false, page)
	b.Shoot(filepath.Join(folder, name+"-unfolded.png"), markdown.Wide, true, page)
}
