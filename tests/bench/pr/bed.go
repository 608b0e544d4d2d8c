package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/github"
	"github.com/slipway-gitops/slipway/tests/lab"
	"github.com/slipway-gitops/slipway/tests/port"
)

const (
	bot    = "slipway-bot"
	secret = "bench"
)

// pace looks rarely: what is measured is how soon a webhook is acted on.
var pace = rig.Pace{Poll: "5m", Observe: "60s", Report: "30s"}

// bed is a fleet, the repository of its site on a GitHub, and the daemon that
// keeps both.
type bed struct {
	*rig.Daemon
	dir   string
	fleet *lab.Fleet
	gh    *github.Server
	repo  *github.Repository
	site  string // the file in which the profile of all nodes is
}

// newBed starts n machines that are as designed, and a daemon on their site.
func newBed(n int) (b *bed, err error) {
	b = &bed{}
	if b.dir, err = os.MkdirTemp("", "slipway-bench-"); err != nil {
		return b, err
	}
	if b.fleet, err = lab.Start(lab.Config{Seed: rig.Seed, Latency: lab.Latency{GET: 50 * time.Millisecond}, Machines: rig.Machines(n, "on")}); err != nil {
		return b, err
	}
	b.fleet.Certify() // real BMCs have theirs
	return b, b.follow(rig.Site(n, b.fleet.BMCPort(), "on", pace))
}

// follow puts a site on a GitHub and starts a daemon that follows it there.
func (b *bed) follow(site map[string]string) error {
	b.site = site["site.cue"]
	dir := filepath.Join(b.dir, "github")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	b.gh = github.New(github.Config{Dir: dir})
	b.gh.Listen()
	b.repo = b.gh.Repository("bench/site")
	b.repo.Grant("ann", github.Write)
	b.repo.Grant(bot, github.Write)
	b.repo.Push("ann", "main", "site", site)
	address, err := port.Address()
	if err != nil {
		return err
	}
	ca := filepath.Join(b.dir, "ca.pem")
	if err := os.WriteFile(ca, b.gh.CA(), 0o600); err != nil {
		return err
	}
	b.Daemon, err = rig.Follow(b.dir, b.repo.CloneURL(), map[string]string{
		"bmc": rig.Account("127.0.0.0/8", rig.Password), "github": rig.Account("127.0.0.1", b.gh.Token(bot, "repo")), "webhook": rig.Account("127.0.0.1", secret),
	}, "--repo-ca", ca, "--github", "bench/site", "--github-api", b.gh.API(), "--github-ca", ca, "--webhook-listen", address)
	b.repo.Hook("http://"+address+"/", secret, "push", "pull_request", "issue_comment")
	return err
}

// close ends everything, and shows the log's end after an error.
func (b *bed) close(failed error) {
	if b.Daemon != nil {
		b.Daemon.Close(failed)
	}
	if b.gh != nil {
		b.gh.Close()
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	os.RemoveAll(b.dir)
}

// edited is the site with another boot order in the profile that all nodes
// have, and something that tells it from the other edits.
func (b *bed) edited(i int) github.Files {
	return github.Files{"site.cue": strings.Replace(b.site, `boot: order: ["Hdd", "Pxe"]`, fmt.Sprintf(`boot: order: ["Pxe", "Hdd"] // %d`, i), 1)}
}

// read waits until people can read of a commit in the daemon's comment, and
// gives the comment.
func read(ctx context.Context, p *github.Pull, commit string) (string, error) {
	for {
		for _, c := range p.Comments() {
			if text := c.Body(); c.Author() == bot && strings.Contains(text, commit[:12]) {
				return text, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no comment on %.7s: %w", commit, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}
