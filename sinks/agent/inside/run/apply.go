package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// applyLocked applies items with the host's lock held and in a current term.
func (p *Program) applyLocked(ctx context.Context, r wire.Request, result *wire.Result) error {
	if r.Apply == nil {
		return refused("the request to apply does not say what to apply")
	}
	facet := r.Apply.Facet
	if _, ok := p.Facets[facet]; !ok {
		return p.unknown(facet)
	}
	unlock, err := p.lock(facet)
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.fence(r.Site, r.Term); err != nil {
		return err
	}
	p.Host.Once, p.Host.Again, p.Host.Targets = r.Apply.Once, r.Apply.Again, r.Apply.Targets
	p.Host.Wants, p.Host.Keys = item.Needing(r.Apply.Items), item.DigestKeys(r.Apply.Items)
	err = p.apply(ctx, r, result)
	result.Term = max(result.Term, r.Term)
	seen, unseen := p.observe(ctx, facet, item.Keys(r.Apply.Items))
	if unseen == nil || len(seen.Owned) > 0 {
		result.Facets = map[string]wire.Facet{facet: seen}
	}
	p.unconfirmed(result)
	if err == nil {
		err = unseen
	}
	if err == nil {
		err = asAsked(p.certified(r.Apply.Items), seen)
	}
	return err
}

// apply changes what differs, and records that in the journal first. If nothing differs, it writes nothing.
func (p *Program) apply(ctx context.Context, r wire.Request, result *wire.Result) error {
	j, err := p.readJournal()
	if err != nil {
		return err
	}
	remove, disagrees := p.removable(j, r.Apply)
	items, kept := p.settable(j, r.Apply)
	if disagrees = cmp.Or(disagrees, kept); kept != nil {
		only := *r.Apply
		only.Items = items
		r.Apply = &only
	}
	if j.Begun != nil {
		p.Host.Tell(j.Begun.unended())
	} else if len(remove) == 0 && !p.returns(r.Apply) {
		seen, err := p.observe(ctx, r.Apply.Facet, item.Keys(r.Apply.Items))
		if err == nil && isAsAsked(r.Apply.Items, seen) {
			return disagrees
		}
	}
	if err := p.begin(&j, r, remove); err != nil {
		return err
	}
	if err := p.Host.Owned.Ask(r.Apply.Facet, r.Apply.Items); err != nil {
		return p.giveUp(&j, err)
	}
	if err := p.Facets[r.Apply.Facet].Apply(ctx, p.Host, r.Apply.Items, remove); err != nil {
		return p.giveUp(&j, errors.Join(err, p.Host.Owned.NoteAsked(r.Apply.Facet, p.soFar(ctx, r.Apply))))
	}
	if err := p.Host.Owned.NoteAsked(r.Apply.Facet, r.Apply.Items); err != nil {
		return p.giveUp(&j, err)
	}
	if err := p.end(&j); err != nil {
		return err
	}
	return disagrees
}

// soFar are the items that match the request although others of their facet do not. It leaves out items with a
// field to restore, because whether the field is restored is unknown.
func (p *Program) soFar(ctx context.Context, a *wire.Apply) []item.Item {
	seen, err := p.observe(ctx, a.Facet, item.Keys(a.Items))
	if err != nil {
		return nil
	}
	asked := p.Host.Owned.Asked(a.Facet)
	return slices.DeleteFunc(slices.Clone(a.Items), func(i item.Item) bool {
		return len(i.Returning(asked[i.Key])) > 0 || !isAsAsked([]item.Item{i}, seen)
	})
}

// returns reports whether an item has a field to restore, because the design no longer names the field.
func (p *Program) returns(a *wire.Apply) bool {
	asked := p.Host.Owned.Asked(a.Facet)
	return slices.ContainsFunc(a.Items, func(i item.Item) bool { return len(i.Returning(asked[i.Key])) > 0 })
}

// removable are the keys that may be removed. If the machine's list of what Slipway made matches the records, or
// our own runs explain the difference, these are all keys. Otherwise there are none, and an error says so.
func (p *Program) removable(j journal, a *wire.Apply) ([]string, error) {
	remove := slices.DeleteFunc(slices.Clone(a.Remove), func(key string) bool {
		_, ours := p.Host.Owned.Entry(a.Facet, key)
		return !ours
	})
	if len(remove) == 0 {
		return nil, nil
	}
	if !p.agrees(j, a) {
		return nil, refused("nothing was removed of %s: %s", brief(remove), p.edited(a))
	}
	return remove, nil
}

// settable are the items that may be applied. If the machine's list does not match the records, it leaves out items
// with a field to restore, because the list says which; an error says so, as for a removal.
func (p *Program) settable(j journal, a *wire.Apply) ([]item.Item, error) {
	if p.agrees(j, a) {
		return a.Items, nil
	}
	asked := p.Host.Owned.Asked(a.Facet)
	var items []item.Item
	var kept []string
	for _, i := range a.Items {
		if fields := i.Returning(asked[i.Key]); len(fields) == 0 {
			items = append(items, i)
		} else {
			kept = append(kept, i.Key+" ("+strings.Join(fields, ", ")+")")
		}
	}
	if len(kept) == 0 {
		return a.Items, nil
	}
	return items, refused("nothing was set back of %s: %s", brief(kept), p.edited(a))
}

// agrees reports whether the machine's list of what Slipway made matches the records, or our own runs explain the
// difference.
func (p *Program) agrees(j journal, a *wire.Apply) bool {
	digest := p.Host.Owned.Digest()
	return digest == a.Owned || j.explains(a.Owned, digest)
}

func (p *Program) edited(a *wire.Apply) string {
	return fmt.Sprintf("the machine's list of what Slipway made (%s) is not the one in Slipway's records (%s), "+
		"so it was changed by something else; check %s on the machine, then run `slipway approve NODE` to accept the list", p.Host.Owned.Digest(), orNone(a.Owned), p.Host.Owned.Path())
}

func orNone(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest
}

// brief names a few keys.
func brief(keys []string) string {
	const some = 5
	text := strings.Join(keys[:min(len(keys), some)], ", ")
	if more := len(keys) - some; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// certified are items with the digests of the certificates that were set.
func (p *Program) certified(items []item.Item) []item.Item {
	set := slices.Clone(items)
	for i := range set {
		if digest := p.Host.Certified[set[i].Key]; digest != "" {
			set[i].Fields = maps.Clone(set[i].Fields)
			set[i].Fields["names"] = digest
		}
	}
	return set
}

func isAsAsked(items []item.Item, seen wire.Facet) bool { return asAsked(items, seen) == nil }

// asAsked says which items do not match the request, now or after the next boot. It skips a field that the system
// cannot have yet: the daemon is told about that.
func asAsked(items []item.Item, seen wire.Facet) error {
	var differ []string
	for _, i := range items {
		for field, want := range i.Fields {
			name := item.Name(i.Key, field)
			unread := cmp.Or(seen.Unread[i.Key], seen.Unread[name])
			switch have := seen.Have[name]; {
			case unread != "":
				differ = append(differ, fmt.Sprintf("%s cannot be read: %s", name, unread))
			case have == want || seen.Pending[name] == want && want != "":
			case have == "" && field == "state" && want == item.Absent: // a missing item has no value
			case item.Lacking(seen.Cannot, name, want) != "" && name != i.Key:
			case seen.Cannot[i.Key] != "":
				differ = append(differ, fmt.Sprintf("%s: %s", i.Key, seen.Cannot[i.Key]))
			case field == "password", item.IsKeyed(want):
				differ = append(differ, name+" is not the one that should be set")
			default:
				differ = append(differ, fmt.Sprintf("%s is %q and not %q", name, have, want))
			}
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return failed("not as designed after it was set: %s", brief(slices.Compact(differ)))
}

// confirmLocked confirms a change that waits for its proof.
func (p *Program) confirmLocked(ctx context.Context, r wire.Request, result *wire.Result) error {
	unlock, err := p.lock("confirm")
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.fence(r.Site, r.Term); err != nil {
		return err
	}
	result.Term = max(result.Term, r.Term)
	for _, f := range p.Facets {
		if c, ok := f.(Confirmer); ok {
			return c.Confirm(ctx, p.Host, r.Confirm)
		}
	}
	return refused("no facet of the program on the machine has changes to confirm")
}
