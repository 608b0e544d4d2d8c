package nspawn

// Suite is a release of a distribution that a system can be made of.
type Suite struct {
	Name     string   // for people, as in docs/systems.md
	Codename string   // of its archive; empty is the release of this host
	Packages []string // that it comes with, beside those of the recipe
}

// Suites are those that are made. That of this host, Debian 12, is the first.
var Suites = []Suite{
	{Name: "Debian 12", Codename: "bookworm"},
	{Name: "Debian 11", Codename: "bullseye"},
	{Name: "Debian 13", Codename: "trixie"},
	{Name: "Ubuntu 22.04", Codename: "jammy", Packages: []string{"netplan.io"}},
	{Name: "Ubuntu 24.04", Codename: "noble", Packages: []string{"netplan.io"}},
	{Name: "Ubuntu 26.04", Codename: "resolute", Packages: []string{"netplan.io", "sudo-rs"}},
}
