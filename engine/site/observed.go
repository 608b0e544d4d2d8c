package site

import (
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/item"
)

// Values are a facet's fields in canonical form, by field name.
type Values map[string]string

// FacetState is one facet of one machine as a driver saw it.
type FacetState struct {
	// Have is the current state. Pending was accepted and waits for a reboot.
	Have    Values `json:"have,omitempty"`
	Pending Values `json:"pending,omitempty"`
	// Unresolved says why fields of the design, by their names there, mean nothing on this machine.
	// While it has any, nothing of the facet is written.
	Unresolved Values `json:"unresolved,omitempty"`
	// Terms is the digest of the machine's names for its settings, for a facet whose design has to
	// be translated into them. Words are those names. They are nil if they are not available; then
	// no design can be compared.
	Terms string      `json:"terms,omitempty"`
	Words *bios.Terms `json:"-"`
	// Sources are the boot sources that the machine offers, nil if it does not say. OneSource means
	// that it keeps only the first of a designed order.
	Sources   []string `json:"sources,omitempty"`
	OneSource bool     `json:"oneSource,omitempty"`
	// Owned are the keys of the items that Slipway made, for a facet inside the installed system.
	// OwnedDigest is the digest of their list on the machine. Cannot says why the system cannot
	// have a key, a field or a value of a field, by the names that item.Lacking looks for.
	Owned       []string `json:"owned,omitempty"`
	OwnedDigest string   `json:"ownedDigest,omitempty"`
	// Asked are the fields that those items were last asked for, by key.
	Asked  map[string][]string `json:"lastAsked,omitempty"` // older records use "asked" for something else
	Cannot Values              `json:"cannot,omitempty"`
	// Absent are the keys of items that were looked for and do not exist. An item in neither Absent
	// nor Have is unknown.
	Absent []string `json:"absent,omitempty"`
	// Busy says what the machine is doing with the facet by itself. Slipway writes nothing
	// meanwhile.
	Busy string `json:"busy,omitempty"`
	// Unconfirmed means that a network change will be rolled back unless it is confirmed.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Seen is when the facet was seen, Driver the scheme of the driver that saw it.
	Seen   time.Time `json:"seen,omitzero"`
	Driver string    `json:"driver,omitempty"`
	// Unread says why items could not be read, by key. Their state is unknown.
	Unread Values `json:"unread,omitempty"`
	// Due are fields that differ only because what Slipway signed is to be replaced: the machine has what it was
	// given.
	Due []string `json:"due,omitempty"`
	// Signed are the serial numbers of the TLS certificates that the system has, of those that Slipway signed, by
	// the name in the design.
	Signed Values `json:"signed,omitempty"`
	// ListsUntil is when the lists of revoked certificates that the system has beside them are over, by the name in
	// the design.
	ListsUntil map[string]time.Time `json:"listsUntil,omitempty"`
	// Waits says what must happen before all changes take effect: one of the constants below, or
	// empty.
	Waits string `json:"waits,omitempty"`
	// Upgrades are the upgrades that the system lacks; nil if nobody looked.
	Upgrades *item.Upgrades `json:"upgrades,omitempty"`
	// Contents are the public files that differ from the design, by key. They serve people who look
	// at the difference now, and are in no record and no status.
	Contents map[string]item.Content `json:"-"`
	// System is the installed system in which the facet was seen; nil for facets outside it.
	System *Platform `json:"system,omitempty"`
}

// Values of FacetState.Waits. WaitsReboot: only a reboot makes the change take effect.
// WaitsLibraries: programs run with libraries that were replaced, until they or the machine
// restart.
const (
	WaitsReboot    = "reboot"
	WaitsLibraries = "libraries"
)

// Platform describes an installed system, as far as its items depend on it.
type Platform struct {
	// Family is "debian", "rhel", or what os-release(5) says. ID and Release are its ID and
	// VERSION_ID.
	Family  string `json:"family,omitempty"`
	ID      string `json:"id,omitempty"`
	Release string `json:"release,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	// Network is the program that manages the network.
	Network string `json:"network,omitempty"`
	// Model is the machine's model as its firmware reports it to the system. PCI are its PCI
	// devices. Both are read if drivers of the design may be for the machine; otherwise PCI is nil.
	Model string    `json:"model,omitempty"`
	PCI   *item.PCI `json:"pci,omitempty"`
}

// Observed is what drivers saw of one machine.
type Observed struct {
	Identity Identity             `json:"identity,omitzero"`
	Facets   map[Facet]FacetState `json:"facets,omitempty"`
	Marker   *Marker              `json:"marker,omitempty"`
	// MarkerUnread says why the system's marker could not be read.
	MarkerUnread string `json:"markerUnread,omitempty"`
	// Inventory is what the machine is made of, in brief.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Disks are the machine's disks as its BMC last reported; nil before the BMC was asked.
	Disks *Disks `json:"disks,omitempty"`
	// Lacks is what cannot be done to the machine; nil before somebody looked.
	Lacks *Lacks `json:"lacks,omitempty"`
	// Login is how Slipway logged in to the installed system; nil where it did not.
	Login *Login `json:"login,omitempty"`
	// Inside is what the installed system tells of itself.
	Inside *Inside `json:"inside,omitempty"`
	// Links are the network links as the installed system sees them, as of FacetState.Seen of
	// FacetLinks; nil before the system was asked.
	Links *item.LinksSeen `json:"links,omitempty"`
	// Agent is what was seen of Slipway's agent in the machine's memory; nil if nobody looked for
	// one.
	Agent *AgentSeen `json:"agent,omitempty"`
	// Entries are the newest entries of the machine's own log, oldest first. They are reported once
	// and not recorded.
	Entries []Entry `json:"-"`
}

// AgentSeen is what was seen of an agent in a machine's memory.
type AgentSeen struct {
	// Connected means that the agent is connected now.
	Connected bool `json:"connected,omitempty"`
	// Generation is that of the installation for which the agent was started.
	Generation int `json:"generation,omitempty"`
	// Disks are the machine's disks as the agent last reported them, at Seen; zero before the first report.
	Disks []item.Disk `json:"disks,omitempty"`
	Seen  time.Time   `json:"seen,omitzero"`
	// Inventory is what the machine is made of, as the agent reported it at that time.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Earlier is what an agent saw that was started before for the same generation, until this one has reported its first
	// disks. They may have been replaced since, so it says only what was approved for this start.
	Earlier *AgentSeen `json:"earlier,omitempty"`
}

// LastReport returns the last report of disks for the generation that an agent was started for, which may be that of an
// agent before it; nil for none.
func (a *AgentSeen) LastReport() *AgentSeen {
	if a == nil || !a.Seen.IsZero() {
		return a
	}
	return a.Earlier
}

// IsConnected reports whether an agent is connected. It is false for nil.
func (a *AgentSeen) IsConnected() bool { return a != nil && a.Connected }

// Entry is one entry of a machine's own log.
type Entry struct {
	// ID identifies the entry for as long as the log exists.
	ID string `json:"id"`
	// When is zero where the BMC does not say.
	When time.Time `json:"when,omitzero"`
	// Severity is "OK", "Warning" or "Critical", empty when the BMC does not
	// say.
	Severity string `json:"severity,omitempty"`
	Text     string `json:"text"`
}

// MachineLog are the newest entries of a machine's own log.
type MachineLog struct {
	// Read is when they were read; zero if they were not since the daemon started.
	Read time.Time `json:"read,omitzero"`
	// Entries are at most some dozen, oldest first.
	Entries []Entry `json:"entries"`
}

// Closeup is everything known of one node.
type Closeup struct {
	Memory
	// Inventory is the full inventory, nil before the first inspection.
	Inventory *Inventory `json:"inventory,omitempty"`
}

// Seen is when any facet of the machine was last seen; zero means never.
func (o Observed) Seen() time.Time {
	var last time.Time
	for _, f := range o.Facets {
		if f.Seen.After(last) {
			last = f.Seen
		}
	}
	return last
}

// OwnedDigest returns the observed digest of the list of what Slipway made inside the system. It is
// false if nothing inside was seen.
func (o Observed) OwnedDigest() (digest string, seen bool) {
	for _, f := range InsideFacets {
		if state := o.Facets[f]; !state.Seen.IsZero() {
			return state.OwnedDigest, true
		}
	}
	return "", false
}

// Merge returns o updated with everything that a newer observation saw.
func (o Observed) Merge(newer Observed) Observed {
	merged := o
	merged.Facets = maps.Clone(o.Facets)
	if merged.Facets == nil {
		merged.Facets = map[Facet]FacetState{}
	}
	maps.Copy(merged.Facets, newer.Facets)
	if probes, looked := newer.Facets[FacetProbes]; looked {
		probes.Have, probes.Unread = sameWords(o.Facets[FacetProbes].Have, probes.Have), sameWords(o.Facets[FacetProbes].Unread, probes.Unread)
		merged.Facets[FacetProbes] = probes
	}
	if newer.Identity.Known() {
		merged.Identity = newer.Identity
	}
	if _, inside := newer.Facets[FacetOS]; inside || newer.Marker != nil {
		merged.Marker, merged.MarkerUnread = newer.Marker, newer.MarkerUnread // a system without a marker has none
	}
	if newer.Inventory != nil {
		merged.Inventory = newer.Inventory
	}
	if newer.Disks != nil {
		merged.Disks = newer.Disks
	}
	if newer.Agent != nil {
		merged.Agent = newer.Agent
	}
	if newer.Lacks != nil {
		merged.Lacks = newer.Lacks
	}
	if newer.Login != nil {
		merged.Login = newer.Login
	}
	if newer.Inside != nil {
		merged.Inside = newer.Inside
	}
	if newer.Links != nil {
		merged.Links = newer.Links.After(o.Links)
	}
	return merged
}

// sameWords returns the newer values. A value keeps its earlier words if only numbers after the
// first colon differ. A program printed that part, with times and counts that would make the status
// look changed.
func sameWords(earlier, newer Values) Values {
	if len(earlier) == 0 || len(newer) == 0 {
		return newer
	}
	told := maps.Clone(newer)
	for field, says := range newer {
		said := earlier[field]
		what, printed, _ := strings.Cut(said, ": ")
		whatNow, prints, _ := strings.Cut(says, ": ")
		if what == whatNow && numbers.ReplaceAllString(printed, "0") == numbers.ReplaceAllString(prints, "0") {
			told[field] = said
		}
	}
	return told
}

var numbers = regexp.MustCompile(`[0-9]+`)

// Disks distinguish the disks of one machine from others.
type Disks struct {
	// Serials are the serial numbers, sorted; a disk without one is named by its place and size. It
	// is empty if the BMC reports no disks.
	Serials []string `json:"serials,omitempty"`
	// Partly means that there may be more disks, which could not be read.
	Partly bool `json:"partly,omitempty"`
}
