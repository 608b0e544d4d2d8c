package packages

import (
	"context"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// CheckName says why a name cannot be that of a package of the system.
func CheckName(h *inside.Host, name string) error {
	m, err := family(h)
	if err == nil {
		err = m.check(name)
	}
	if err != nil {
		return refused("package %q: %v", printable(name), err)
	}
	return nil
}

// Install installs one package for another facet, like Apply: in a transaction that was simulated first and that
// changes and removes nothing else. The packages facet does not own the package.
func Install(ctx context.Context, h *inside.Host, name string) error {
	if err := CheckName(h, name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	m, err := family(h)
	if err != nil {
		return err
	}
	inv, err := m.inventory(ctx, h)
	if err != nil || whole(inv.find(name)) {
		return err
	}
	if err := m.repair(ctx, h, inv, nil); err != nil {
		return err
	}
	if inv, err = m.inventory(ctx, h); err != nil || whole(inv.find(name)) {
		return err
	}
	a := &apply{h: h, m: m}
	if err := a.refresh(ctx, true); err != nil {
		return err
	}
	c := change{install: map[string]string{name: ""}}
	if err := a.try(ctx, inv, &c); err != nil {
		return err
	}
	h.Tell("packages: " + some(wanted(c)))
	ran := a.quietly(func() error { return m.run(ctx, h, c) })
	after, err := m.inventory(ctx, h)
	switch {
	case err != nil:
		return err
	case whole(after.find(name)) && ran != nil: // the problem is with packages that nobody requested
		h.Tell("the package " + name + " is installed, though: " + ran.Error())
	case ran != nil:
		return ran
	case !whole(after.find(name)):
		return failed("package %s is %s after the package manager ended without an error", name, after.find(name).State)
	}
	return a.restamp(ctx)
}
