package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Read implements driver.Reader.
func (m *machine) Read(ctx context.Context, path string) (json.RawMessage, error) {
	if !strings.HasPrefix(path, "/redfish") {
		return nil, refused("%q is not a path of Redfish; they begin with /redfish/v1", printable(path))
	}
	o, err := m.client.get(ctx, path)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}

// BootOnce implements driver.Booter.
func (m *machine) BootOnce(ctx context.Context, want site.Identity, source string) error {
	err := m.asStep(ctx, want, site.ImpactOnline, func(s system) error {
		target, err := m.bootTarget(s, schemas.BootSource(source))
		if err == nil {
			_, err = m.bootOnce(ctx, &site.Node{}, target)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("boot once: %w", err)
	}
	return nil
}

// bootTarget is what the machine calls a source of one boot.
func (m *machine) bootTarget(s system, source schemas.BootSource) (schemas.BootSource, error) {
	targets := []schemas.BootSource{source}
	if source == schemas.CdBootSource {
		targets = m.cdTargets()
	}
	if target, ok := s.override(targets...); ok {
		return target, nil
	}
	return "", refused("the machine cannot boot once from %s, only from %s", printable(string(source)),
		printable(strings.Join(bootTargets(s), ", ")))
}

// bootTargets are the sources that one boot may be from, without that of none.
func bootTargets(s system) []string {
	all := at[[]string](s.object, "Boot", overrideTarget+"@Redfish.AllowableValues")
	return slices.DeleteFunc(all, func(t string) bool { return t == string(schemas.NoneBootSource) })
}
