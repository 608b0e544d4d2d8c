package redfish

import (
	"context"
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (g *grading) tryLogin(ctx context.Context) (driver.Ability, error) {
	if g.client.session() == "" {
		if g.client.value.IsZero() {
			return partly("no credential was given, and none was asked for"), nil
		}
		return partly("by basic authentication only: the BMC has no sessions, so Slipway cannot cut off an earlier daemon"), nil
	}
	service := link(g.root, "SessionService")
	if service == "" {
		return works("by sessions"), nil
	}
	o, err := g.client.get(ctx, service)
	if err != nil {
		return partly("by sessions, whose service cannot be read: %v", printable(err.Error())), nil
	}
	return works("by sessions, which end after %d s without a request", at[int](o, "SessionTimeout")), nil
}

// tryIdentity says whether the machine can be told from those behind the same BMC:
// by what the design names it, or else by what it reports.
func (g *grading) tryIdentity(ctx context.Context) (driver.Ability, error) {
	own := g.system.identity()
	if g.want.Known() {
		other, err := g.mistakenFor(ctx, g.want)
		switch {
		case err != nil:
			return driver.Ability{}, err
		case other != "":
			return driver.Ability{Verdict: driver.Fails, Text: fmt.Sprintf("the design names it by %s, which does not distinguish it from %s behind the same BMC: nothing is written to it; add %s to its identity",
				printable(g.want.Full()), printable(other), g.beside())}, nil
		}
		return works("by its %s, as the design names it", stated(g.want)), nil
	}
	if !g.id.Known() {
		return driver.Ability{}, lacks("it reports neither a UUID nor a serial number of its own (only placeholders or nothing): Slipway only observes the machine and never writes to it")
	}
	other, err := g.mistakenFor(ctx, own)
	switch {
	case err != nil:
		return driver.Ability{}, err
	case other != "":
		return partly("%s behind the same BMC reports the same %s: Slipway can distinguish them only with %s beside it in the design's identity", printable(other), stated(own), g.beside()), nil
	}
	return works("by its %s", stated(own)), nil
}

// beside is what an identity can name beside what several machines share.
func (g *grading) beside() string {
	text := fmt.Sprintf("slot: %q", printable(g.id.Slot))
	if g.id.MAC != "" {
		text = fmt.Sprintf("mac: %q or ", g.id.MAC) + text
	}
	return text
}

// stated are the names of what an identity states.
func stated(id site.Identity) string {
	var all []string
	for _, f := range []struct{ name, value string }{{"UUID", id.UUID}, {"serial number", id.Serial}, {"slot", id.Slot}, {"MAC address", id.MAC}} {
		if f.value != "" {
			all = append(all, f.name)
		}
	}
	return strings.Join(all, " and its ")
}

// tryBinding says what binds a write to the machine whose identity was read. All
// that was read up to here was read in a row, so that a connection that carried
// nothing twice was not kept.
func (g *grading) tryBinding(context.Context) (driver.Ability, error) {
	switch binding := g.Binding(); {
	case binding == site.BindingSession:
		return works("by the session over which the identity is read"), nil
	case binding == site.BindingConnection:
		return works("by the connection over which the identity is read; Slipway cannot tell a late request of a killed daemon from one of the next daemon"), nil
	case g.unbound:
		return partly("by nothing: it has no sessions and closes the connection after each answer; the design accepts that, endpoints.manager.unbound"), nil
	}
	return driver.Ability{}, lacks(fmt.Sprintf("it has no sessions and closes the connection after each answer, so a write may reach another machine that got its address; "+
		"destructive steps are refused unless the design has endpoints.manager.unbound: %q", site.UnboundAccept))
}
