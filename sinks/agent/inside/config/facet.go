// Package config observes and applies files, systemd units, kernel parameters at run time (sysctl) and kernel
// modules inside a system.
package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// name is the name of the facet.
const name = "config"

// New is the facet config.
func New() inside.Facet { return facet{} }

// facet is the facet config; before is called before each write, for tests.
type facet struct{ before func(what string) error }

// work is one call of the facet.
type work struct {
	ctx      context.Context
	h        *inside.Host
	tree     *tree.Tree
	seen     inside.Seen
	items    inside.Entries
	accounts *accounts
	folders  map[string]bool // that owned items made
	failures []failure
	status   []byte // of dpkg, once it has been read
	shown    int    // bytes of contents returned
	pid      string // of this program, in the system
	// readers lists the units to restart, by the files that they read. started lists the units that this call
	// started.
	readers map[string][]string
	started []string
	// unread lists the files that systemd must read again. uncreated lists the files that systemd-tmpfiles must
	// process. unheard lists the files for which units must restart. gone lists those of all these to forget
	// afterwards.
	unread, uncreated, unheard, gone []string
	// bringing are the units whose files this call has. renewed lists the certificates whose readers must reload.
	bringing map[string]bool
	renewed  []string
}

type failure struct {
	class, text string
}

func (f facet) begin(ctx context.Context, h *inside.Host) (*work, error) {
	t, err := tree.Open(h.Root)
	if err != nil {
		return nil, err
	}
	t.Before, t.Label = f.before, h.Label
	return &work{ctx: ctx, h: h, tree: t, pid: strconv.Itoa(os.Getpid()), items: inside.Entries{Owned: h.Owned, Facet: name, Step: f.before}, seen: inside.Seen{
		Have: map[string]string{}, Pending: map[string]string{}, Unread: map[string]string{}, Cannot: map[string]string{},
		Contents: map[string]item.Content{},
	}}, nil
}

// Observe returns the state of the items with these keys.
func (f facet) Observe(ctx context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	w, err := f.begin(ctx, h)
	if err != nil {
		return inside.Seen{}, err
	}
	defer w.tree.Close()
	kinds := byKind(keys)
	for _, key := range kinds[item.KindFiles] {
		w.observeFile(key)
	}
	for _, key := range kinds[item.KindCertificates] {
		w.observeCertificate(key)
	}
	w.observeUnits(kinds[item.KindUnits])
	w.observeUnlisted(kinds[item.KindUnlisted])
	modulesReady := w.observeModules(kinds[item.KindModules])
	w.observeSysctl(kinds[item.KindSysctl], modulesReady)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !slices.Contains([]string{item.KindFiles, item.KindCertificates, item.KindUnits, item.KindSysctl, item.KindModules, item.KindUnlisted}, kind) {
			for _, key := range kinds[kind] {
				w.seen.Cannot[key] = fmt.Sprintf("the facet config has no items of the kind %q", kind)
			}
		}
	}
	return w.seen, nil
}

func byKind(keys []string) map[string][]string {
	kinds := map[string][]string{}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		kinds[item.Kind(key)] = append(kinds[item.Kind(key)], key)
	}
	return kinds
}

// Apply makes the items match the request. Firmware comes before the modules whose drivers load it, modules before
// the kernel parameters that they add, and files and certificates before the units that read them.
func (f facet) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	w, err := f.begin(ctx, h)
	if err != nil {
		return err
	}
	defer w.tree.Close()
	w.readFolders()
	wanted := map[string][]item.Item{}
	for _, i := range items {
		wanted[item.Kind(i.Key)] = append(wanted[item.Kind(i.Key)], i)
	}
	for kind := range wanted {
		slices.SortFunc(wanted[kind], func(a, b item.Item) int { return strings.Compare(a.Key, b.Key) })
	}
	w.readers, w.bringing = readersOf(wanted[item.KindUnits]), broughtUnits(wanted[item.KindUnits])
	w.readLeft()
	leaving := byKind(w.ours(remove, items))
	firmware, files := firmwareAmong(wanted[item.KindFiles])
	w.removeFiles(leaving[item.KindFiles])
	w.applyFiles(firmware)
	w.applyModules(wanted[item.KindModules], leaving[item.KindModules])
	w.applySysctl(wanted[item.KindSysctl], leaving[item.KindSysctl])
	first, units := unitsUnderFiles(leaving[item.KindUnits], wanted[item.KindFiles])
	w.applyUnits(nil, first)
	w.applyFiles(files)
	w.applyCertificates(wanted[item.KindCertificates])
	w.create()
	unlisted := w.listed(leaving[item.KindUnlisted], wanted[item.KindUnits])
	slices.SortStableFunc(unlisted, servicesLast)
	slices.SortStableFunc(wanted[item.KindUnlisted], func(a, b item.Item) int { return servicesLast(a.Key, b.Key) })
	w.applyUnits(slices.Concat(wanted[item.KindUnits], wanted[item.KindUnlisted]), slices.Concat(units, unlisted))
	if err := w.restartReaders(); err != nil {
		w.fail(item.KindUnits, err)
	}
	w.reloadReaders()
	w.removeCertificates(leaving[item.KindCertificates]) // after the units that read them
	return w.failed()
}

// broughtUnits are the units whose files are in the design.
func broughtUnits(units []item.Item) map[string]bool {
	brought := map[string]bool{}
	for _, i := range units {
		brought[item.ID(i.Key)] = i.Fields["content"] != ""
	}
	return brought
}

// firmwareAmong splits files by whether the kernel finds them as firmware.
func firmwareAmong(files []item.Item) (firmware, rest []item.Item) {
	for _, f := range files {
		if file := item.ID(f.Key); below(file, "/lib/firmware") || below(file, "/usr/lib/firmware") {
			firmware = append(firmware, f)
		} else {
			rest = append(rest, f)
		}
	}
	return firmware, rest
}

// unitsUnderFiles splits units that leave the design by whether a designed file replaces their unit file. Those
// leave first. Otherwise Slipway would keep its own unit file as the file from before.
func unitsUnderFiles(leaving []string, files []item.Item) (under, rest []string) {
	for _, key := range leaving {
		if slices.ContainsFunc(files, func(f item.Item) bool { return item.ID(f.Key) == unitFolder+"/"+item.ID(key) }) {
			under = append(under, key)
		} else {
			rest = append(rest, key)
		}
	}
	return under, rest
}

// ours are the keys to remove that Slipway made and that the design does not ask for.
func (w *work) ours(remove []string, items []item.Item) []string {
	return slices.DeleteFunc(slices.Clone(remove), func(key string) bool {
		_, owned := w.h.Owned.Entry(name, key)
		return !owned || slices.ContainsFunc(items, func(i item.Item) bool { return i.Key == key })
	})
}

// refuse records that a person must decide about an item.
func (w *work) refuse(key, format string, args ...any) {
	w.failures = append(w.failures, failure{wire.Refused, key + ": " + fmt.Sprintf(format, args...)})
}

// fail records that an item could not be applied.
func (w *work) fail(key string, err error) {
	f := failure{wire.Failed, err.Error()}
	var known *wire.Error
	if errors.As(err, &known) {
		f.class = known.Class
	}
	var link *tree.UnsafeLink
	if errors.As(err, &link) {
		f.class = wire.Refused
	}
	if !strings.HasPrefix(f.text, key+": ") {
		f.text = key + ": " + f.text
	}
	w.failures = append(w.failures, f)
}

// maxTold bounds how many failed items an error lists.
const maxTold = 10

// failed is the error of the call. It is "refused" if all failures need a person, and otherwise "failed", which is
// planned again.
func (w *work) failed() error {
	if len(w.failures) == 0 {
		return nil
	}
	class, texts := wire.Refused, []string(nil)
	for i, f := range w.failures {
		if f.class != wire.Refused {
			class = f.class
		}
		if i < maxTold {
			texts = append(texts, inside.Lines(f.text, 20))
		}
	}
	if more := len(w.failures) - maxTold; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return &wire.Error{Class: class, Text: strings.Join(texts, "; ")}
}

func (w *work) cut(what string) error {
	if w.tree.Before == nil {
		return nil
	}
	return w.tree.Before(what)
}
