package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// enableUnit enables or disables a unit.
func (w *work) enableUnit(g *unitGoal) error {
	if g.links {
		var before unitBefore
		w.items.Load(g.key, &before, nil)
		u, err := w.unit(g.name, links{})
		if err != nil {
			return err
		}
		if before.Exists && u.path == "" { // a package removed the unit and its links
			before.Links = nil
		}
		return w.restoreLinks(g.name, before.Links)
	}
	if g.unlink { // remove exactly these links; systemctl could remove more
		return w.restoreLinks(g.name, nil)
	}
	if g.enabled == "" {
		return nil
	}
	if g.enabled == enabled && (g.content != nil || g.back) {
		if err := w.dropOldLinks(g.name); err != nil {
			return err
		}
	}
	is, err := w.isEnabled(g.name)
	if strings.HasPrefix(is, masked) { // intended, or else starting the unit reports it
		return err
	}
	if err != nil || enabledIs(is, g.enabled) || is == "" && g.enabled == disabled {
		return err
	}
	refused := func(format string, args ...any) error {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case g.enabled == enabled && is == static:
		return refused("%s cannot be enabled: its unit file has no section [Install]. Leave out `enabled`, or enable the unit that starts it", g.name)
	case g.enabled == enabled && is == alias:
		return refused("%s is another name of a unit. Write that unit's own name", g.name)
	}
	verb := map[string]string{enabled: "enable", disabled: "disable"}[g.enabled]
	if err := w.do(verb+" "+g.name, time.Minute, "--no-reload", verb, "--", g.name); err != nil {
		return err
	}
	if is, err = w.isEnabled(g.name); err == nil && !enabledIs(is, g.enabled) {
		return refused("`systemctl %s %s` succeeded, and the unit is still %q. Look at it with `systemctl status %s`", verb, g.name, orElse(is, "in no state that systemctl names"), g.name)
	}
	return err
}

// dropOldLinks disables a unit that an earlier unit file enabled differently.
func (w *work) dropOldLinks(n string) error {
	l, err := w.readLinks()
	if err != nil || len(l.configured[n]) == 0 {
		return err
	}
	u, err := w.unit(n, l)
	if err != nil || u.path == "" {
		return err
	}
	text, err := w.tree.Read(u.path, maxUnit)
	if err != nil {
		return err
	}
	want, known := parseInstall(string(text)).links(n)
	var now []string
	for _, link := range l.configured[n] {
		now = append(now, link.Path)
	}
	if slices.Sort(now); !known || slices.Equal(now, want) {
		return nil
	}
	return w.do("", time.Minute, "--no-reload", "disable", "--", n)
}

func (w *work) isEnabled(n string) (string, error) {
	l, err := w.readLinks()
	if err != nil {
		return "", err
	}
	u, err := w.unit(n, l)
	if err != nil || u.path == "" || u.enabled != "" {
		return u.enabled, err
	}
	files := map[string]unitFile{n: u}
	w.askEnabled([]string{n}, files)
	return files[n].enabled, nil
}
