package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// heed looks where hints say, until the context ends.
func (p *pulls) heed(ctx context.Context) error {
	for {
		h, err := p.hook.hints.Next(ctx)
		if err != nil {
			return nil
		}
		if h.About == forge.AboutCheck {
			p.again.heed(ctx, h)
			continue
		}
		p.look(h)
		time.AfterFunc(lag, func() { p.look(h) })
	}
}

// lag is after what time one looks once more: what GitHub tells of may not be
// there at once wherever it is asked.
const lag = 5 * time.Second

// look has those look whom a hint concerns.
func (p *pulls) look(h forge.Hint) {
	if h.About == forge.AboutAnything || h.About == forge.AboutBranch && h.Branch == p.branch {
		select {
		case p.news <- struct{}{}:
		default: // it is known
		}
	}
	if h.About == forge.AboutAnything || h.About == forge.AboutComment {
		p.listener.Look()
	}
	if h.About != forge.AboutComment {
		p.reviews.Look()
	}
}

// again plans proposals anew whose check somebody wants again.
type again struct {
	proposals forge.Proposals
	branch    string
	check     string // ours
	plan      func(number int)
	hints     *forge.Hints
	log       *slog.Logger
}

// heed does what a hint asks for that is about a check. Nobody asks twice: where
// it is not known which proposals have the commit, it is asked for once more in
// a while.
func (a *again) heed(ctx context.Context, h forge.Hint) {
	if h.Check != "" && h.Check != a.check { // without a name it is all of ours
		return
	}
	open, err := a.proposals.Open(ctx, a.branch)
	if err != nil {
		a.log.Warn("could not list the open pull requests to repeat a check; trying again", "revision", h.Commit, "err", err)
		time.AfterFunc(lull(err), func() { a.hints.Add(h) })
		return
	}
	for _, x := range open {
		if x.Head == h.Commit {
			a.plan(x.Number)
		}
	}
}

// lull is how long to leave the forge alone after an error.
func lull(err error) time.Duration {
	var limited *forge.Limited
	if errors.As(err, &limited) {
		return max(time.Until(limited.Until), time.Minute)
	}
	return time.Minute
}
