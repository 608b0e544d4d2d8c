package run

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the bounds on what is reported of one facet.
const (
	maxFound = 4000
	maxLeft  = 1000
	maxBody  = 64 << 10 // bytes of one item's fields and body
)

// survey lists what some facets contain. If one facet cannot be listed, the others are still reported.
func (p *Program) survey(ctx context.Context, facets []string, result *wire.Result) error {
	all := map[string]item.Found{}
	for _, name := range facets {
		f, served := p.Facets[name]
		if !served {
			return p.unknown(name)
		}
		lists, ok := f.(inside.Surveyor)
		if !ok {
			continue
		}
		found, err := lists.Survey(ctx, p.Host)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			found.Items = nil
			found.Leave("the facet "+name, "it could not be listed: %v", err)
		}
		all[name] = p.foreign(name, found)
	}
	text, err := json.Marshal(all)
	result.Found = text
	return err
}

// foreign is what was found and Slipway did not make, within bounds.
func (p *Program) foreign(facet string, found item.Found) item.Found {
	var told item.Found
	slices.SortFunc(found.Items, func(a, b item.Item) int { return strings.Compare(a.Key, b.Key) })
	for _, i := range found.Items {
		size := len(i.Body)
		for name, text := range i.Fields {
			size += len(name) + len(text)
		}
		switch _, ours := p.Host.Owned.Entry(facet, i.Key); {
		case ours:
		case size > maxBody || len(i.Key) > maxText:
			found.Leave(i.Key, "it has %d bytes, more than %d", size, maxBody)
		case len(told.Items) == maxFound:
			found.Leave(i.Key, "there are more than %d items", maxFound)
		default:
			told.Items = append(told.Items, i)
		}
	}
	for _, l := range found.Left[:min(len(found.Left), maxLeft)] {
		told.Left = append(told.Left, item.Left{What: clip(l.What), Why: clip(l.Why)})
	}
	if more := len(found.Left) - maxLeft; more > 0 {
		told.Leave("the facet "+facet, "%d more are not listed", more)
	}
	return told
}
