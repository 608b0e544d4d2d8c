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
	// Have is what is, Pending what was accepted and waits for a reboot.
	Have    Values `json:"have,omitempty"`
	Pending Values `json:"pending,omitempty"`
	// Unresolved says of fields of the design, by their names there, why they
	// mean nothing on this machine. Nothing of the facet is written then.
	Unresolved Values `json:"unresolved,omitempty"`
	// Terms is the digest of what the machine calls its settings, for a facet whose
	// design has to be put into the machine's words, and Words those terms: nil where
	// they are not at hand, so that nothing can be said of any design.
	Terms string      `json:"terms,omitempty"`
	Words *bios.Terms `json:"-"`
	// Sources are what a machine can be told to boot from, nil where it does not
	// say; OneSource that it keeps the first of a designed order alone.
	Sources   []string `json:"sources,omitempty"`
	OneSource bool     `json:"oneSource,omitempty"`
	// Owned are the keys of the items that Slipway made, for a facet inside the
	// installed system; OwnedDigest names the list of them on the machine. Cannot says
	// of keys, of fields and of values of fields why the system cannot have them, by the
	// names that item.Lacking looks for.
	Owned       []string `json:"owned,omitempty"`
	OwnedDigest string   `json:"ownedDigest,omitempty"`
	// Asked are the names of the fields that those items were last asked for, by key.
	Asked  map[string][]string `json:"lastAsked,omitempty"` // records of before have another thing under "asked"
	Cannot Values              `json:"cannot,omitempty"`
	// Absent are the keys of items that were looked for and are not there. Of an item
	// that is neither here nor in Have nothing is known.
	Absent []string `json:"absent,omitempty"`
	// Busy says what is under way with the facet on the machine by itself;
	// nothing is written meanwhile.
	Busy string `json:"busy,omitempty"`
	// Unconfirmed says that a change of the network is set back unless it is confirmed.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Seen is when, Driver by which driver's scheme.
	Seen   time.Time `json:"seen,omitzero"`
	Driver string    `json:"driver,omitempty"`
	// Unread says of keys of items why they could not be read: nothing is known of
	// them then.
	Unread Values `json:"unread,omitempty"`
	// Waits says what must happen before all of it has its effect: WaitsReboot, or
	// empty.
	Waits string `json:"waits,omitempty"`
	// Upgrades are those that the system lacks; nil where nobody looked for them.
	Upgrades *item.Upgrades `json:"upgrades,omitempty"`
	// Contents are those of public files that differ from the design, by key. They are
	// for people who look at the difference now, and so in no record and no status.
	Contents map[string]item.Content `json:"-"`
	// System is the installed system that a facet inside it was seen in; nil for
	// other facets.
	System *Platform `json:"system,omitempty"`
}

// FacetState.Waits of what takes effect at the next boot: WaitsReboot where nothing else would
// bring it about, and WaitsLibraries where programs run by libraries that were replaced, until they
// or the machine are started anew.
const (
	WaitsReboot    = "reboot"
	WaitsLibraries = "libraries"
)

// Platform is what an installed system is, as far as its items depend on it.
type Platform struct {
	// Family is "debian", "rhel", or what os-release(5) says; ID and Release are
	// its ID and VERSION_ID.
	Family  string `json:"family,omitempty"`
	ID      string `json:"id,omitempty"`
	Release string `json:"release,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	// Network is what manages the network.
	Network string `json:"network,omitempty"`
	// Model is that of the machine as its firmware tells the system, and PCI its PCI
	// devices. Both are read where drivers of the design may be for the machine; PCI is
	// nil where they were not.
	Model string    `json:"model,omitempty"`
	PCI   *item.PCI `json:"pci,omitempty"`
}

// Observed is what drivers saw of one machine.
type Observed struct {
	Identity Identity             `json:"identity,omitzero"`
	Facets   map[Facet]FacetState `json:"facets,omitempty"`
	Marker   *Marker              `json:"marker,omitempty"`
	// MarkerUnread says why the marker of the system was not read, where there is
	// one.
	MarkerUnread string `json:"markerUnread,omitempty"`
	// Inventory is what the machine is made of, in brief.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Disks are the machine's disks as its BMC last told; nil before it was asked.
	Disks *Disks `json:"disks,omitempty"`
	// Lacks is what cannot be done to the machine; nil before somebody looked.
	Lacks *Lacks `json:"lacks,omitempty"`
	// Login is how Slipway logged in to the installed system; nil where it did not.
	Login *Login `json:"login,omitempty"`
	// Inside is what the installed system tells of itself.
	Inside *Inside `json:"inside,omitempty"`
	// Links are what the installed system sees of its network links, of which the state of
	// FacetLinks says when; nil before it was asked.
	Links *item.LinksSeen `json:"links,omitempty"`
	// Agent is what was seen of Slipway's agent in the machine's memory; nil where nobody
	// looked for one.
	Agent *AgentSeen `json:"agent,omitempty"`
	// Entries are the newest of the machine's own log, oldest first. They are
	// told once and not kept.
	Entries []Entry `json:"-"`
}

// AgentSeen is what was seen of an agent in a machine's memory.
type AgentSeen struct {
	// Connected says that it is there now.
	Connected bool `json:"connected,omitempty"`
	// Generation is that of the installation it was started for.
	Generation int `json:"generation,omitempty"`
	// Disks are those of the machine as it last told them, at Seen; zero before it did.
	Disks []item.Disk `json:"disks,omitempty"`
	Seen  time.Time   `json:"seen,omitzero"`
	// Inventory is what the machine is made of, as the agent told it then.
	Inventory *Inventory `json:"inventory,omitempty"`
}

// IsConnected says whether an agent is there. It is false for nil.
func (a *AgentSeen) IsConnected() bool { return a != nil && a.Connected }

// Entry is one of a machine's own log.
type Entry struct {
	// ID tells entries apart: it is as long as the log the same, and no other
	// entry's.
	ID   string
	When time.Time // zero when the BMC does not say
	// Severity is "OK", "Warning" or "Critical", empty when the BMC does not
	// say.
	Severity string
	Text     string
}

// Closeup is all that is known of one node.
type Closeup struct {
	Memory
	// Inventory is the whole of it, nil before the first inspection.
	Inventory *Inventory `json:"inventory,omitempty"`
}

// Seen is when anything of the machine was last seen; zero means never.
func (o Observed) Seen() time.Time {
	var last time.Time
	for _, f := range o.Facets {
		if f.Seen.After(last) {
			last = f.Seen
		}
	}
	return last
}

// OwnedDigest is the list of what Slipway made inside the system, as it was seen;
// false where nothing inside was.
func (o Observed) OwnedDigest() (digest string, seen bool) {
	for _, f := range InsideFacets {
		if state := o.Facets[f]; !state.Seen.IsZero() {
			return state.OwnedDigest, true
		}
	}
	return "", false
}

// Merge returns o with everything that a newer observation saw put over it.
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

// sameWords are newer values, each in its earlier words where they differ in numbers
// alone, and behind the first colon, where what a program printed begins: that has times
// and counts in it, and the status tells what is new.
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

// Disks tell the disks of a machine apart from others.
type Disks struct {
	// Serials are their serial numbers in order; a disk without one is named by
	// its place and size. It is empty for a machine whose BMC tells of none.
	Serials []string `json:"serials,omitempty"`
	// Partly says that there may be more of them, which could not be read.
	Partly bool `json:"partly,omitempty"`
}
