package item

import "slices"

// Upgrade is one package that upgrades replace, or that comes with them.
type Upgrade struct {
	Name string `json:"name"`
	// From is the installed version; empty for a package that comes with another one.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Security means that the distribution calls it a security upgrade.
	Security bool `json:"security,omitempty"`
	// Restart is what the package needs of the machine after its installation: one of the constants
	// below, or empty for nothing.
	Restart string `json:"restart,omitempty"`
}

// What an upgrade needs of the machine.
const (
	RestartNeeded    = "needed"    // the machine needs a restart
	RestartPossible  = "possible"  // the package decides during its installation
	RestartLibraries = "libraries" // programs use libraries that it replaces
)

// Upgrades are the upgrades that a system lacks, of every level.
type Upgrades struct {
	// Packages are sorted by name, at most MaxUpgrades; More were left out.
	Packages []Upgrade `json:"packages,omitempty"`
	More     int       `json:"more,omitempty"`
	// Doubt says why there may be further upgrades; empty for no reason.
	Doubt string `json:"doubt,omitempty"`
}

// MaxUpgrades limits the upgrades that a system reports.
const MaxUpgrades = 2000

// AsksFor reports whether a patch asks for an upgrade.
func (p Patch) AsksFor(u Upgrade) bool {
	return (p.Level == PatchAll || u.Security) && !slices.Contains(p.Except, u.Name)
}
