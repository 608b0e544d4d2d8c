package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/bios"
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

func (g *grading) tryLogin(ctx context.Context) (driver.Ability, error) {
	if g.client.session() == "" {
		if g.client.value.IsZero() {
			return partly("no credential was given, and none was asked for"), nil
		}
		return partly("by basic authentication only: it has no sessions, so that those of an earlier daemon cannot be ended"), nil
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

// wantedResets are those that the driver uses.
var wantedResets = slices.Concat(turnsOn[:1], shutsDown, cutsPower)

func (g *grading) tryPower(ctx context.Context) (driver.Ability, error) {
	if g.system.resets() == "" {
		return driver.Ability{}, lacks("the system takes no reset")
	}
	kinds, err := g.resetKinds(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	a := works("it is %s", cmp.Or(g.system.heading(), printable(string(g.system.power()))))
	for _, k := range kinds {
		a.Values = append(a.Values, printable(string(k)))
	}
	missing := slices.DeleteFunc(slices.Clone(wantedResets), func(k schemas.ResetType) bool { return slices.Contains(kinds, k) })
	switch {
	case g.system.heading() == "":
		a.Verdict, a.Text = driver.Fails, fmt.Sprintf("PowerState is %q, which Slipway does not know", printable(string(g.system.power())))
	case len(kinds) == 0:
		a.Verdict, a.Text = driver.Partly, a.Text+"; it does not say which resets it takes"
	case len(missing) > 0:
		a.Verdict, a.Text = driver.Partly, fmt.Sprintf("%s; it has no %s", a.Text, joinedKinds(missing))
	}
	return a, nil
}

func joinedKinds(kinds []schemas.ResetType) string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = string(k)
	}
	return strings.Join(all, ", ")
}

func (g *grading) tryBootOnce(ctx context.Context) (driver.Ability, error) {
	s, err := g.future(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	if at[object](s.object, "Boot")[overrideTarget] == nil {
		return driver.Ability{}, lacks("the system shows no boot override")
	}
	a := works("override is %s", cmp.Or(words(s.object, "Boot", "BootSourceOverrideEnabled"), "not said"))
	a.Values = bootTargets(s)
	enabled := at[[]schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled@Redfish.AllowableValues")
	if _, ok := s.override(g.cdTargets()...); !ok {
		a.Verdict, a.Text = driver.Partly, "not from a CD, which installations need"
	} else if len(enabled) > 0 && !slices.Contains(enabled, schemas.OnceBootSourceOverrideEnabled) {
		a.Verdict, a.Text = driver.Partly, "Once is not among what it takes"
	} else if !slices.Contains(enabled, schemas.ContinuousBootSourceOverrideEnabled) {
		a.Text += "; for one boot, not for all that follow"
	}
	return a, nil
}

func (g *grading) tryBootOrder(ctx context.Context) (driver.Ability, error) {
	refs := g.system.bootOrder()
	if len(refs) == 0 {
		return driver.Ability{}, lacks("the system shows no BootOrder")
	}
	if err := g.machine.boot.read(ctx, g.client, g.system); err != nil {
		return driver.Ability{}, err
	}
	a := works("%d boot options", len(refs))
	var unknown int
	for _, ref := range refs {
		if g.machine.boot.source[ref] == "" {
			unknown++
		}
	}
	a.Values = strings.Split(joined(g.machine.boot.targets(refs)), ",")
	if unknown > 0 {
		a.Verdict, a.Text = driver.Partly, fmt.Sprintf("%d boot options, of which %d are of no known source", len(refs), unknown)
	}
	return a, nil
}

func (g *grading) tryBootMode(ctx context.Context) (driver.Ability, error) {
	s, err := g.future(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	mode := s.mode()
	if mode == "" {
		return driver.Ability{}, lacks("the system does not show how its firmware boots")
	}
	a := works("boots by %s", mode)
	for _, other := range at[[]string](s.object, "Boot", overrideMode+"@Redfish.AllowableValues") {
		a.Values = append(a.Values, printable(other))
	}
	return a, nil
}

func (g *grading) tryHTTPBoot(context.Context) (driver.Ability, error) {
	_, uri := at[object](g.system.object, "Boot")["HttpBootUri"]
	_, source := g.system.override(schemas.UefiHTTPBootSource)
	switch {
	case uri && source:
		return works("from a URL that is given"), nil
	case source:
		return partly("from a URL that the network gives; none can be set"), nil
	}
	return driver.Ability{}, lacks("UefiHttp is not among its boot sources")
}

func (g *grading) tryMedia(ctx context.Context) (driver.Ability, error) {
	all, err := g.slots(ctx, g.system)
	if err != nil {
		return driver.Ability{}, err
	}
	if len(all) == 0 {
		return driver.Ability{}, lacks("there is no virtual media slot that takes a CD image")
	}
	a := works("by %s", insertWay(all[0]))
	for _, s := range all {
		state := "empty"
		if s.inserted() {
			state = "holds an image"
		}
		a.Values = append(a.Values, printable(s.path)+" ("+state+")")
	}
	return a, nil
}

func insertWay(s slot) string {
	if s.action("InsertMedia") != "" {
		return "the action InsertMedia"
	}
	return "a write to the slot"
}

// firmware reads the settings, once: their registry is up to megabytes.
func (g *grading) firmware(ctx context.Context) (firmware, error) {
	if g.settings != nil {
		return *g.settings, nil
	}
	f, err := g.bios(ctx, g.system)
	if err == nil && len(f.current) == 0 {
		err = lacks("the system shows no settings of its firmware")
	}
	if err == nil {
		f.registry, err = g.readRegistry(ctx, f.name)
	}
	if err == nil {
		g.settings = &f
	}
	return f, err
}

func (g *grading) tryBIOS(ctx context.Context) (driver.Ability, error) {
	f, err := g.firmware(ctx)
	if err != nil {
		return driver.Ability{}, err
	}
	if len(f.registry.Attributes) == 0 {
		return partly("%d attributes, and no registry that tells their types and bounds", len(f.current)), nil
	}
	a := works("%d attributes, by the registry %s", len(f.current), printable(f.name))
	a.Values = f.times
	return a, nil
}

func (g *grading) tryIntents(ctx context.Context) (driver.Ability, error) {
	f, err := g.firmware(ctx)
	if err != nil {
		return driver.Ability{}, err
	}
	settings, intents := f.state(f.terms(), nil).Settings(), bios.Intents()
	var a driver.Ability
	resolved := 0
	for _, intent := range intents {
		attribute, values := settings.Meets(intent)
		if attribute == "" {
			a.Values = append(a.Values, intent+": not on this machine")
			continue
		}
		resolved++
		a.Values = append(a.Values, fmt.Sprintf("%s: %s (%s)", intent, printable(attribute), strings.Join(values, ", ")))
	}
	a.Verdict, a.Text = driver.Works, fmt.Sprintf("%d of %d resolve", resolved, len(intents))
	switch resolved {
	case 0:
		a.Verdict, a.Text = driver.Lacks, "none resolves; attributes are set by their own names"
	case len(intents):
	default:
		a.Verdict = driver.Partly
	}
	return a, nil
}

func (g *grading) tryHealth(context.Context) (driver.Ability, error) {
	h := g.system.health()
	if h == "" {
		return driver.Ability{}, lacks("the system says nothing of its health")
	}
	return works("it is %s", h), nil
}

func (g *grading) trySensors(ctx context.Context) (driver.Ability, error) {
	if sensors := link(g.chassis, "Sensors"); sensors != "" {
		if o, err := g.client.get(ctx, sensors); err == nil {
			return works("%d sensors", memberCount(o)), nil
		}
	}
	var parts []string
	for _, of := range []struct{ resource, list, name string }{
		{"Thermal", "Temperatures", "temperatures"}, {"Thermal", "Fans", "fans"}, {"Power", "PowerSupplies", "power supplies"},
	} {
		path := link(g.chassis, of.resource)
		if path == "" {
			continue
		}
		o, err := g.client.get(ctx, path)
		if err != nil {
			return driver.Ability{}, err
		}
		if n := len(at[[]object](o, of.list)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, of.name))
		}
	}
	if len(parts) == 0 {
		return driver.Ability{}, lacks("the chassis shows no sensors")
	}
	return works("%s", strings.Join(parts, ", ")), nil
}

// memberCount is how many members a collection has, also where it is given page by
// page.
func memberCount(o object) int {
	return max(at[int](o, "Members@odata.count"), len(at[[]object](o, "Members")))
}

func (g *grading) tryLog(ctx context.Context) (driver.Ability, error) {
	var found []string
	for _, owner := range []object{g.system.object, g.manager} {
		path := link(owner, "LogServices")
		if path == "" {
			continue
		}
		o, err := g.client.get(ctx, path)
		if err != nil {
			return driver.Ability{}, err
		}
		for _, p := range links(o, "Members") {
			found = append(found, printable(p))
		}
	}
	if len(found) == 0 {
		return driver.Ability{}, lacks("neither the system nor its manager has a log")
	}
	a := works("%d logs", len(found))
	a.Values = found
	return a, nil
}

func (g *grading) tryInventory(ctx context.Context) (driver.Ability, error) {
	inv, err := g.Inspect(ctx, &site.Node{Identity: g.want})
	if err != nil {
		return driver.Ability{}, err
	}
	a := works("part by part")
	for _, of := range []struct {
		one, many string
		count     int
	}{
		{"memory module", "memory modules", len(inv.DIMMs)}, {"processor", "processors", len(inv.CPUs)}, {"GPU", "GPUs", len(inv.GPUs)},
		{"drive", "drives", len(inv.Drives)}, {"network adapter", "network adapters", len(inv.NICs)},
		{"power supply", "power supplies", len(inv.Supplies)}, {"PCIe device", "PCIe devices", len(inv.Devices)},
		{"firmware version", "firmware versions", len(inv.Firmware)},
	} {
		switch of.count {
		case 0:
		case 1:
			a.Values = append(a.Values, "1 "+of.one)
		default:
			a.Values = append(a.Values, fmt.Sprintf("%d %s", of.count, of.many))
		}
	}
	switch {
	case len(a.Values) == 0:
		return a, lacks("the system lists none of its parts")
	case len(inv.Missing) > 0:
		a.Verdict, a.Text = driver.Partly, "not available: "+strings.Join(inv.Missing, "; ")
	}
	return a, nil
}

func (g *grading) tryExpand(ctx context.Context) (driver.Ability, error) {
	features := at[object](g.root, "ProtocolFeaturesSupported", "ExpandQuery")
	sign := "."
	switch {
	case at[bool](features, "NoLinks"):
	case at[bool](features, "ExpandAll"):
		sign = "*"
	default:
		return driver.Ability{}, lacks("the service root says that there is none")
	}
	path := cmp.Or(link(g.system.object, "Memory"), link(g.root, "Chassis"))
	if path == "" {
		return driver.Ability{}, lacks("there is no collection to try it on")
	}
	o, err := g.client.get(ctx, path+"?$expand="+sign)
	if err != nil {
		return driver.Ability{}, err
	}
	for _, m := range at[[]object](o, "Members") {
		if len(m) < 2 {
			return driver.Ability{}, lacks("the service root says that there is, but it sends references anyway")
		}
	}
	if levels := at[int](features, "MaxLevels"); levels > 0 {
		return works("to %d levels", levels), nil
	}
	return works("without a number of levels"), nil
}

// tryETags asks for what is known already.
func (g *grading) tryETags(ctx context.Context) (driver.Ability, error) {
	s, err := g.read(ctx)
	if err != nil {
		return driver.Ability{}, err
	}
	tags := g.tap.tags
	text := fmt.Sprintf("strong on %d, weak on %d, none on %d answers", tags["strong"], tags["weak"], tags["none"])
	if tags["strong"]+tags["weak"] == 0 {
		return driver.Ability{}, lacks("no answer has one, and a change in between is not noticed by a write")
	}
	tag := at[string](s.object, etag)
	if tag == "" {
		return partly("%s; the system has none", text), nil
	}
	resp, err := g.client.do(ctx, func(api *gofish.APIClient) (*http.Response, error) {
		return api.GetWithHeaders(g.path, map[string]string{"If-None-Match": tag})
	})
	switch {
	case errors.Is(err, schemas.ErrNotModified), hasStatus(err, http.StatusNotModified):
		return works("%s; what has not changed is not sent again", text), nil
	case err != nil:
		return partly("%s; a conditional read is refused: %s", text, printable(err.Error())), nil
	}
	return partly("%s; a conditional read of the system gets all of it", text), resp.Body.Close()
}

// mostOff is how far a BMC's clock may be from this host's.
const mostOff = 5 * time.Minute

// tryClock compares clocks: by a wrong one the certificate of the server that
// has the images is not valid yet, or no longer.
func (g *grading) tryClock(context.Context) (driver.Ability, error) {
	shown, err := time.Parse(time.RFC3339, words(g.manager, "DateTime"))
	if err != nil {
		return driver.Ability{}, lacks("the BMC does not show its clock")
	}
	if time.Until(shown).Abs() <= mostOff {
		return works("as this host's"), nil
	}
	return partly("the BMC's clock shows %s, so the BMC may reject the certificates of image servers as invalid", shown.Format(time.RFC3339)), nil
}
