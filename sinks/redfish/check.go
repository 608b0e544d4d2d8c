package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// grading is one look at all that a BMC can do.
type grading struct {
	*machine
	tap    *tap
	want   site.Identity
	id     site.Identity // with all that tells it from others behind the BMC
	root   object
	system system
	// chassis and manager are those of the system.
	chassis, manager object
	settings         *firmware // with their registry, once they were read
}

// probes are what is tried, in the order in which it is shown. Each says what
// it found, or why it could not be tried.
var probes = []struct {
	name  string
	facet site.Facet
	try   func(*grading, context.Context) (driver.Ability, error)
}{
	{"login", "", (*grading).tryLogin},
	{"identity", "", (*grading).tryIdentity},
	{"write binding", site.FacetImage, (*grading).tryBinding},
	{"power", site.FacetPower, (*grading).tryPower},
	{"boot once", site.FacetImage, (*grading).tryBootOnce},
	{"boot order", site.FacetBoot, (*grading).tryBootOrder},
	{"boot mode", "", (*grading).tryBootMode},
	{"HTTP boot", "", (*grading).tryHTTPBoot},
	{"virtual media", site.FacetImage, (*grading).tryMedia},
	{"BIOS attributes", site.FacetBIOS, (*grading).tryBIOS},
	{"BIOS intents", "", (*grading).tryIntents},
	{"health", site.FacetHealth, (*grading).tryHealth},
	{"sensors", "", (*grading).trySensors},
	{"event log", "", (*grading).tryLog},
	{"inventory", site.FacetInventory, (*grading).tryInventory},
	{"$expand", "", (*grading).tryExpand},
	{"ETags", "", (*grading).tryETags},
	{"clock", "", (*grading).tryClock},
}

// Grade implements driver.Grader.
func (m *machine) Grade(ctx context.Context, want site.Identity, told driver.Told) (driver.Grade, error) {
	g := &grading{machine: m, want: want}
	var off func()
	g.tap, off = m.tapped()
	defer off()
	if err := g.begin(ctx); err != nil {
		return driver.Grade{}, err
	}
	out := driver.Grade{Identity: g.id}
	for i, p := range probes {
		told(p.name, i, len(probes))
		a, err := p.try(g, ctx)
		if ctx.Err() != nil || errors.Is(err, driver.ErrDenied) && !hasStatus(err, http.StatusForbidden) {
			return driver.Grade{}, cmp.Or(err, ctx.Err())
		}
		out.Abilities = append(out.Abilities, judged(a, err, p.name, p.facet))
	}
	out.About = g.about()
	h := m.Habits()
	out.Known, out.Met = h.Known, h.Met
	out.Latency, out.Requests, out.Bytes = g.tap.latency(), g.tap.requests, g.tap.bytes
	return out, nil
}

// judged is what a probe found, with what went wrong with it.
func judged(a driver.Ability, err error, name string, facet site.Facet) driver.Ability {
	a.Name, a.Facet = name, facet
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		a.Verdict, a.Text = driver.Lacks, lacking(err)
	case err != nil:
		a.Verdict, a.Text = driver.Fails, printable(err.Error())
	}
	return a
}

// lacking is an error without its class, which the verdict tells.
func lacking(err error) string {
	return printable(strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error()))
}

// samples is how often the system is read, to tell its usual latency from its
// worst.
const samples = 5

// begin logs in and reads the service root, and what is looked at most.
func (g *grading) begin(ctx context.Context) (err error) {
	if g.system, err = g.machine.system(ctx, g.want); err != nil {
		return err
	}
	if g.root, err = g.client.get(ctx, schemas.DefaultServiceRoot); err != nil {
		return err
	}
	g.habits.learn(rootMakers(g.root))
	if g.manager, err = g.first(ctx, itsManagers); hopeless(ctx, err) {
		return err
	}
	g.habits.learn(managerMakers(g.manager))
	if g.chassis, err = g.first(ctx, itsChassis); hopeless(ctx, err) {
		return err
	}
	for range samples - 1 {
		if _, err := g.read(ctx); err != nil {
			return err
		}
	}
	g.id, err = g.Identify(ctx, g.want)
	return err
}

// hopeless says whether an error ends the look at a BMC, and not only at a part.
func hopeless(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, driver.ErrUnreachable)
}

// first is the first of the system's relatives of a kind, nil for none.
func (g *grading) first(ctx context.Context, k kin) (object, error) {
	paths, err := g.relatives(ctx, g.system, k)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	return g.client.get(ctx, paths[0])
}

func (g *grading) about() []driver.Fact {
	h := g.Habits()
	facts := []driver.Fact{
		{Name: "vendor", Value: h.Vendor}, {Name: "product", Value: h.Product}, {Name: "controller", Value: words(g.manager, "Model")},
		{Name: "firmware", Value: h.Firmware}, {Name: "Redfish", Value: words(g.root, "RedfishVersion")},
		{Name: "manufacturer", Value: h.Manufacturer}, {Name: "model", Value: h.Model},
		{Name: "BIOS", Value: words(g.system.object, "BiosVersion")}, {Name: "system", Value: printable(g.path)},
	}
	return slices.DeleteFunc(facts, func(f driver.Fact) bool { return f.Value == "" })
}

func works(format string, args ...any) driver.Ability {
	return driver.Ability{Verdict: driver.Works, Text: fmt.Sprintf(format, args...)}
}

func partly(format string, args ...any) driver.Ability {
	return driver.Ability{Verdict: driver.Partly, Text: fmt.Sprintf(format, args...)}
}

// lacks is the error of a probe that found nothing.
func lacks(text string) error { return fmt.Errorf("%s: %w", text, errors.ErrUnsupported) }
