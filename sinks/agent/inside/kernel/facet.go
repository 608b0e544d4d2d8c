// Package kernel observes and applies the kernel of a system: the package that provides it, and its command line
// parameters.
package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// name is the name of the facet.
const name = "kernel"

// New is the facet kernel.
func New() inside.Facet { return facet{} }

// facet is the facet kernel; before is called before each write, for tests.
type facet struct{ before func(what string) error }

// work is one call of the facet.
type work struct {
	ctx   context.Context
	h     *inside.Host
	tree  *tree.Tree
	items inside.Entries
	seen  inside.Seen
}

func (f facet) begin(ctx context.Context, h *inside.Host) (*work, error) {
	t, err := tree.Open(h.Root)
	if err != nil {
		return nil, err
	}
	t.Before, t.Label = f.before, h.Label
	return &work{ctx: ctx, h: h, tree: t, items: inside.Entries{Owned: h.Owned, Facet: name, Step: f.before}, seen: inside.Seen{
		Have: map[string]string{}, Pending: map[string]string{}, Unread: map[string]string{}, Cannot: map[string]string{},
	}}, nil
}

// Observe returns the state of the items with these keys.
func (f facet) Observe(ctx context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	w, err := f.begin(ctx, h)
	if err != nil {
		return inside.Seen{}, err
	}
	defer w.tree.Close()
	var parameters []string
	for _, key := range keys {
		switch item.Kind(key) {
		case item.KindKernel:
			w.observeKernel(key)
		case item.KindParameters:
			parameters = append(parameters, key)
		default:
			w.seen.Cannot[key] = fmt.Sprintf("the facet kernel has no items of the kind %q", item.Kind(key))
		}
	}
	w.observeParameters(parameters)
	return w.seen, nil
}

// Apply makes the items match the request. The package goes first, because the parameters are for its kernel.
func (f facet) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	w, err := f.begin(ctx, h)
	if err != nil {
		return err
	}
	defer w.tree.Close()
	var parameters []item.Item
	for _, i := range items {
		switch item.Kind(i.Key) {
		case item.KindKernel:
			if err := w.applyKernel(i); err != nil {
				return err
			}
		case item.KindParameters:
			parameters = append(parameters, i)
		}
	}
	var leaving []string
	for _, key := range remove {
		_, ours := h.Owned.Entry(name, key)
		switch asked := slices.ContainsFunc(items, func(i item.Item) bool { return i.Key == key }); {
		case !ours || asked:
		case item.Kind(key) == item.KindKernel:
			if err := w.removeKernel(key); err != nil {
				return err
			}
		default:
			leaving = append(leaving, key)
		}
	}
	return w.applyParameters(parameters, leaving)
}

// refused is an error that a person must decide about.
func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// container reports whether the system is a container, which has no kernel of its own.
func (w *work) container() bool {
	return w.tree.Exists("/run/systemd/container") || w.tree.Exists("/.dockerenv") || w.tree.Exists("/run/.containerenv")
}

// noKernel says why a container cannot have items of this facet.
const noKernel = "this system is a container and uses its host's kernel: take `kernel` out of its design"

func (w *work) cut(what string) error {
	if w.tree.Before == nil {
		return nil
	}
	return w.tree.Before(what)
}

// run runs a program that changes the system. A nonzero exit code is an error.
func (w *work) run(timeout time.Duration, program string, args ...string) error {
	if err := w.cut(program + " " + strings.Join(args, " ")); err != nil {
		return err
	}
	o, err := w.h.Exec(w.ctx, inside.Command{Path: program, Args: args, Timeout: timeout})
	if err != nil {
		return &wire.Error{Class: wire.Failed, Text: err.Error()}
	}
	if o.Code != 0 {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%s failed with code %d:\n%s", program, o.Code, o.LastLines(10))}
	}
	return nil
}
