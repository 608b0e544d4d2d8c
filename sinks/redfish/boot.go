package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// boot is the part of a ComputerSystem's Boot (DSP0268 6.30) that is written.
type boot struct {
	BootOrder []string                          `json:"BootOrder,omitempty"`
	Enabled   schemas.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled,omitempty"`
	Target    schemas.BootSource                `json:"BootSourceOverrideTarget,omitempty"`
	Mode      schemas.BootSourceOverrideMode    `json:"BootSourceOverrideMode,omitempty"`
	URI       json.RawMessage                   `json:"HttpBootUri,omitempty"`
}

func (b boot) body() any { return map[string]boot{"Boot": b} }

// usbCd is how some vendors call virtual CDs; gofish has no name for it.
const usbCd schemas.BootSource = "UsbCd"

// cdTargets are the boot sources that a virtual CD may be, the best first.
func (m *machine) cdTargets() []schemas.BootSource {
	if m.has(usbCD) && !m.has(plainCD) {
		return []schemas.BootSource{usbCd, schemas.CdBootSource}
	}
	return []schemas.BootSource{schemas.CdBootSource, usbCd}
}

func bootsCD(s system) bool { return s.bootsOnce(schemas.CdBootSource) || s.bootsOnce(usbCd) }

// bootOnce sets the override for the next boot alone, and proves it.
func (m *machine) bootOnce(ctx context.Context, n *site.Node, target schemas.BootSource) (system, error) {
	return m.askOnce(ctx, n, target, system.bootsOnce)
}

// bootNext sets the override for the next boot, and proves it. Where the BMC keeps
// it for all boots, whoever asked takes it back.
func (m *machine) bootNext(ctx context.Context, n *site.Node, target schemas.BootSource) (system, error) {
	s, err := m.askOnce(ctx, n, target, system.bootsNext)
	if err == nil && s.bootsAlways(target) {
		m.habits.met(onceLasts)
	}
	return s, err
}

// askOnce asks for one boot from a target until it shows.
func (m *machine) askOnce(ctx context.Context, n *site.Node, target schemas.BootSource, shows func(system, schemas.BootSource) bool) (system, error) {
	s, err := m.reread(ctx)
	if err != nil || s.bootsOnce(target) {
		return s, err
	}
	once := boot{Enabled: schemas.OnceBootSourceOverrideEnabled, Target: target, Mode: bootModes[n.Boot.Mode]}
	if target == schemas.UefiHTTPBootSource {
		once.Mode = schemas.UEFIBootSourceOverrideMode
	}
	if err := m.override(ctx, s, once); err != nil {
		return s, err
	}
	shown := []schemas.BootSource{target}
	if target == schemas.PxeBootSource && m.has(pxeAsBootNext) {
		shown = append(shown, schemas.UefiBootNextBootSource)
	}
	return m.until(ctx, m.opts.Settle, "the next boot to be from "+string(target), func(s system) bool {
		return slices.ContainsFunc(shown, func(t schemas.BootSource) bool { return shows(s, t) })
	})
}

// cancelOverride takes an override back, and proves it.
func (m *machine) cancelOverride(ctx context.Context, s system) (system, error) {
	if err := m.override(ctx, s, boot{Enabled: schemas.DisabledBootSourceOverrideEnabled}); err != nil {
		return s, err
	}
	return m.until(ctx, m.opts.Settle, "the boot override to be disabled", func(s system) bool { return !bootsCD(s) })
}

// installerSources are what an installer, or Slipway's agent, is booted from.
var installerSources = []schemas.BootSource{schemas.CdBootSource, usbCd, schemas.UefiHTTPBootSource, schemas.PxeBootSource}

// cancelLasting takes an override back that has every boot be from what an installer
// comes from, and proves it: by none, or by the disk where a BMC always has one. One
// that the design has as the first of the boot order stays.
func (m *machine) cancelLasting(ctx context.Context, n *site.Node, s system) error {
	i := slices.IndexFunc(installerSources, s.bootsAlways)
	if i < 0 || lastsByDesign(n, s) {
		return nil
	}
	gone := func(s system) bool { return !s.bootsAlways(installerSources[i]) }
	err := m.override(ctx, s, boot{Enabled: schemas.DisabledBootSourceOverrideEnabled})
	if err == nil {
		_, err = m.until(ctx, m.opts.Settle, "the boot override to be disabled", gone)
	}
	disk, ok := s.override(schemas.HddBootSource)
	var slow *noEffectError
	var answer *answerError
	if !ok || !errors.As(err, &slow) && !errors.As(err, &answer) || hasMessage(err, notNow...) {
		return err
	}
	_, err = m.bootNext(ctx, n, disk)
	return err
}

// freeFromDisk takes an override back that has every boot be from the disk though it
// was asked for one, so that the boot order holds again. A BMC that always has an
// override keeps this one: it leads to the installed system.
func (m *machine) freeFromDisk(ctx context.Context, n *site.Node) error {
	s, err := m.reread(ctx)
	if err != nil || !s.bootsAlways(schemas.HddBootSource) || lastsByDesign(n, s) {
		return err
	}
	err = m.override(ctx, s, boot{Enabled: schemas.DisabledBootSourceOverrideEnabled})
	var answer *answerError
	if errors.As(err, &answer) && !hasMessage(err, notNow...) {
		return nil
	}
	return err
}

// lastsByDesign says whether the override that a machine shows is how the design has
// it boot always: on a BMC without a boot order, that is its only form.
func lastsByDesign(n *site.Node, s system) bool {
	return len(s.bootOrder()) == 0 && len(n.Boot.Order) > 0 && n.Boot.Order[0] == words(s.object, "Boot", overrideTarget)
}

// override writes a boot override in the way that the BMC takes.
func (m *machine) override(ctx context.Context, s system, b boot) error {
	return m.tryForms(ctx, s, overrideTarget, m.overrideForms(s, b))
}

// tryForms writes boot settings to where the BMC takes the property, in the
// first of the forms that it does not refuse.
func (m *machine) tryForms(ctx context.Context, s system, property string, forms []boot) error {
	var err error
	for i, form := range forms {
		if i > 0 {
			m.habits.met(overrideForm)
		}
		if err = m.writeBoot(ctx, s, property, form); !hasStatus(err, http.StatusBadRequest) || hasMessage(err, notNow...) {
			return err
		}
	}
	return err
}

// notNow are messages after which another form of the same does not help.
var notNow = []string{"UnableToModifyDuringSystemPOST", "InvalidOperationForSystemState", "SYS518"}

// overrideForms are the ways to ask for the same override, the likeliest
// first. Enabled and Target are what most take; some want Mode with them, some
// refuse it, and some refuse to be sent an Enabled that is set already (the
// vendors are in docs/redfish.md).
func (m *machine) overrideForms(s system, b boot) []boot {
	plain, full, least := b, b, b
	plain.Mode = ""
	if full.Mode == "" {
		full.Mode = at[schemas.BootSourceOverrideMode](s.object, "Boot", "BootSourceOverrideMode")
	}
	if full.Target == "" {
		full.Target = schemas.NoneBootSource
	}
	least.Enabled, least.Mode = "", ""
	forms := []boot{plain, full}
	if b.Mode != "" || m.has(fullOverride) || m.has(explicitMode) {
		forms = []boot{full, plain}
	}
	if m.has(noMode) || m.has(leastOverride) {
		forms = []boot{plain}
	}
	if b.Target != "" && !m.has(resendEnabled) && at[schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled") == b.Enabled {
		forms = append(forms, least)
	}
	return forms
}

// future is the system with the boot settings that the next boot will have:
// those of its settings object (DSP0266 section 9.10) over its own. Some BMCs
// publish a settings object that cannot set the boot (sushy found so).
func (m *machine) future(ctx context.Context, s system) (system, error) {
	settings := settingsOf(s)
	if settings == "" || m.noBootSettings {
		return s, nil
	}
	o, err := m.client.get(ctx, settings)
	if err != nil && !hasStatus(err, http.StatusNotFound) {
		return s, err
	}
	next := at[object](o, "Boot")
	if next["BootOrder"] == nil && next[overrideTarget] == nil && next[overrideMode] == nil {
		m.noBootSettings = true
		return s, nil
	}
	return s.with(next), nil
}

// settingsOf is where the system's settings object is (DSP0266 section 9.10),
// empty where it has none.
func settingsOf(s system) string { return link(s.object, "@Redfish.Settings", "SettingsObject") }

// with is the system with other boot settings over its own.
func (s system) with(next object) system {
	merged := maps.Clone(at[object](s.object, "Boot"))
	if merged == nil {
		merged = object{}
	}
	maps.Copy(merged, next)
	text, err := json.Marshal(merged)
	if err != nil {
		return s
	}
	o := maps.Clone(s.object)
	o["Boot"] = text
	return system{o}
}

const overrideTarget = "BootSourceOverrideTarget"

// writeBoot writes boot settings to where the BMC takes the property: its
// settings object if that has it, or the system itself.
func (m *machine) writeBoot(ctx context.Context, s system, property string, b boot) error {
	settings := settingsOf(s)
	if settings == "" || m.noBootSettings {
		return m.client.patch(ctx, m.path, s.object, b.body())
	}
	o, err := m.client.get(ctx, settings)
	if err != nil {
		return err
	}
	if at[object](o, "Boot")[property] == nil {
		return m.client.patch(ctx, m.path, s.object, b.body())
	}
	m.habits.met(bootSettings)
	return m.client.patch(ctx, settings, o, b.body())
}

// lastingBoot is the boot facet of a machine without a boot order: the source
// of a Continuous override stands for all of it. Where there is no such override
// either, nothing lasts that could be seen; powerOn then sets it for each boot.
func (m *machine) lastingBoot(s system) (site.FacetState, bool, error) {
	if !m.overridesForGood(s) {
		return site.FacetState{}, false, nil
	}
	state := site.FacetState{Have: site.Values{"order": ""}, Sources: bootTargets(s), OneSource: true}
	if s.overrides(schemas.ContinuousBootSourceOverrideEnabled) {
		state.Have["order"] = words(s.object, "Boot", overrideTarget)
	}
	return state, true, nil
}

// overridesForGood says whether a boot override can be Continuous.
func (m *machine) overridesForGood(s system) bool {
	states := at[[]schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled@Redfish.AllowableValues")
	return at[object](s.object, "Boot")[overrideTarget] != nil && !m.has(noContinuous) &&
		(len(states) == 0 || slices.Contains(states, schemas.ContinuousBootSourceOverrideEnabled))
}

// overrides says whether the boot override is as given.
func (s system) overrides(enabled schemas.BootSourceOverrideEnabled) bool {
	return at[schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled") == enabled
}

// bootForGood has a machine without a boot order boot from the first of the
// designed sources.
func (m *machine) bootForGood(ctx context.Context, n *site.Node, s system) error {
	if !m.overridesForGood(s) {
		return fmt.Errorf("the machine has no boot order, and no override that lasts: %w", errors.ErrUnsupported)
	}
	target, ok := s.override(schemas.BootSource(n.Boot.Order[0]))
	if !ok {
		return fmt.Errorf("the machine cannot be told to boot from %s; change the design's boot.order: %w", n.Boot.Order[0], errors.ErrUnsupported)
	}
	always := boot{Enabled: schemas.ContinuousBootSourceOverrideEnabled, Target: target, Mode: bootModes[n.Boot.Mode]}
	if err := m.override(ctx, s, always); err != nil {
		return err
	}
	_, err := m.until(ctx, m.opts.Settle, "the boot to be from "+string(target), func(s system) bool {
		return s.overrides(schemas.ContinuousBootSourceOverrideEnabled) && at[schemas.BootSource](s.object, "Boot", overrideTarget) == target
	})
	return err
}

// bootAgain sets the designed boot source for the next boot of a machine that
// keeps none for good, as Ironic does where Continuous is refused. A machine
// that cannot be told the source boots as it does.
func (m *machine) bootAgain(ctx context.Context, n *site.Node, s system) error {
	if len(n.Boot.Order) == 0 || len(s.bootOrder()) > 0 || m.overridesForGood(s) || at[object](s.object, "Boot")[overrideTarget] == nil {
		return nil
	}
	target, ok := s.override(schemas.BootSource(n.Boot.Order[0]))
	if !ok {
		return nil
	}
	m.habits.met(noContinuous)
	_, err := m.bootOnce(ctx, n, target)
	return err
}

// setBoot makes the boot as designed: how the firmware boots first, for it may
// have other boot options then.
func (m *machine) setBoot(ctx context.Context, n *site.Node, s system) error {
	s, err := m.setMode(ctx, n, s)
	if err != nil {
		return err
	}
	return m.orderBoot(ctx, n, s)
}

// orderBoot puts the designed boot sources first and keeps the others behind.
func (m *machine) orderBoot(ctx context.Context, n *site.Node, s system) error {
	if len(n.Boot.Order) == 0 {
		return nil
	}
	if len(s.bootOrder()) == 0 {
		return m.bootForGood(ctx, n, s)
	}
	if err := m.boot.read(ctx, m.client, s); err != nil {
		return err
	}
	refs := s.bootOrder()
	order, absent := m.boot.order(refs, n.Boot.Order)
	if len(absent) > 0 {
		return fmt.Errorf("the machine has no boot option for %s, only for %s; change the design's boot.order: %w",
			strings.Join(absent, ", "), printable(strings.Join(m.boot.state(refs).Sources, ", ")), errors.ErrUnsupported)
	}
	if slices.Equal(refs, order) {
		return nil
	}
	if err := m.writeBoot(ctx, s, "BootOrder", boot{BootOrder: order}); err != nil {
		return err
	}
	_, err := m.until(ctx, m.opts.Settle, "the boot order to change", func(s system) bool { return slices.Equal(s.bootOrder(), order) })
	return err
}

// bootSource is the source (DSP0268 6.30, BootSource) that a boot option stands
// for: its Alias, or what its UEFI path and name tell where a BMC has none, as
// iDRAC, iLO and XCC have.
func bootSource(option object) string {
	if alias := words(option, "Alias"); alias != "" && alias != string(schemas.NoneBootSource) {
		return alias
	}
	told := strings.ToLower(words(option, "UefiDevicePath") + " " + words(option, "DisplayName"))
	for _, sign := range bootSigns {
		if strings.Contains(told, sign.has) {
			return string(sign.source)
		}
	}
	return ""
}

// bootSigns are what boot options of a source have in their UEFI path (UEFI
// 2.10, section 10.6.1.6) or name, in lower case; the first that is found
// counts.
var bootSigns = []struct {
	has    string
	source schemas.BootSource
}{
	{"/uri(", schemas.UefiHTTPBootSource}, {"http", schemas.UefiHTTPBootSource},
	{"cdrom(", schemas.CdBootSource}, {"virtual cd", schemas.CdBootSource}, {"cd/dvd", schemas.CdBootSource},
	{"usb(", schemas.UsbBootSource},
	{"mac(", schemas.PxeBootSource}, {"pxe", schemas.PxeBootSource}, {"network", schemas.PxeBootSource},
	{"hd(", schemas.HddBootSource}, {"nvme(", schemas.HddBootSource}, {"sata(", schemas.HddBootSource}, {"scsi(", schemas.HddBootSource},
	{"sas(", schemas.HddBootSource}, {"hard disk", schemas.HddBootSource}, {"harddisk", schemas.HddBootSource}, {"hard drive", schemas.HddBootSource},
	{"usb", schemas.UsbBootSource},
}
