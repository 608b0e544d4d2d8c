package actions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// bring installs the packages, then the files and units of an action. They are not on the list of what Slipway
// made: they stay when the action leaves the design. A separate list records the progress until the action is done.
func (f *Facet) bring(ctx context.Context, h *inside.Host, name string, a item.Action) error {
	own := *h
	var err error
	if own.Owned, err = inside.LoadOwnedFrom(file(h, name, "brought")); err != nil {
		return err
	}
	for _, of := range []struct {
		facet string
		items []item.Item
	}{{"packages", a.Packages}, {"config", a.Config}} {
		if len(of.items) == 0 {
			continue
		}
		h.Tell(fmt.Sprintf("put what the boot action %s brings there: %s", name, strings.Join(item.Keys(of.items), ", ")))
		own.Keys = item.DigestKeys(of.items)
		if f.step != nil {
			if err := f.step("bring " + of.facet); err != nil {
				return err
			}
		}
		if err := f.brings[of.facet].Apply(ctx, &own, of.items, nil); err != nil {
			return fmt.Errorf("what the boot action %s brings: %w", name, err)
		}
		seen, err := f.brings[of.facet].Observe(ctx, &own, item.Keys(of.items))
		if err != nil {
			return fmt.Errorf("what the boot action %s brings: %w", name, err)
		}
		if differ := differing(of.items, seen); len(differ) > 0 {
			return fmt.Errorf("what the boot action %s brings is not as designed after it was put there: %s", name, strings.Join(differ, ", "))
		}
	}
	return nil
}

// differing lists the fields of items that differ from the request.
func differing(items []item.Item, seen inside.Seen) (names []string) {
	for name, want := range item.Values(items) {
		isGone := want == item.Absent && seen.Have[name] == ""
		if seen.Have[name] != want && seen.Pending[name] != want && !isGone {
			what := fmt.Sprintf("%s is %q and not %q", name, seen.Have[name], want)
			if item.IsKeyed(want) {
				what = name + " is not the one that should be set"
			}
			names = append(names, what)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), 5)]
}
