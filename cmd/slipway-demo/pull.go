package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/github"
	"github.com/slipway-gitops/slipway/tests/lab"
	"github.com/slipway-gitops/slipway/tests/port"
)

// The simulated GitHub, and who is there.
const (
	repository = "demo/example"
	checkName  = "slipway/example"
	bot        = "slipway-bot"
	colleague  = "grace"
)

// forge is a GitHub on loopback that has the site's repository.
type forge struct {
	*github.Server
	repo   *github.Repository
	listen string // where the daemon takes webhooks
}

// openForge begins a GitHub whose repository is site.git, and leaves what the
// daemon needs for it.
func (s *stage) openForge() error {
	if err := os.Mkdir("github", 0o700); err != nil {
		return err
	}
	listen, err := port.Address()
	if err != nil {
		return err
	}
	s.forge = &forge{Server: github.New(github.Config{Dir: "github"}), listen: listen}
	s.forge.Listen()
	s.forge.repo = s.forge.Repository(repository)
	s.forge.repo.Grant(bot, github.Write)
	s.forge.repo.Grant(colleague, github.Write)
	token, secret := s.forge.Token(bot, "repo"), s.forge.Token(bot)
	s.forge.repo.Hook("http://"+s.forge.listen+"/", secret, "pull_request")
	const credential = "hosts: 127.0.0.1\nuse: %s\nports: 1024-65535\n\n%s\n"
	return errors.Join(
		os.Symlink(s.forge.repo.Dir(), "site.git"),
		os.WriteFile("github.pem", s.forge.CA(), 0o600),
		os.WriteFile(credentials+"/github", fmt.Appendf(nil, credential, "github", token), 0o600),
		os.WriteFile(credentials+"/webhook", fmt.Appendf(nil, credential, "webhook", secret), 0o600))
}

// flags are what the daemon needs to speak there.
func (f *forge) flags() []string {
	return []string{"--github", repository, "--github-api", f.API(), "--github-ca", "github.pem", "--webhook-listen", f.listen}
}

// readingTime is what a person takes at least to read a comment. Merging approves
// what was there to be read, and nothing that nobody can have read.
const readingTime = 3 * time.Second

// pull proposes a change that erases a machine, and has a colleague merge it.
func pull(ctx context.Context, s *stage) error {
	if err := s.git(ctx, "checkout", "-q", "-b", "fresh"); err != nil {
		return err
	}
	err := errors.Join(
		s.edit("rack-3.cue", freshNode, strings.Replace(freshNode, "generation: 1", "generation: 2", 1)),
		s.edit("lab.cue", imageOf("compute-6", 1), imageOf("compute-6", 2)),
		s.edit("rack-3.cue", `"storage-3": schema.#Layer & {`, `"storage-3": schema.#Layer & {`+"\n\t\t"+networkFirst))
	if err == nil {
		err = s.commit(ctx, "a fresh system for compute-6")
	}
	if err != nil {
		return err
	}
	p := s.forge.repo.Open(github.Proposal{Author: "you", Head: "fresh", Title: "A fresh system for compute-6"})
	s.show.proof("pull request 1 is open on the (simulated) GitHub")
	text, err := s.untilSaid(ctx, p, "Merging approves exactly this")
	if err != nil {
		return err
	}
	state, _ := s.forge.repo.Status(s.head, checkName)
	s.show.proof(fmt.Sprintf("check %s: %s; and a comment says:", checkName, state))
	s.show.comment(text)
	pause(ctx, readingTime)
	p.Merge(colleague)
	s.show.proof(colleague + " has read it, and merges")
	err = errors.Join(s.git(ctx, "checkout", "-q", "main"), s.git(ctx, "pull", "-q"), s.readHead(ctx))
	if err != nil {
		return err
	}
	if err := s.untilInSync(ctx, func() bool { m := s.machine(ctx, "compute-6").Marker; return m != nil && m.Generation == 2 }); err != nil {
		return err
	}
	if text, err = s.untilSaid(ctx, p, "done"); err != nil {
		return err
	}
	s.show.proof("12 of 12 in-sync, and now the same comment says:")
	s.show.comment(text)
	return s.showInstalled(ctx, "compute-6")
}

// imageOf is the digest of the image that the lab makes for a node in a generation.
func imageOf(node string, generation int) string {
	return lab.ImageSHA256("example", "debian12", node, generation)
}

// freshNode is the end of compute-6 in its file.
const freshNode = "addresses: {bmc: \"127.83.3.4\", os: \"127.84.3.4\"}\n\t\tgeneration: 1"

// untilSaid waits until the daemon's comment on a pull request says something.
func (s *stage) untilSaid(ctx context.Context, p *github.Pull, words string) (text string, err error) {
	err = s.until(ctx, "a comment that says "+words, 40*time.Second, func(*site.Report) bool {
		for _, c := range p.Comments() {
			if c.Author() == bot && strings.Contains(c.Body(), words) {
				text = c.Body()
				return true
			}
		}
		return false
	})
	return text, err
}

var (
	folded = regexp.MustCompile(`(?s)<details><summary>(.*?)</summary>.*?</details>`)
	marks  = regexp.MustCompile(`(?s)<!--.*?-->\s*|</?(?:code|sub)>|(?m:^### |^> \[!CAUTION\]\n|^> |^\|[-|]+\|\n)|\*\*|` + "`")
	links  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	blanks = regexp.MustCompile(`\n{2,}`)
)

// readable is a comment as its readers see it, without what is folded and
// without the empty lines between its parts.
func readable(comment string) []string {
	comment = folded.ReplaceAllString(comment, "▸ $1")
	comment = links.ReplaceAllString(marks.ReplaceAllString(comment, ""), "$1")
	comment = strings.ReplaceAll(html.UnescapeString(comment), "\u200b", "")
	return strings.Split(strings.TrimSpace(blanks.ReplaceAllString(comment, "\n")), "\n")
}

func (s *screen) comment(text string) {
	for _, line := range readable(text) {
		s.quote(line)
	}
}
