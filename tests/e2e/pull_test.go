package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/github"
)

// hall is where changes of a town are proposed: its repository is at a GitHub
// of its own.
type hall struct {
	*town
	hub  *github.Server
	repo *github.Repository
	// secrets are what is to be found nowhere but in the credentials.
	secrets map[string]string
}

const hookSecret = "canary-hook-77d1e0"

// newHall founds a town whose daemon speaks on pull requests, with a token, or
// as a GitHub App. It only listens for webhooks when it is told where.
func newHall(t *testing.T, r rules, app bool, flags ...string) *hall {
	t.Helper()
	h := &hall{town: foundTown(t, names, r), hub: github.Start(t), secrets: map[string]string{"the webhook's secret": hookSecret}}
	h.hub.Organization("acme")
	h.repo = h.hub.Repository("acme/site")
	h.repo.Grant("ada", github.Write)
	h.repo.Grant("ben", github.Read)
	module, err := os.ReadFile(h.path("site/cue.mod/module.cue"))
	check(t, err)
	h.repo.Push("ada", "main", "the site", github.Files{"cue.mod/module.cue": string(module), "site.cue": h.design()})
	h.write("cred/github", "hosts: 127.0.0.1\nuse: github\nports: 1024-65535\n"+h.credential(app))
	h.write("cred/webhook", "hosts: 127.0.0.1\nuse: webhook\nports: 1024-65535\n\n"+hookSecret+"\n")
	h.write("github.pem", string(h.hub.CA()))
	h.flags = append([]string{"--repo", h.repo.CloneURL(), "--github", "acme/site",
		"--github-api", strings.TrimSuffix(h.hub.API(), "/"), "--github-ca", h.path("github.pem")}, flags...)
	return h
}

// credential is what docs/github.md says is needed, and nothing else.
func (h *hall) credential(app bool) string {
	if app {
		a := h.hub.App("slipway", github.Permissions{"metadata": "read", "pull_requests": "write", "checks": "write", "contents": "write"})
		a.Install("acme", h.repo)
		h.secrets["the App's key"] = string(a.Key())
		return "username: " + fmt.Sprint(a.ID()) + "\n\n" + string(a.Key())
	}
	h.repo.Grant("slipway-machine", github.Write)
	may := github.Permissions{"metadata": "read", "pull_requests": "write", "statuses": "write", "contents": "write"}
	h.secrets["the token"] = h.hub.FineGrained("slipway-machine", may, h.repo)
	return "\n" + h.secrets["the token"] + "\n"
}

// hook has the hub send its webhooks to the daemon.
func (h *hall) hook() *github.Hook {
	h.t.Helper()
	var address []string
	h.eventually("the daemon takes webhooks", func() bool {
		address = regexp.MustCompile(`msg="slipway takes webhooks" address=(\S+)`).FindStringSubmatch(h.log())
		return address != nil
	})
	return h.repo.Hook("http://"+address[1]+"/", hookSecret, "push", "pull_request", "issue_comment", "check_run")
}

// propose opens a pull request.
func (h *hall) propose(branch, design string) *github.Pull {
	h.repo.Push("ada", branch, "change the site", github.Files{"site.cue": design})
	return h.repo.Open(github.Proposal{Author: "ada", Head: branch, Title: "Change the site"})
}

// comment waits until what the daemon says of a pull request has some words.
func (h *hall) comment(p *github.Pull, words ...string) (text string) {
	h.t.Helper()
	h.eventually("the comment says "+strings.Join(words, ", "), func() bool {
		text = h.said(p, "plan")
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
	return text
}

// erases holds a text to naming every machine that is erased, each in a row with all
// of its disks, and gives the digest of their set.
func (h *hall) erases(text string, names ...string) (digest string) {
	h.t.Helper()
	known, err := h.ask.Known(context.Background(), "")
	check(h.t, err)
	for _, name := range names {
		row := regexp.MustCompile(`(?m)^\| \*\*` + name + `\*\* \(serial .*\|$`).FindString(text)
		seen := known.Nodes[name].Observed
		disks := slices.Clone(seen.Disks.Serials)
		for _, d := range seen.Inside.Disks {
			disks = append(disks, d.Serial)
		}
		if len(disks) == 0 || slices.ContainsFunc(disks, func(disk string) bool { return !strings.Contains(row, disk) }) {
			h.t.Errorf("no row names %s with its disks %q:\n%s", name, disks, text)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^\| \*\*\S+\*\* \(serial `).FindAllString(text, -1)); n != len(names) {
		h.t.Errorf("%d machines are named, want %q:\n%s", n, names, text)
	}
	all := regexp.MustCompile("\\(set `([0-9a-f]{32})`\\)").FindStringSubmatch(text)
	if all == nil {
		h.t.Fatalf("no set is named:\n%s", text)
	}
	return all[1]
}

// said is the one comment of the daemon's of a kind, or whose kind begins so;
// empty for none.
func (h *hall) said(p *github.Pull, kind string) (text string) {
	h.t.Helper()
	for _, c := range p.Comments() {
		if !strings.HasPrefix(c.Author(), "slipway") || !strings.HasPrefix(c.Body(), "<!-- slipway town "+kind) {
			continue
		}
		if text != "" {
			h.t.Fatalf("two comments are about %s:\n%s\n%s", kind, text, c.Body())
		}
		text = c.Body()
	}
	return text
}

// answered waits until the daemon answers a comment with a reaction, and no
// other.
func (h *hall) answered(c *github.Comment, with string) {
	h.t.Helper()
	h.eventually("a comment is answered", func() bool { return len(c.Reactions()) > 0 })
	if got := c.Reactions(); len(got) != 1 || !strings.HasPrefix(got[0], "slipway") || !strings.HasSuffix(got[0], " "+with) {
		h.t.Errorf("%q is answered with %v, want %s", c.Body(), got, with)
	}
}

// replied waits until the daemon has said in words why a comment asks for nothing.
func (h *hall) replied(p *github.Pull, why string, c *github.Comment) {
	h.t.Helper()
	h.answered(c, "confused")
	h.eventually("a comment is replied to", func() bool {
		return slices.ContainsFunc(p.Comments(), func(r *github.Comment) bool {
			return ofDaemon(r.Author()) && strings.Contains(r.Body(), fmt.Sprintf("#issuecomment-%d): ", c.ID())) && strings.Contains(r.Body(), why)
		})
	})
}

// green says whether a pull request may be merged, by its status or its Check
// Run.
func (h *hall) green(p *github.Pull) bool {
	state, _ := h.repo.Status(p.HeadID(), "slipway/town")
	runs := h.repo.Checks(p.HeadID())
	return state == "success" || len(runs) > 0 && runs[len(runs)-1].State().Conclusion == "success"
}

// keepsSecrets holds the daemon to having written its secrets nowhere.
func (h *hall) keepsSecrets(p *github.Pull) {
	h.t.Helper()
	texts := map[string]string{"the log": h.log(), "the comment": h.said(p, "plan")}
	h.readAll(texts, "state")
	for _, f := range secretForms(h.secrets) {
		for where, text := range texts {
			if strings.Contains(text, f.text) {
				h.t.Errorf("%s is in %s", f.what, where)
			}
		}
	}
}

// From a push to machines that are as was proposed: the check is pending and
// then green, the comment names what is lost, merging it approves that, and the
// comment says how it ended.
func TestPullRequestIsPlannedMergedAndFollowed(t *testing.T) {
	t.Parallel()
	h := newHall(t, atOnce, false, "--webhook-listen", "127.0.0.1:0")
	h.start()
	h.hook()
	h.converge()
	design := h.designWith("old-1", "generation: 1")
	p := h.propose("reinstall", design)
	said := h.comment(p, "**Merging this erases 1 machine.**", "**To approve:** merge. Merging approves exactly this (set `")
	digest := h.erases(said, "old-1")
	h.eventually("the check is green", func() bool { return h.green(p) })
	if got := h.repo.States(p.HeadID(), "slipway/town"); !slices.Equal(got, []string{"pending", "success"}) {
		t.Errorf("the check was %v", got)
	}
	if n := h.fleet.Machine("old-1").State().Counts.Installs; n != 0 {
		t.Errorf("it was installed %d times before it was merged", n)
	}
	h.readable("what is destroyed")
	h.tells(p, digest)
	if !strings.Contains(h.log(), "digest="+digest) {
		t.Errorf("merging approves another set than the comment's:\n%s", said)
	}
	p.Merge("ada")
	h.eventually("what was merged is on the machine", func() bool {
		s := h.fleet.Machine("old-1").State()
		return s.Marker != nil && *s.Marker == site.Marker{Node: "old-1", Generation: 1, Image: h.fleet.ImageSHA256("debian12", "old-1", 1)}
	})
	h.status("all nodes are in-sync", allInSync)
	h.comment(p, "done")
	h.eventually("whoever asks is told that it was approved and is at its end", func() bool {
		got := h.slipway(0, "proposals", fmt.Sprint(p.Number()), "--output", "json")
		return strings.Contains(got, `"approvedBy": "ada"`) && strings.Contains(got, `"ended": true`)
	})
	h.stop()
	h.keepsSecrets(p)
}

// tells holds the daemon to tell whoever asks by a command what its comment on a pull request says.
func (h *hall) tells(p *github.Pull, digest string) {
	h.t.Helper()
	for _, x := range []struct {
		args  []string
		words []string
	}{
		{[]string{"proposals", "--only", "open"}, []string{"Change the site", "1 machine is erased", "a merge, which approves erasing 1 machine"}},
		{[]string{"proposals", fmt.Sprint(p.Number())}, []string{"Approved: not yet (set " + digest, "Merging this erases 1 machine.", "old-1  erased", p.HeadID()[:12]}},
	} {
		got := strings.Join(strings.Fields(h.slipway(0, x.args...)), " ")
		for _, word := range x.words {
			if !strings.Contains(got, strings.Join(strings.Fields(word), " ")) {
				h.t.Errorf("slipway %s does not say %q:\n%s", strings.Join(x.args, " "), word, got)
			}
		}
	}
}

// Without webhooks all is found by looking, also what people ask for in
// comments; and by who asks.
func TestCommandsInComments(t *testing.T) {
	t.Parallel()
	h := newHall(t, atOnce, true)
	h.start()
	h.converge()
	p := h.propose("reinstall", h.designWith("old-1", "generation: 1"))
	h.comment(p, "old-1")
	h.answered(p.Comment("ben", "/slipway plan"), "-1")
	h.answered(p.Comment("ada", "/slipway plan"), "eyes")
	h.answered(p.Comment("ada", "/slipway plam"), "confused")
	h.answered(p.Comment("ada", "/slipway approve "+strings.Repeat("0", site.DigestDigits)+"\nI hope so"), "-1")
	h.comment(p, "old-1")
	h.replied(p, "the digest has 4 digits", p.Comment("ada", "/slipway approve 0123"))
	h.replied(p, "in a quote", p.Comment("ada", "> /slipway plan"))
	h.replied(p, "by a program", p.CommentBy("ada", h.hub.App("helper", github.Permissions{}), "/slipway plan"))
	h.stop()
	h.keepsSecrets(p)
}

// seldom is a design that is hardly ever looked for.
var seldom = rules{cue: strings.Replace(atOnce.cue, `pollEvery: "200ms"`, `pollEvery: "10m"`, 1)}

// A webhook has the daemon look at once: at a pull request, at a comment, at the
// branch. One that is forged is refused, and one that comes again is nothing new.
func TestWebhooksAreHints(t *testing.T) {
	t.Parallel()
	h := newHall(t, seldom, true, "--webhook-listen", "127.0.0.1:0")
	h.start()
	h.converge()
	hook := h.hook()
	p := h.propose("boot", h.designWith("old-1", `boot: order: ["Pxe", "Hdd"]`))
	h.comment(p, "old-1")
	h.answered(p.Comment("ada", "/slipway plan"), "eyes")
	h.eventually("the check is green", func() bool { return h.green(p) })
	h.hub.Forget()
	h.repo.Checks(p.HeadID())[0].Rerun("ada")
	h.eventually("the check is made again", func() bool {
		made := func(c github.Call) bool { return c.Write() && strings.Contains(c.Path, "/check-runs") }
		return slices.ContainsFunc(h.hub.Calls(), made) && h.green(p)
	})
	p.Merge("ada")
	h.status("what was merged is in force", func(s site.Status) bool { return s.Applied.ID == h.repo.Head("main") })
	h.hub.Settle()
	for _, d := range hook.Deliveries() {
		if d.Code() != http.StatusAccepted {
			t.Errorf("%s was answered with %d", d.Event(), d.Code())
		}
		if again, forged := d.Send(), d.Send(github.Forge(d, "another secret")); again != http.StatusAccepted || forged != http.StatusUnauthorized {
			t.Errorf("%s again was answered with %d, forged with %d", d.Event(), again, forged)
		}
	}
	h.stop()
	h.keepsSecrets(p)
}

// What was pushed after the comment was read is not approved by merging it: all
// of it is held, people are called, and it is approved by a comment on what is
// merged.
func TestWhatWasNotReadIsHeld(t *testing.T) {
	t.Parallel()
	h := newHall(t, seldom, true, "--webhook-listen", "127.0.0.1:0")
	h.start()
	h.converge()
	hook := h.hook()
	p := h.propose("reinstall", h.designWith("old-1", "generation: 1"))
	h.readable("what is destroyed")
	hook.Hold()
	both := strings.ReplaceAll(h.design(), "boot: order: [\"Hdd\", \"Pxe\"]", "boot: order: [\"Hdd\", \"Pxe\"]\n\tgeneration: 1")
	h.repo.Push("ada", "reinstall", "and the other one", github.Files{"site.cue": both})
	p.Merge("ada")
	hook.Release()
	for _, d := range hook.Deliveries() {
		if d.Code() == 0 {
			d.Send()
		}
	}
	said := h.comment(p, "**A decision is needed: 2 machines would be erased**", "Merging did **not** approve this",
		"**To erase them,** comment exactly this line, alone: `/slipway approve ")
	set := h.erases(said, "old-1", "old-2")
	h.eventually("people are called", func() bool { return h.said(p, "call") != "" })
	if h.fleet.Machine("old-1").State().Marker != nil {
		t.Error("it was installed without approval")
	}
	digest := regexp.MustCompile("`/slipway approve ([0-9a-f]{32})`").FindStringSubmatch(said)[1]
	if digest != set {
		t.Errorf("what approves it is not its set:\n%s", said)
	}
	h.answered(p.Comment("ada", "/slipway approve "+digest+"\nI have read it now."), "+1")
	h.eventually("both are installed", func() bool {
		return h.fleet.Machine("old-1").State().Marker != nil && h.fleet.Machine("old-2").State().Marker != nil
	})
	h.stop()
}
