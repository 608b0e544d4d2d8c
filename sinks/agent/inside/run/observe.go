package run

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// observeAll looks at facets. If one facet cannot be observed, only its own keys are reported as unread.
func (p *Program) observeAll(ctx context.Context, r wire.Request, result *wire.Result) error {
	defer p.probe(ctx, r.Health, result)()
	defer p.links(ctx, r.Links, result)()
	result.Busy = p.lockedBy()
	result.Facets = map[string]wire.Facet{}
	for _, facet := range slices.Sorted(maps.Keys(r.Observe)) {
		seen, err := p.observe(ctx, facet, r.Observe[facet])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			seen.Unread = map[string]string{}
			for _, key := range p.keys(facet, r.Observe[facet]) {
				seen.Unread[key] = clip(err.Error())
			}
		}
		result.Facets[facet] = seen
	}
	p.unconfirmed(result)
	return nil
}

// probe starts a look at the system's health, in parallel with everything else. It returns a function that waits
// for the result.
func (p *Program) probe(ctx context.Context, asked *item.Probes, result *wire.Result) (wait func()) {
	if asked == nil || p.Probe == nil {
		return func() {}
	}
	seen := make(chan inside.Seen, 1)
	go func() { seen <- p.Probe(ctx, p.Host, *asked) }()
	return func() {
		s := <-seen
		result.Health = &wire.Facet{Have: s.Have, Unread: s.Unread}
	}
}

// links starts a look at the system's links, in parallel with everything else. It returns a function that waits for
// the result. Its failure affects nothing else.
func (p *Program) links(ctx context.Context, asked *item.LinkProbes, result *wire.Result) (wait func()) {
	if asked == nil || p.Links == nil {
		return func() {}
	}
	var seen *item.LinksSeen
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				seen, err = nil, fmt.Errorf("this is a fault of Slipway, report it: %v", v)
			}
		}()
		seen, err = p.Links(ctx, p.Host, *asked)
	}()
	return func() {
		<-done
		if err != nil {
			result.LinksUnread = clip(err.Error())
			return
		}
		seen.BootID = result.System.BootID
		result.Links = seen
	}
}

// observe looks at one facet.
func (p *Program) observe(ctx context.Context, facet string, asked []string) (wire.Facet, error) {
	told := wire.Facet{Owned: p.Host.Owned.Keys(facet), Asked: p.Host.Owned.Asked(facet)}
	f, ok := p.Facets[facet]
	if !ok {
		return told, p.unknown(facet)
	}
	seen, err := f.Observe(ctx, p.Host, p.keys(facet, asked))
	told.Have, told.Pending, told.Unread, told.Cannot, told.Waits = seen.Have, seen.Pending, seen.Unread, seen.Cannot, seen.Waits
	told.Contents, told.Hashes, told.Upgrades = seen.Contents, seen.Hashes, seen.Upgrades
	return told, err
}

// keys are those that the design asks for and those that Slipway owns.
func (p *Program) keys(facet string, asked []string) []string {
	keys := slices.Concat(asked, p.Host.Owned.Keys(facet))
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (p *Program) unknown(facet string) error {
	return refused("the program on the machine does not know the facet %q; it knows %v", facet, slices.Sorted(maps.Keys(p.Facets)))
}

// unconfirmed reports a change that waits to be confirmed, or was interrupted.
func (p *Program) unconfirmed(result *wire.Result) {
	for _, f := range p.Facets {
		if u, ok := f.(Unconfirmer); ok {
			if name, seconds := u.Unconfirmed(p.Host); name != "" {
				result.Unconfirmed, result.Deadline = name, seconds
			}
		}
		if i, ok := f.(Interruptible); ok {
			if seconds, is := i.CutShort(p.Host); is {
				result.CutShort, result.Deadline = true, seconds
			}
		}
	}
}
