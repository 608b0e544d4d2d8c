package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/copies"
	"github.com/slipway-gitops/slipway/engine/member"
	"github.com/slipway-gitops/slipway/engine/retry"
)

// copyListen is where the daemons of a site give each other copies of artifacts.
const copyListen = ":9482"

func (f *etcdFlags) checkCopies() error {
	if f.copies == noListener {
		return nil
	}
	if _, _, err := net.SplitHostPort(f.copies); err != nil {
		return usage("--copy-listen %q is not HOST:PORT, :PORT or off", f.copies)
	}
	return nil
}

// openCopies begins to copy artifacts between the daemons of the site, for as long as this one runs. It is nil for a
// daemon that shares its records with nobody.
func (d *daemon) openCopies(ctx context.Context) (err error) {
	if !d.etcd.used() || d.files == nil {
		return nil
	}
	c := copies.Config{Records: d.store.Copies(d.name), Files: d.files, Log: d.log}
	if c.Name, c.Host, c.Reach, err = d.etcd.holder(d.state); err != nil {
		return err
	}
	if c.Listen, err = d.etcd.copiesAt(c.Reach); err != nil {
		return err
	}
	if d.copies, err = copies.New(c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { d.copies.Run(ctx) })
	d.onClose(func() { cancel(); running.Wait() })
	return nil
}

// holder is who this daemon is among those with an artifact store, and how the others reach it.
func (f *etcdFlags) holder(state string) (name, host string, reach func() (string, error), err error) {
	if f.join != "" {
		folder, err := member.Open(f.join)
		if err != nil {
			return "", "", nil, fmt.Errorf("--join: %w", err)
		}
		own, _, err := net.SplitHostPort(folder.Address)
		return folder.Address, folder.Address, func() (string, error) { return own, nil }, err
	}
	reach = func() (string, error) { return f.seen(artifact.Towards) }
	if name, err = storeName(artifactsIn(state)); err != nil {
		return "", "", nil, err
	}
	if host, err = os.Hostname(); err != nil {
		return "", "", nil, err
	}
	if at, err := reach(); err == nil {
		host += " (" + at + ")"
	}
	return name, host, reach, nil
}

// seen is this host's address as others see it: towards the first member of etcd that is on another host, if any is.
func (f *etcdFlags) seen(towards func(host string) (string, error)) (string, error) {
	var own string // the first way that there is, to this host itself
	var all []error
	for _, text := range f.endpoints() {
		u, err := url.Parse(text)
		if err != nil {
			return "", err
		}
		switch at, err := towards(u.Hostname()); {
		case err != nil:
			all = append(all, err)
		case !isLoopback(at):
			return at, nil
		default:
			own = cmp.Or(own, at)
		}
	}
	if own != "" {
		return own, nil
	}
	return "", errors.Join(all...)
}

// copiesAt is where copies are given: with members at the address of this one alone.
func (f *etcdFlags) copiesAt(reach func() (string, error)) (string, error) {
	if f.copies == noListener {
		return "", nil
	}
	host, port, err := net.SplitHostPort(f.copies)
	if err != nil || host != "" || f.join == "" {
		return f.copies, err
	}
	if host, err = reach(); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

// storeName is a random name of an artifact store, which stays the same.
func storeName(dir string) (string, error) {
	file := filepath.Join(dir, "name")
	text, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(text)) != "" {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name := strings.ToLower(rand.Text())
	return name, replaceFile(file, []byte(name+"\n"), 0o600)
}

// shelf is the artifact store as people work with it; nil for none.
func (d *daemon) shelf() artifact.Keeper {
	switch {
	case d.copies != nil:
		return d.copies.Keeper()
	case d.files != nil:
		return d.files
	}
	return nil
}

// copyNotes says which artifacts would be lost with one host.
func (d *daemon) copyNotes() []string {
	if d.copies == nil {
		return nil
	}
	return d.copies.Notes()
}

// watchCopies reports what keeps artifacts from being copied as a problem of the site.
func (d *daemon) watchCopies(ctx context.Context) error {
	d.copies.Lead(d.records, func() (map[string]bool, error) { return namedFiles(d.engine, d.pulls.reviews) })
	for ok := true; ok; ok = retry.Sleep(ctx, watchEvery) {
		d.engine.Problem("copies", d.copies.Problem())
	}
	return nil
}

// followerShelf is the artifact store of a daemon that follows: it can be looked at and verified.
type followerShelf struct {
	artifact.Keeper
	elsewhere func() error
}

func (s followerShelf) AddFile(context.Context, io.Reader, int64, string, string, func(int64)) (artifact.Info, error) {
	return artifact.Info{}, s.elsewhere()
}

func (s followerShelf) AddURL(context.Context, artifact.File, func(have, size int64)) (artifact.Info, error) {
	return artifact.Info{}, s.elsewhere()
}

func (s followerShelf) Collect(context.Context, time.Duration, bool) ([]artifact.Info, error) {
	return nil, s.elsewhere()
}

// Artifacts implements control.Shelf.
func (w *follower) Artifacts() artifact.Keeper {
	return followerShelf{w.copies.Keeper(), w.elsewhere}
}
