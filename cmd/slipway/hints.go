package main

import (
	"context"
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
			p.again(ctx, h)
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

// again plans the proposals anew whose check somebody wants again.
func (p *pulls) again(ctx context.Context, h forge.Hint) {
	open, err := p.github.Open(ctx, p.branch)
	if err != nil {
		p.log.Warn("check not made again", "revision", h.Commit, "err", err)
		return
	}
	for _, x := range open {
		if x.Head == h.Commit {
			p.reviews.Again(x.Number)
		}
	}
}
