package redfish

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// object is a resource whose fields are decoded one by one when they are
// asked for. gofish's types decode a resource as a whole, so that one field of
// a wrong kind ("N/A" for a number; gofish issues 99, 264, 409) loses all of
// it; here it loses that field.
type object map[string]json.RawMessage

// at is the value at a path of names, the zero value when it is missing or of
// another kind.
func at[T any](o object, path ...string) T {
	var v, zero T
	for _, name := range path[:len(path)-1] {
		var next object
		if json.Unmarshal(o[name], &next) != nil {
			return zero
		}
		o = next
	}
	if json.Unmarshal(o[path[len(path)-1]], &v) != nil {
		return zero
	}
	return v
}

// words is a text at a path of names, fit to be shown.
func words(o object, path ...string) string {
	return printable(strings.TrimSpace(at[string](o, path...)))
}

// link is the path that a reference leads to.
func link(o object, path ...string) string {
	return at[string](o, append(path, "@odata.id")...)
}

// maxLinks bounds what one list of a BMC may have us read.
const maxLinks = 128

// links are the paths that a list of references leads to.
func links(o object, path ...string) []string {
	var paths []string
	for _, ref := range items(o, path...) {
		if p := link(ref); p != "" && len(paths) < maxLinks {
			paths = append(paths, p)
		}
	}
	return paths
}

// system is a ComputerSystem (DSP0268 6.30) as it was just read.
type system struct{ object }

func (s system) power() schemas.PowerState {
	return at[schemas.PowerState](s.object, "PowerState")
}

// powerStates are what a PowerState says of where the machine is and where it
// goes. A machine is where it came from until it has arrived.
var powerStates = map[schemas.PowerState]struct{ is, goes string }{
	schemas.OnPowerState:          {is: "on"},
	schemas.PausedPowerState:      {is: "on"},
	schemas.OffPowerState:         {is: "off"},
	schemas.PoweringOnPowerState:  {is: "off", goes: "on"},
	schemas.PoweringOffPowerState: {is: "on", goes: "off"},
}

func (s system) on() bool  { return settled(s, "on") }
func (s system) off() bool { return settled(s, "off") }
func settled(s system, is string) bool {
	p := powerStates[s.power()]
	return p.is == is && p.goes == ""
}

// heading is where the power will be without anybody doing anything.
func (s system) heading() string {
	p := powerStates[s.power()]
	if p.goes != "" {
		return p.goes
	}
	return p.is
}

// health is OK, Warning or Critical for the machine with all its parts, empty
// when the BMC does not say.
func (s system) health() string { return healthBy(s.object, "HealthRollup", "HealthRollUp", "Health") }

func (s system) inventory() *site.Inventory {
	return &site.Inventory{
		Manufacturer: words(s.object, "Manufacturer"),
		Model:        words(s.object, "Model"),
		SKU:          words(s.object, "SKU"),
		BIOS:         words(s.object, "BiosVersion"),
		Processors:   int(number(s.object, "ProcessorSummary", "Count")),
		MemoryGiB:    amount(s.object, "MemorySummary", "TotalSystemMemoryGiB"),
	}
}

// bootOrder are the references of the boot options in persistent order. One
// longer than can be looked up is as good as none.
func (s system) bootOrder() []string {
	refs := at[[]string](s.object, "Boot", "BootOrder")
	if len(refs) > maxLinks {
		return nil
	}
	return refs
}

// bootsOnce says whether the next boot, and only that, is from the target.
func (s system) bootsOnce(target schemas.BootSource) bool {
	return at[schemas.BootSourceOverrideEnabled](s.object, "Boot", "BootSourceOverrideEnabled") == schemas.OnceBootSourceOverrideEnabled &&
		at[schemas.BootSource](s.object, "Boot", "BootSourceOverrideTarget") == target
}

// bootsAlways says whether every boot is from the target until that is changed.
func (s system) bootsAlways(target schemas.BootSource) bool {
	return s.overrides(schemas.ContinuousBootSourceOverrideEnabled) &&
		at[schemas.BootSource](s.object, "Boot", overrideTarget) == target
}

// bootsNext says whether the next boot is from the target. Some BMCs keep for all
// boots what they were asked for one.
func (s system) bootsNext(target schemas.BootSource) bool {
	return s.bootsOnce(target) || s.bootsAlways(target)
}

// override is the first of the targets that a one-time boot may have; a BMC
// that lists none takes the first.
func (s system) override(targets ...schemas.BootSource) (schemas.BootSource, bool) {
	allowed := at[[]schemas.BootSource](s.object, "Boot", "BootSourceOverrideTarget@Redfish.AllowableValues")
	if len(allowed) == 0 {
		return targets[0], true
	}
	for _, t := range targets {
		if slices.Contains(allowed, t) {
			return t, true
		}
	}
	return "", false
}

// resets is where a reset is asked for, empty when the system has no such
// action.
func (s system) resets() string {
	return at[string](s.object, "Actions", resetAction, "target")
}
