package site

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Facet is one side of a machine that can be designed and observed by itself.
type Facet string

// The facets. The table Facets says what holds of each.
const (
	FacetPower     Facet = "power"
	FacetBoot      Facet = "boot"
	FacetImage     Facet = "image"
	FacetHealth    Facet = "health"
	FacetInventory Facet = "inventory"
	FacetSensors   Facet = "sensors"
	FacetLog       Facet = "log"
	FacetOS        Facet = "os"
	FacetProbes    Facet = "probes"
	FacetLinks     Facet = "links"
	FacetFirmware  Facet = "firmware"
	FacetBIOS      Facet = "bios"
	FacetAccounts  Facet = "accounts"
	FacetStorage   Facet = "storage"
	FacetBase      Facet = "base"
	FacetNetwork   Facet = "network"
	FacetPackages  Facet = "packages"
	FacetConfig    Facet = "config"
	FacetKernel    Facet = "kernel"
	FacetActions   Facet = "actions"
	// These are of virtual machines alone.
	FacetDefinition Facet = "definition"
	FacetDisks      Facet = "disks"
	FacetSeed       Facet = "seed"
)

// FacetKind is what holds of a facet on every machine.
type FacetKind struct {
	// Endpoint is the kind of endpoint that serves it. The image is served by the
	// BMC, which installs; that it was installed is proven by the marker that the
	// os endpoint reads.
	Endpoint EndpointKind
	// Phase is the phase that it belongs to. A facet without one, such as the
	// power, and one whose phase a node's role does not have, belong to the first
	// phase of the role.
	Phase string
	// Every is how often it is read of a machine on which nothing goes on; it is
	// read with each look where that is 0.
	Every time.Duration
	// Staged is set where a machine takes over something of it when it boots.
	Staged bool
	// Once is set where each item is done once in an installation of ours, in a phase of
	// its own, and never again by itself, see PhaseOfItem. No difference of it is drift.
	Once bool
	// Proposable is set where what was seen of it can be proposed as a change of the design.
	Proposable bool
	// Change is what making it as designed takes, where that is always the same.
	// Expected durations are what common servers need.
	Change Work
	// Parts are what a design can ask of it, where it has more than one.
	Parts []FacetPart
}

// Work is what a step amounts to.
type Work struct {
	Action Action
	Impact Impact
	Expect Duration
	Undo   string
}

// Earlier is how what a design sets is undone.
const Earlier = "go back to the earlier design"

// Facets is the table of what holds of each facet: the one place that knows it.
// What is staged disrupts nothing by itself: the restart after it does.
var Facets = map[Facet]FacetKind{
	FacetPower:     {Endpoint: Manager, Proposable: true},
	FacetBoot:      {Endpoint: Manager, Proposable: true},
	FacetImage:     {Endpoint: Manager},
	FacetHealth:    {Endpoint: Manager},
	FacetInventory: {Endpoint: Manager, Every: 24 * time.Hour},
	FacetSensors:   {Endpoint: Manager, Every: 10 * time.Minute},
	FacetLog:       {Endpoint: Manager, Every: time.Hour},
	FacetFirmware: {Endpoint: Manager, Every: time.Hour, Staged: true,
		Change: Work{ActionFirmware, ImpactOnline, Duration(5 * time.Minute), "only to a version that the BMC accepts"},
		Parts:  []FacetPart{{Path: "firmware", of: func(n *Node) any { return n.Firmware }}}},
	FacetBIOS: {Endpoint: Manager, Every: 15 * time.Minute, Staged: true, Proposable: true,
		Change: Work{ActionBIOS, ImpactOnline, Duration(30 * time.Second), "set it back and boot again"}},
	FacetAccounts: {Endpoint: Manager, Every: 15 * time.Minute,
		Change: Work{ActionAccounts, ImpactOnline, Duration(time.Minute), "cannot be undone: a password that was replaced is not known; " + Earlier},
		Parts: []FacetPart{
			{Path: "bmc.accounts", of: func(n *Node) any { return n.BMC.Accounts }},
			{Path: "bmc.unlisted", of: func(n *Node) any { return n.BMC.Unlisted.Accounts }},
		}},
	FacetStorage: {Endpoint: Agent, Parts: []FacetPart{
		{Path: "storage.disks", of: func(n *Node) any { return n.Storage.layouts() }, Install: true},
		{Path: "storage.arrays", of: func(n *Node) any { return n.Storage.Arrays }, Install: true},
		{Path: "storage.controllers", of: func(n *Node) any { return n.Storage.Controllers }, Nobody: true},
		{Path: "storage.groups", of: func(n *Node) any { return n.Storage.Groups }, Install: true},
		{Path: "storage.erase", of: func(n *Node) any { return n.Storage.Erase }, Install: true},
		{Path: "storage.bootDisk", of: func(n *Node) any { return n.Storage.BootDisk }, Install: true},
	}},
	FacetOS: {Endpoint: OS},
	// What a role's health asks of the system that runs, see Health. Nothing is set.
	FacetProbes: {Endpoint: OS},
	// What the system sees of its ports, their cables and its networks, see Links. Nothing
	// is set.
	FacetLinks: {Endpoint: OS},
	FacetBase: {Endpoint: OS, Phase: "base", Proposable: true,
		Change: Work{ActionBase, ImpactOnline, Duration(time.Minute), Earlier},
		Parts: []FacetPart{
			{Path: "system.hostname", of: func(n *Node) any { return n.System.Hostname }},
			{Path: "system.hosts", of: func(n *Node) any { return n.System.Hosts }},
			{Path: "system.users", of: func(n *Node) any { return n.System.Users }, FirstBoot: true},
			{Path: "system.time.zone", of: func(n *Node) any { return n.System.Time.Zone }, FirstBoot: true},
			{Path: "system.time.servers", of: func(n *Node) any { return n.System.Time.Servers }},
			{Path: "system.logs", of: func(n *Node) any { return n.System.Logs.Forward }},
			{Path: "system.ssh.accounts", of: func(n *Node) any { return n.System.SSH.Accounts }},
		}},
	FacetNetwork: {Endpoint: OS, Phase: "network",
		Change: Work{ActionNetwork, ImpactInterrupts, Duration(30 * time.Second), "the machine sets it back by itself when it cannot be reached; later, " + Earlier},
		Parts: []FacetPart{
			{Path: "interfaces", of: func(n *Node) any { return n.Interfaces }, FirstBoot: true},
			{Path: "bonds", of: func(n *Node) any { return n.Bonds }, FirstBoot: true},
			{Path: "bridges", of: func(n *Node) any { return n.Bridges }, FirstBoot: true},
			{Path: "vlans", of: func(n *Node) any { return n.VLANs }, FirstBoot: true},
		}},
	FacetPackages: {Endpoint: OS, Phase: "install", Proposable: true,
		Change: Work{ActionPackages, ImpactOnline, Duration(2 * time.Minute), Earlier},
		Parts: []FacetPart{
			{Path: "system.packages", of: func(n *Node) any { return n.System.Packages }},
			{Path: "system.repositories", of: func(n *Node) any { return n.System.Repositories }},
			{Path: "system.environments", of: func(n *Node) any { return n.System.Environments }},
			{Path: "system.patch", of: func(n *Node) any { return n.System.Patch }},
		}},
	FacetConfig: {Endpoint: OS, Phase: "configure", Proposable: true,
		Change: Work{ActionConfig, ImpactOnline, Duration(90 * time.Second), Earlier},
		Parts: []FacetPart{
			{Path: "system.files", of: func(n *Node) any { return n.System.Files }},
			{Path: "system.certificates", of: func(n *Node) any { return n.System.Certificates }},
			{Path: "system.units", of: func(n *Node) any { return n.System.Units }},
			{Path: "system.unlisted", of: func(n *Node) any { return n.System.Unlisted }},
			{Path: "system.sysctl", of: func(n *Node) any { return n.System.Sysctl }},
			{Path: "system.modules", of: func(n *Node) any { return n.System.Modules }},
		}},
	FacetKernel: {Endpoint: OS, Phase: "install", Staged: true, Proposable: true,
		Change: Work{ActionKernel, ImpactOnline, Duration(2 * time.Minute), "set it back and boot again"},
		Parts: []FacetPart{
			{Path: "kernel.package", of: func(n *Node) any { return n.Kernel.Package }},
			{Path: "kernel.parameters", of: func(n *Node) any { return n.Kernel.Parameters }},
		}},
	// It is designed outside the nodes, as bootActions.
	FacetActions: {Endpoint: OS, Once: true,
		Change: Work{ActionOnce, ImpactOnline, Duration(2 * time.Minute), "cannot be undone"}},

	FacetDefinition: {Endpoint: Manager, Staged: true},
	FacetDisks: {Endpoint: Manager, Staged: true,
		Change: Work{ActionDisks, ImpactOnline, Duration(10 * time.Second), "cannot be undone: no disk is removed or made smaller"}},
	FacetSeed: {Endpoint: Manager},
}

// InsideFacets are those that are made of items inside the installed system, in the order in which
// they are made within a phase.
var InsideFacets = []Facet{FacetBase, FacetNetwork, FacetPackages, FacetKernel, FacetConfig, FacetActions}

// IsInside says whether a facet is made of items inside the installed system.
func IsInside(f Facet) bool { return slices.Contains(InsideFacets, f) }

// FacetPart is something that a design can ask of a facet, by its path in a node.
type FacetPart struct {
	Path string
	of   func(*Node) any
	// FirstBoot is set where the first boot of a virtual machine brings it about.
	FirstBoot bool
	// Install is set where an installation by Slipway's agent brings it about, Nobody where
	// no driver does yet although one acts on the facet.
	Install, Nobody bool
}

// FacetOf is the facet that a part of a design belongs to, by its path in a node or in the
// site; empty for none.
func FacetOf(path string) Facet {
	for f, kind := range Facets {
		if slices.ContainsFunc(kind.Parts, func(p FacetPart) bool { return p.Path == path }) {
			return f
		}
	}
	for _, p := range siteParts {
		if p.path == path && len(p.facets) > 0 {
			return p.facets[0]
		}
	}
	return ""
}

// AskedBy says whether a node's design asks for it.
func (p FacetPart) AskedBy(n *Node) bool { return says(p.of(n)) }

// says is whether a part of a design says anything.
func says(part any) bool {
	switch v := reflect.ValueOf(part); v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() > 0
	default:
		return !v.IsZero()
	}
}

// siteParts are what a design can ask outside its nodes, by path, and the facets
// of which one has to be acted on for it to come about; none where no facet does.
var siteParts = []struct {
	path   string
	facets []Facet
	of     func(*Site) any
}{
	{"artifacts", []Facet{FacetFirmware}, func(s *Site) any { return s.artifactsBesideFiles() }},
	{"bootActions", []Facet{FacetActions}, func(s *Site) any { return s.BootActions }},
	{kindDrivers, []Facet{FacetConfig, FacetPackages}, func(s *Site) any { return s.Drivers }},
	{"racks.switches", nil, func(s *Site) any { return s.switches() }},
}

// artifactsBesideFiles are those that are no content of a file, which is the file's part
// of the design.
func (s *Site) artifactsBesideFiles() map[string]*Artifact {
	all := maps.Clone(s.Artifacts)
	for _, n := range s.Nodes {
		for name := range n.References.Artifacts {
			delete(all, name)
		}
	}
	return all
}

func (s *Site) switches() (all []string) {
	for _, r := range s.Racks {
		all = slices.AppendSeq(all, maps.Keys(r.Switches))
	}
	return all
}

// NotActedOn are the parts of a site's design outside its nodes that no driver acts
// on, by path and in order, where the drivers act on some facets.
func (s *Site) NotActedOn(acts map[Facet]bool) []string {
	var paths []string
	for _, p := range siteParts {
		if says(p.of(s)) && !slices.ContainsFunc(p.facets, func(f Facet) bool { return acts[f] }) {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// layouts are the disks that something is to be done with, or expressly nothing; the
// others are only looked for.
func (s Storage) layouts() map[string]Disk {
	var all map[string]Disk
	for name, d := range s.Disks {
		if len(d.Partitions) > 0 || d.Table != "" || d.Keep || d.Count != "" || d.Use != (Use{}) {
			if all == nil {
				all = map[string]Disk{}
			}
			all[name] = d
		}
	}
	return all
}

// NotActedOn are the parts of a node's design that no driver acts on, by path and
// in order, where the drivers act on some facets. What the first boot of a virtual
// machine brings about is not among them. What is to be done about drift is, where
// nobody looks for it, or where it is to be proposed and a design cannot say it.
func (n *Node) NotActedOn(acts map[Facet]bool) []string {
	paths := n.partsBeyond(acts)
	for f, policy := range n.Drift {
		if !n.Served(acts)[f] || policy == "propose" && !Facets[f].Proposable {
			paths = append(paths, "drift."+string(f))
		}
	}
	for family, system := range n.Families {
		own := Node{Style: n.Style, System: system, Endpoints: n.Endpoints}
		for _, path := range own.partsBeyond(acts) {
			paths = append(paths, "families."+family+strings.TrimPrefix(path, "system"))
		}
	}
	slices.Sort(paths)
	return paths
}

// Served are those of some facets for which a node has the endpoint: what is inside its
// system is reached over endpoints.os alone.
func (n *Node) Served(acts map[Facet]bool) map[Facet]bool {
	if n.Endpoints[OS].URL != "" {
		return acts
	}
	served := maps.Clone(acts)
	maps.DeleteFunc(served, func(f Facet, _ bool) bool { return IsInside(f) })
	return served
}

func (n *Node) partsBeyond(acts map[Facet]bool) []string {
	var paths []string
	acts = n.Served(acts)
	for f, kind := range Facets {
		for _, p := range kind.Parts {
			if p.AskedBy(n) && !p.comesAbout(n, acts[f]) {
				paths = append(paths, p.Path)
			}
		}
	}
	return paths
}

// comesAbout says whether what a node's design asks of a part of a facet is brought about,
// where a driver acts on the facet or does not.
func (p FacetPart) comesAbout(n *Node, acts bool) bool {
	switch {
	case p.FirstBoot && n.IsVirtual():
		return true
	case p.Nobody:
		return false
	case p.Install:
		return acts && n.References.ByAgent && n.Generation > 0
	}
	return acts
}

// Unacted are parts of designs that no driver acts on, by path, and whose they
// are: the site's own where no nodes are named.
type Unacted struct {
	Paths []string `json:"paths"`
	Nodes []string `json:"nodes"`
}

// GroupUnacted puts parts together that the same nodes have: the site's own first,
// then what most nodes have.
func GroupUnacted(all []Unacted) []Unacted {
	of := map[string][]string{}
	for _, u := range all {
		for _, path := range u.Paths {
			of[path] = append(of[path], u.Nodes...)
		}
	}
	var groups []Unacted
	for _, path := range slices.Sorted(maps.Keys(of)) {
		i := slices.IndexFunc(groups, func(g Unacted) bool { return slices.Equal(g.Nodes, of[path]) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Unacted{Nodes: of[path]})
		}
		groups[i].Paths = append(groups[i].Paths, path)
	}
	rank := func(u Unacted) int {
		if len(u.Nodes) == 0 {
			return math.MinInt
		}
		return -len(u.Nodes)
	}
	slices.SortStableFunc(groups, func(a, b Unacted) int { return cmp.Compare(rank(a), rank(b)) })
	return groups
}

// String names the parts, and a few of the nodes.
func (u Unacted) String() string {
	const some = 5
	names := strings.Join(u.Nodes[:min(len(u.Nodes), some)], ", ")
	if more := len(u.Nodes) - some; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	if names == "" {
		names = "the site"
	}
	return strings.Join(u.Paths, ", ") + " (" + names + ")"
}
