// Package packages installs, holds and removes the packages of a system, with
// their repositories, environments of Python packages, and upgrades.
package packages

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// facetName is the facet's name in the list of what Slipway made.
const facetName = "packages"

// applyTime bounds one Apply, whatever package scripts do.
const applyTime = 30 * time.Minute

// New makes the facet.
func New() inside.Facet { return facet{} }

type facet struct{}

// Observe reads dpkg's status or asks rpm once, and reads the files of repositories and environments. Only the key
// patch runs apt-get or dnf, and only if their lists have changed since the last search for upgrades.
func (facet) Observe(ctx context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	s := inside.Seen{Have: map[string]string{}, Unread: map[string]string{}, Cannot: map[string]string{}}
	if len(keys) == 0 {
		return s, nil
	}
	m, err := family(h)
	if err != nil {
		for _, key := range keys {
			s.Cannot[key] = err.Error()
		}
		return s, nil
	}
	byKind := map[string][]string{}
	for _, key := range keys {
		byKind[item.Kind(key)] = append(byKind[item.Kind(key)], key)
	}
	var inv inventory
	if len(byKind[item.KindPackages])+len(byKind[item.KindPatch]) > 0 {
		if inv, err = m.inventory(ctx, h); err != nil {
			for _, key := range slices.Concat(byKind[item.KindPackages], byKind[item.KindPatch]) {
				s.Unread[key] = err.Error()
			}
			byKind[item.KindPackages], byKind[item.KindPatch] = nil, nil
		}
	}
	for kind, keys := range byKind {
		for _, key := range keys {
			switch kind {
			case item.KindPackages:
				observePackage(m, inv, key, s)
			case item.KindRepositories:
				observeRepository(h, m, key, s)
			case item.KindLanguage:
				observeLanguage(h, key, s)
			case item.KindPatch:
				observePatch(ctx, h, m, inv, &s)
			default:
				s.Cannot[key] = "the facet packages has no items like that"
			}
		}
	}
	return s, nil
}

func observePackage(m manager, inv inventory, key string, s inside.Seen) {
	if err := m.check(item.ID(key)); err != nil {
		s.Cannot[key] = err.Error()
		return
	}
	p := inv.find(item.ID(key))
	s.Have[item.Name(key, "state")] = p.State
	if p.there() {
		s.Have[item.Name(key, "version")] = p.Version
	}
}

func observeRepository(h *inside.Host, m manager, key string, s inside.Seen) {
	name := item.ID(key)
	if err := check(entryName(), name); err != nil {
		s.Cannot[key] = "repository names have letters, digits, \".\", \"_\" and \"-\" alone"
		return
	}
	text, err := m.repositoryFiles(h, name).seen(h, name)
	if err != nil {
		s.Unread[key] = err.Error()
		return
	}
	if text == "" {
		return
	}
	if e, ours := h.Owned.Entry(facetName, key); ours && string(e.Made) != fetched {
		text += " (its lists were not fetched)"
	}
	s.Have[key] = text
}

// fetched is the record for a repository whose lists have been fetched.
const fetched = `"fetched"`

// Apply changes repositories first, then all packages in one transaction, then
// environments, then makes the upgrades.
func (facet) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if len(items)+len(remove) == 0 {
		return nil
	}
	m, err := family(h)
	if err != nil {
		return refused("%v", err)
	}
	a := &apply{h: h, m: m, items: map[string][]item.Item{}, remove: map[string][]string{}}
	for _, i := range items {
		a.items[item.Kind(i.Key)] = append(a.items[item.Kind(i.Key)], i)
	}
	for _, key := range remove {
		a.remove[item.Kind(key)] = append(a.remove[item.Kind(key)], key)
	}
	for _, kind := range slices.Concat(slices.Collect(maps.Keys(a.items)), slices.Collect(maps.Keys(a.remove))) {
		if !slices.Contains([]string{item.KindPackages, item.KindRepositories, item.KindLanguage, item.KindPatch}, kind) {
			return refused("the facet packages has no items %q", printable(kind))
		}
	}
	for _, step := range []func(context.Context) error{a.repositories, a.packages, a.languages, a.patch, a.restamp} {
		if err := step(ctx); err != nil {
			return withRoom(h, err)
		}
	}
	return nil
}

// apply is the work of one Apply.
type apply struct {
	h      *inside.Host
	m      manager
	items  map[string][]item.Item // by kind
	remove map[string][]string    // keys by kind
	stale  []string               // repositories whose lists must be fetched
	// changed says that lists or packages have changed.
	changed bool
}

// body reads the body of an item.
func body[T any](i item.Item) (T, error) {
	var b T
	if err := json.Unmarshal(i.Body, &b); err != nil {
		return b, refused("%s: its body cannot be read: %v", printable(i.Key), err)
	}
	return b, nil
}

func (a *apply) repositories(ctx context.Context) error {
	for _, i := range a.items[item.KindRepositories] {
		if err := a.repository(i); err != nil {
			return err
		}
	}
	for _, key := range a.remove[item.KindRepositories] {
		if err := a.removeRepository(key); err != nil {
			return err
		}
	}
	return nil
}

// repository writes the files of one repository, and marks its lists to be fetched.
func (a *apply) repository(i item.Item) error {
	name := item.ID(i.Key)
	if err := check(entryName(), name); err != nil {
		return refused("repository %q: its name must consist of letters, digits, \".\", \"_\" and \"-\" alone", printable(name))
	}
	r, err := body[item.Repository](i)
	if err != nil {
		return err
	}
	files := a.m.repositoryFiles(a.h, name)
	if err := files.check(r); err != nil {
		return refused("repository %s: %v", name, err)
	}
	seen, err := files.seen(a.h, name)
	if err != nil {
		return err
	}
	e, ours := a.h.Owned.Entry(facetName, i.Key)
	if seen == r.Text() {
		if ours && string(e.Made) != fetched {
			a.stale = append(a.stale, name)
		}
		return nil
	}
	before, err := files.before(a.h)
	if err != nil {
		return err
	}
	a.h.Tell("repository " + name)
	if err := a.h.Owned.Take(facetName, i.Key, before); err != nil {
		return err
	}
	if err := a.h.Owned.Note(facetName, i.Key, nil); err != nil {
		return err
	}
	a.stale = append(a.stale, name)
	return files.put(a.h, files.render(a.h, name, r))
}

func (a *apply) removeRepository(key string) error {
	e, ours := a.h.Owned.Entry(facetName, key)
	if !ours {
		return nil
	}
	name := item.ID(key)
	if check(entryName(), name) != nil {
		return a.h.Owned.Drop(facetName, key)
	}
	before, err := filesBefore(key, e)
	if err != nil {
		return err
	}
	a.h.Tell("repository " + name + " is removed")
	if err := a.m.repositoryFiles(a.h, name).put(a.h, before); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(before)) {
		if strings.HasSuffix(file, "/") {
			if err := removeEmpty(a.h, file); err != nil {
				return err
			}
		}
	}
	return a.h.Owned.Drop(facetName, key)
}

// refresh fetches lists, and writes the priorities that depend on them. It is called once, when it is known whether
// packages will be fetched.
func (a *apply) refresh(ctx context.Context, all bool) error {
	if len(a.stale) == 0 && !all {
		return nil
	}
	a.changed = true
	if err := a.m.refresh(ctx, a.h, a.stale, all); err != nil {
		return err
	}
	for _, name := range a.stale {
		files := a.m.repositoryFiles(a.h, name)
		r, err := files.parse(a.h)
		if err != nil {
			return err
		}
		if err := files.put(a.h, files.render(a.h, name, r)); err != nil {
			return err
		}
		if err := a.h.Owned.Note(facetName, item.KindRepositories+"."+name, json.RawMessage(fetched)); err != nil {
			return err
		}
	}
	a.stale = nil
	return nil
}

func isBusy(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && e.Class == wire.Busy
}

// says reports whether an error's text contains one of the parts.
func says(err error, parts ...string) bool {
	return err != nil && slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(err.Error(), p) })
}
