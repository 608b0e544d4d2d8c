package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/sources/dir"
	"github.com/slipway-gitops/slipway/sources/git"
)

// follow makes the source, and the remote that the status goes to.
func follow(f runFlags, p *pulls, secrets *secret.Store, log *slog.Logger) (engine.Source, *repo.Remote, error) {
	if f.dir != "" {
		return dir.New(f.dir, log), nil, nil
	}
	remote, err := openRemote(f, p, secrets)
	if err != nil {
		return nil, nil, err
	}
	s, err := git.New(git.Config{
		Remote: remote, Branch: f.branch, Dir: filepath.Join(f.state, "repository"), AllowRewrite: f.allowRewrite, Log: log,
	})
	return s, &remote, err
}

func openRemote(f runFlags, p *pulls, secrets *secret.Store) (repo.Remote, error) {
	u, err := url.Parse(f.repo)
	if err != nil || u.Scheme != "ssh" && u.Scheme != "https" {
		return repo.New(f.repo, secret.Value{}, "")
	}
	if p.github != nil && p.github.Is(u) && !f.repoCredentialGiven {
		return repo.NewHTTPS(f.repo, p.github.Login(u), cmp.Or(f.repoCA, f.pulls.ca))
	}
	ask, err := secret.For(f.repoCredential, secret.Git, u)
	if err != nil {
		return repo.Remote{}, fmt.Errorf("repository: %w", err)
	}
	value, err := secrets.Get(ask)
	switch {
	case err != nil:
		return repo.Remote{}, fmt.Errorf("repository: %w", err)
	case u.Scheme == "ssh":
		return repo.New(f.repo, value, f.knownHosts)
	}
	// A token expires: the next one is a file put in the place of its own.
	login := func(context.Context) (secret.Value, error) { return secrets.Get(ask) }
	return repo.NewHTTPS(f.repo, login, f.repoCA)
}

// siteName is the site to keep: the named one, or the repository's only one.
// It is remembered, for a start while the repository is away.
func siteName(ctx context.Context, f runFlags, s engine.Source) (string, error) {
	memo := filepath.Join(f.state, "site")
	text, err := os.ReadFile(memo)
	last := strings.TrimSpace(string(text))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if f.site != "" {
		return f.site, remember(memo, last, f.site)
	}
	rev, err := s.Fetch(ctx)
	if err != nil {
		if last != "" {
			return last, nil
		}
		return "", fmt.Errorf("%w; pass --site to start without the repository", err)
	}
	names, err := design.Sites(rev.Files)
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", errors.New("the repository holds no site: put one at its root or under sites/ (slipway check says more)")
	case len(names) > 1:
		return "", fmt.Errorf("the repository holds several sites: choose one with --site: %s", strings.Join(names, ", "))
	}
	if last != "" && last != names[0] {
		return "", fmt.Errorf("the repository holds site %s, and the records in %s are of site %s: a renamed site has no records; pass --site with the one that you want", names[0], f.state, last)
	}
	return names[0], remember(memo, last, names[0])
}

// remember has the memo say a name, as a whole: a daemon that is killed over it
// starts again.
func remember(memo, last, name string) error {
	if name == last {
		return nil
	}
	return replaceFile(memo, []byte(name+"\n"), 0o600)
}
