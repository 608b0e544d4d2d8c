package packages

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// was is a package's state before Slipway changed it.
type was struct {
	State   string `json:"state"`
	Version string `json:"version,omitempty"`
}

// goal is everything to be done to packages.
type goal struct {
	change
	leaving []string          // packages that only Slipway wanted, part of remove
	left    map[string]string // why packages that left the design stay, by key
	touched []string          // keys of what is changed
	going   []string          // packages that are to be gone, also those that are
}

// packages makes all packages match the request, in one transaction that was simulated first.
func (a *apply) packages(ctx context.Context) error {
	items, leaving := a.items[item.KindPackages], a.remove[item.KindPackages]
	for _, i := range items {
		if err := a.checkPackage(i); err != nil {
			return err
		}
	}
	if len(items)+len(leaving) == 0 {
		return a.refresh(ctx, false)
	}
	inv, err := a.m.inventory(ctx, a.h)
	if err != nil {
		return err
	}
	g := a.goal(inv, items, leaving)
	if !g.empty() || len(g.going) > 0 {
		if err := a.m.repair(ctx, a.h, inv, g.going); err != nil {
			return err
		}
		if inv, err = a.m.inventory(ctx, a.h); err != nil {
			return err
		}
		g = a.goal(inv, items, leaving)
	}
	if err := a.refresh(ctx, len(g.install) > 0); err != nil {
		return err
	}
	if !g.empty() {
		if g, err = a.simulated(ctx, inv, g); err != nil {
			return err
		}
	}
	if err := a.transact(ctx, inv, g, items); err != nil {
		return err
	}
	if err := a.holds(ctx, items, leaving); err != nil {
		return err
	}
	return a.forget(g, leaving)
}

func (a *apply) checkPackage(i item.Item) error {
	name, version := item.ID(i.Key), i.Fields["version"]
	if err := a.m.check(name); err != nil {
		return refused("package %q: %v", printable(name), err)
	}
	if version != "" && check(anyVersion(), version) != nil {
		return refused("package %s: the package manager has no versions like %q", name, printable(version))
	}
	if state := i.Fields["state"]; !slices.Contains([]string{"", statePresent, stateAbsent, stateHeld}, state) {
		return refused("package %s: there is no state %q", name, printable(state))
	}
	return nil
}

// asState is the wanted state of an item.
func asState(i item.Item) string {
	if state := i.Fields["state"]; state != "" {
		return state
	}
	return statePresent
}

// goal is what is left to do, given what is installed.
func (a *apply) goal(inv inventory, items []item.Item, leaving []string) goal {
	g := goal{change: change{install: map[string]string{}}, left: map[string]string{}}
	for _, i := range items {
		name, is := item.ID(i.Key), inv.find(item.ID(i.Key))
		version := i.Fields["version"]
		want := asState(i)
		if want == stateAbsent {
			g.going = append(g.going, name)
		}
		switch {
		case want == stateAbsent && is.there():
			g.remove = append(g.remove, name)
		case want == stateAbsent:
			continue
		case !whole(is) || version != "" && is.Version != version:
			g.install[name] = version
		case is.State == want:
			continue
		}
		g.held = g.held || is.State == stateHeld
		g.touched = append(g.touched, i.Key)
	}
	for _, key := range leaving {
		e, ours := a.h.Owned.Entry(facetName, key)
		name := item.ID(key)
		if !ours || a.m.check(name) != nil {
			continue
		}
		before, is := beforeOf(e), inv.find(name)
		if before.State == stateAbsent {
			g.going = append(g.going, name)
		}
		switch {
		case before.State == stateAbsent && is.there():
			g.remove = append(g.remove, name)
			g.leaving = append(g.leaving, name)
			g.held = g.held || is.State == stateHeld
		case before.State == stateAbsent:
			continue
		case !is.there():
			g.left[key] = "it was installed before Slipway removed it, and is not installed again by itself"
		case is.Version != before.Version:
			g.left[key] = fmt.Sprintf("it had the version %s before Slipway, and keeps %s", before.Version, is.Version)
		}
	}
	return g
}

// whole reports whether a package is completely installed.
func whole(p installed) bool { return p.State == statePresent || p.State == stateHeld }

func beforeOf(e inside.Entry) was {
	w := was{State: stateAbsent}
	if len(e.Before) > 0 && json.Unmarshal(e.Before, &w) != nil {
		w = was{State: statePresent} // unknown: do not remove it
	}
	return w
}

// simulated checks what a transaction would do. It fails if something is not available, or if the transaction would
// change a package that nobody named. Packages that only left the design stay if something needs them.
func (a *apply) simulated(ctx context.Context, inv inventory, g goal) (goal, error) {
	problem := a.try(ctx, inv, &g.change)
	if problem == nil || len(g.leaving) == 0 {
		return g, problem
	}
	rest := g
	rest.remove = slices.DeleteFunc(slices.Clone(g.remove), func(name string) bool { return slices.Contains(g.leaving, name) })
	for _, name := range g.leaving {
		alone := change{remove: []string{name}, held: g.held}
		effects, err := a.effects(ctx, &alone)
		if err != nil && !says(err, "protected packages") { // unknown whether they do
			return g, err
		}
		if err == nil {
			err = verify(inv, alone, effects)
		}
		if err != nil {
			rest.left[item.KindPackages+"."+name] = "other packages need it: " + err.Error()
			continue
		}
		rest.remove = append(rest.remove, name)
	}
	if rest.empty() {
		return rest, nil
	}
	return rest, a.try(ctx, inv, &rest.change)
}

// try simulates one change, and checks it against the request.
func (a *apply) try(ctx context.Context, inv inventory, c *change) error {
	effects, err := a.effects(ctx, c)
	if err != nil {
		return err
	}
	return verify(inv, *c, effects)
}

// effects are what a change would do. It also repairs broken dependencies.
func (a *apply) effects(ctx context.Context, c *change) ([]effect, error) {
	effects, err := a.m.simulate(ctx, a.h, *c)
	if err != nil && !c.repair && says(err, "fix-broken", "unmet dependencies") {
		c.repair = true
		effects, err = a.m.simulate(ctx, a.h, *c)
	}
	return effects, err
}

// verify compares what a transaction would do with what it was asked for.
func verify(inv inventory, c change, effects []effect) error {
	install, remove := map[string]string{}, map[string]bool{}
	for name, version := range c.install {
		install[bare(inv, name)] = version
	}
	for _, name := range c.remove {
		remove[bare(inv, name)] = true
	}
	pinned := map[string]bool{}
	for _, name := range c.pinned {
		pinned[bare(inv, name)] = true
	}
	var removed, changed, moved []string
	done := map[string]effect{}
	for _, e := range effects {
		name := bare(inv, e.name)
		done[name] = e
		_, asked := install[name]
		switch {
		case e.to == "" && !remove[name]:
			removed = append(removed, e.name)
		case e.to != "" && remove[name]:
			changed = append(changed, e.name)
		case e.from != "" && e.to != "" && e.from != e.to && pinned[name]:
			moved = append(moved, fmt.Sprintf("%s from %s to %s", e.name, inv.find(e.name).Version, e.to))
		case e.from != "" && e.to != "" && !asked && !c.upgrade:
			changed = append(changed, fmt.Sprintf("%s from %s to %s", e.name, inv.find(e.name).Version, e.to))
		}
	}
	if len(removed) > 0 {
		return failed("%s: this would remove %s, which the design does not ask for. No package was changed", some(wanted(c)), some(removed))
	}
	if len(moved) > 0 {
		return refused("%s: this upgrade would also change %s, and the design pins the version of this package or excludes it from upgrades. "+
			"Give the package the new version in the design, or wait for upgrades that do not need it. No package was changed", some(wanted(c)), some(moved))
	}
	if len(changed) > 0 {
		return failed("%s: this would also change %s. Name these packages in the design too. No package was changed", some(wanted(c)), some(changed))
	}
	for name, version := range install {
		e, ok := done[name]
		if !ok && !inv.find(name).there() {
			return failed("package %s: the repositories have no package of this name, or only others that provide it. No package was changed", name)
		}
		if ok && version != "" && e.to != version {
			return failed("package %s: version %s is not available, and %s would be installed. No package was changed", name, version, e.to)
		}
	}
	return nil
}

// bare is a name without the system's own architecture.
func bare(inv inventory, name string) string {
	if b, arch, ok := strings.Cut(name, ":"); ok && arch == inv.native {
		return b
	}
	if i := strings.LastIndexByte(name, '.'); i > 0 && rpmArch().MatchString(name[i+1:]) && inv.native == "" {
		return name[:i]
	}
	return name
}

// transact takes ownership of what changes, runs the transaction, and checks the result.
func (a *apply) transact(ctx context.Context, inv inventory, g goal, items []item.Item) error {
	for _, key := range g.touched {
		is := inv.find(item.ID(key))
		before, err := json.Marshal(was{is.State, is.Version})
		if err != nil {
			return err
		}
		if is.State == stateAbsent {
			before = nil
		}
		if err := a.h.Owned.Take(facetName, key, before); err != nil {
			return err
		}
	}
	if g.empty() {
		return a.stopUnits(ctx, inv)
	}
	if err := a.noteUnits(ctx, inv, g.remove); err != nil {
		return err
	}
	a.h.Tell("packages: " + some(wanted(g.change)))
	a.changed = true
	ran := a.quietly(func() error { return a.m.run(ctx, a.h, g.change) })
	after, err := a.m.inventory(ctx, a.h)
	if err != nil {
		return err
	}
	if err := a.stopUnits(ctx, after); err != nil {
		return err
	}
	var wrong []string
	for _, i := range items {
		name, is, version := item.ID(i.Key), after.find(item.ID(i.Key)), i.Fields["version"]
		absent := asState(i) == stateAbsent
		if absent && is.there() || !absent && (!whole(is) || version != "" && is.Version != version) {
			wrong = append(wrong, strings.TrimSpace(name+" is "+is.State+" "+is.Version))
		}
	}
	for _, name := range g.remove {
		if after.find(name).there() && slices.Contains(g.leaving, name) {
			wrong = append(wrong, name+" is "+after.find(name).State)
		}
	}
	switch {
	case len(wrong) == 0 && ran != nil: // the problem is with packages that nobody requested
		a.h.Tell("all packages are as designed, though: " + ran.Error())
		return nil
	case len(wrong) == 0:
		return nil
	case ran == nil:
		return failed("packages are not as they were asked for: %s", some(wrong))
	case isBusy(ran):
		return ran
	}
	return failed("%s: %v", some(wrong), ran)
}

// policy keeps package scripts from starting services in a system that does not run (invoke-rc.d(8)).
const policy, policyText = "/usr/sbin/policy-rc.d", "#!/bin/sh\n# Made by Slipway while packages are installed.\nexit 101\n"

// quietly runs a function; in a system that does not run, it keeps services from starting.
func (a *apply) quietly(f func() error) error {
	if a.h.Live {
		return f()
	}
	where, err := resolve(a.h, policy)
	if err != nil {
		return err
	}
	have, _ := os.ReadFile(where)
	if have != nil && string(have) != policyText {
		return f()
	}
	if _, err := os.Stat(filepath.Dir(where)); err != nil {
		return f()
	}
	if err := inside.WriteFile(where, []byte(policyText), 0o755); err != nil {
		return err
	}
	defer os.Remove(where)
	return f()
}

// holds sets and lifts holds, for packages of the design and those that left it.
func (a *apply) holds(ctx context.Context, items []item.Item, leaving []string) error {
	inv, err := a.m.inventory(ctx, a.h)
	if err != nil {
		return err
	}
	var on, off []string
	for _, i := range items {
		is := inv.find(item.ID(i.Key))
		switch want := asState(i); {
		case want == stateHeld && is.State == statePresent:
			on = append(on, item.ID(i.Key))
		case want == statePresent && is.State == stateHeld:
			off = append(off, item.ID(i.Key))
		}
	}
	for _, key := range leaving {
		e, ours := a.h.Owned.Entry(facetName, key)
		is, before := inv.find(item.ID(key)), beforeOf(e)
		switch {
		case !ours:
		case is.State == stateHeld && before.State != stateHeld:
			off = append(off, item.ID(key))
		case is.State == statePresent && before.State == stateHeld:
			on = append(on, item.ID(key))
		}
	}
	for _, change := range []struct {
		names []string
		on    bool
	}{{on, true}, {off, false}} {
		if len(change.names) == 0 {
			continue
		}
		if err := a.m.hold(ctx, a.h, change.names, change.on); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what left the design, and reports what stays.
func (a *apply) forget(g goal, leaving []string) error {
	for _, key := range leaving {
		if why := g.left[key]; why != "" {
			a.h.Tell("package " + item.ID(key) + " left the design and stays as it is: " + why)
		}
		if err := a.h.Owned.Drop(facetName, key); err != nil {
			return err
		}
	}
	return nil
}
