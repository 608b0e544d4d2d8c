package item

import "slices"

// Upgrade is one package that upgrades replace, or that comes with them.
type Upgrade struct {
	Name string `json:"name"`
	// From is the version that is installed; empty for a package that comes with another one.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Security says that its distribution calls it an upgrade for security.
	Security bool `json:"security,omitempty"`
	// Restart is what the package asks of the machine after it is installed: one of the
	// constants below, or empty for nothing.
	Restart string `json:"restart,omitempty"`
}

// What an upgrade asks of the machine.
const (
	RestartNeeded    = "needed"    // the machine needs a restart
	RestartPossible  = "possible"  // the package itself decides when it is installed
	RestartLibraries = "libraries" // programs use libraries that it replaces
)

// Upgrades are those that a system lacks, of every level.
type Upgrades struct {
	// Packages are in the order of their names, MaxUpgrades at most; More were left out.
	Packages []Upgrade `json:"packages,omitempty"`
	More     int       `json:"more,omitempty"`
	// Doubt says why there may be others; empty for no reason.
	Doubt string `json:"doubt,omitempty"`
}

// MaxUpgrades bounds the upgrades that a system tells of.
const MaxUpgrades = 2000

// AsksFor says whether a patch asks for an upgrade.
func (p Patch) AsksFor(u Upgrade) bool {
	return (p.Level == PatchAll || u.Security) && !slices.Contains(p.Except, u.Name)
}
