package site

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"
)

// Facet is one side of a machine that can be designed and observed by itself.
type Facet string

// The facets. The table Serves says which endpoint each is read from.
const (
	FacetPower     Facet = "power"
	FacetBoot      Facet = "boot"
	FacetImage     Facet = "image"
	FacetHealth    Facet = "health"
	FacetInventory Facet = "inventory"
	FacetSensors   Facet = "sensors"
	FacetLog       Facet = "log"
	FacetOS        Facet = "os"
	FacetFirmware  Facet = "firmware"
	FacetBIOS      Facet = "bios"
	FacetBase      Facet = "base"
	FacetNetwork   Facet = "network"
	FacetPackages  Facet = "packages"
	FacetConfig    Facet = "config"
	// These are of virtual machines alone.
	FacetDefinition Facet = "definition"
	FacetDisks      Facet = "disks"
	FacetSeed       Facet = "seed"
)

// Serves is the fixed table of which kind of endpoint serves a facet. The
// image facet is served by the BMC, which installs; that it was installed is
// proven by the marker that the os endpoint reads.
var Serves = map[Facet]EndpointKind{
	FacetPower:     BMC,
	FacetBoot:      BMC,
	FacetImage:     BMC,
	FacetHealth:    BMC,
	FacetInventory: BMC,
	FacetSensors:   BMC,
	FacetLog:       BMC,
	FacetFirmware:  BMC,
	FacetBIOS:      BMC,
	FacetOS:        OS,
	FacetBase:      OS,
	FacetNetwork:   OS,
	FacetPackages:  OS,
	FacetConfig:    OS,

	FacetDefinition: BMC,
	FacetDisks:      BMC,
	FacetSeed:       BMC,
}

// Phase is the fixed table of the phases that facets belong to. A facet that
// is not in it, such as the power or the image, and one whose phase a node's
// role does not have, belong to the first phase of the role.
var Phase = map[Facet]string{
	FacetBase:     "base",
	FacetNetwork:  "network",
	FacetPackages: "install",
	FacetConfig:   "configure",
}

// Values are a facet's fields in canonical form, by field name.
type Values map[string]string

// FacetState is one facet of one machine as a driver saw it.
type FacetState struct {
	// Have is what is, Want what the design asks for in the same canonical
	// terms, Pending what was accepted and waits for a reboot.
	Have    Values `json:"have,omitempty"`
	Want    Values `json:"want,omitempty"`
	Pending Values `json:"pending,omitempty"`
	// Asked is what the design asked for, in its own terms, when Want was
	// resolved: Want says nothing about a design that asks for something else.
	Asked Values `json:"asked,omitempty"`
	// From is the design's name of a wanted field that has another one there:
	// the intent "smt" for the attribute "LogicalProc".
	From Values `json:"from,omitempty"`
	// Unresolved says of fields of the design, by their names there, why they
	// mean nothing on this machine. Nothing of the facet is written then.
	Unresolved Values `json:"unresolved,omitempty"`
	// Offers are what each intent would come to on this machine, by the intent
	// and its value ("smt=false"), so that another design can be planned for it.
	Offers map[string]Values `json:"offers,omitempty"`
	// Busy says what is under way with the facet on the machine by itself;
	// nothing is written meanwhile.
	Busy string `json:"busy,omitempty"`
	// Seen is when, Driver by which driver's scheme.
	Seen   time.Time `json:"seen,omitzero"`
	Driver string    `json:"driver,omitempty"`
}

// Observed is what drivers saw of one machine.
type Observed struct {
	Identity Identity             `json:"identity,omitzero"`
	Facets   map[Facet]FacetState `json:"facets,omitempty"`
	Marker   *Marker              `json:"marker,omitempty"`
	// Inventory is what the machine is made of, in brief.
	Inventory *Inventory `json:"inventory,omitempty"`
	// Inside is what the installed system tells of itself.
	Inside *Inside `json:"inside,omitempty"`
	// Entries are the newest of the machine's own log, oldest first. They are
	// told once and not kept.
	Entries []Entry `json:"-"`
}

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

// For returns o, which was seen for a node, with what its design asked for.
func (o Observed) For(n *Node) Observed {
	o.Facets = maps.Clone(o.Facets)
	for f, state := range o.Facets {
		state.Asked = n.Want(f)
		o.Facets[f] = state
	}
	return o
}

// Merge returns o with everything that a newer observation saw put over it.
func (o Observed) Merge(newer Observed) Observed {
	merged := o
	merged.Facets = maps.Clone(o.Facets)
	if merged.Facets == nil {
		merged.Facets = map[Facet]FacetState{}
	}
	maps.Copy(merged.Facets, newer.Facets)
	if newer.Identity.Known() {
		merged.Identity = newer.Identity
	}
	if newer.Marker != nil {
		merged.Marker = newer.Marker
	}
	if newer.Inventory != nil {
		merged.Inventory = newer.Inventory
	}
	if newer.Inside != nil {
		merged.Inside = newer.Inside
	}
	return merged
}

// Marker is the note that an installed system carries about its own
// installation, read from inside the machine as the JSON file
// /etc/slipway/marker.json. It wins over a lost record.
type Marker struct {
	Node       string `json:"node"`
	Generation int    `json:"generation"`
	// Image is the sha256 of the image that was installed.
	Image string `json:"image"`
	// Token is what proves that the marker is of the very installation that it
	// tells of, where one was given to it.
	Token string `json:"token,omitempty"`
}

// Recorded is what was done to a node's machine and cannot be seen from
// outside.
type Recorded struct {
	// Adopted is the machine that the node was bound to at first contact.
	Adopted *Adoption `json:"adopted,omitempty"`
	// Installing is the installation whose medium was booted and that has not
	// been finished yet.
	Installing *Installation `json:"installing,omitempty"`
	// Installed is the last installation that was finished, or that a marker
	// told of.
	Installed *Installation `json:"installed,omitempty"`
	// InFlight is the step whose first request may have been sent and whose
	// end is not recorded.
	InFlight *InFlight `json:"inFlight,omitempty"`
	// NoEffect is a step that succeeded and was planned again right after.
	NoEffect *NoEffect `json:"noEffect,omitempty"`
	Paused   *Hold     `json:"paused,omitempty"`
	// Certificate is what the BMC showed at the first use of its endpoint,
	// where the design trusts that.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Departed is set when a revision dropped the node from the design and
	// the removal is held.
	Departed *Departure `json:"departed,omitempty"`
	// Decommissioned is when the design first asked to decommission the node.
	Decommissioned time.Time `json:"decommissioned,omitzero"`
	// Quarantined is set while a person has the machine kept off.
	Quarantined *Hold `json:"quarantined,omitempty"`
	// Begun is set when a step was begun in a rollout.
	Begun *Begun `json:"begun,omitempty"`
	// Disrupted is when a step of ours took the machine out of service; zero
	// once it was seen in service again.
	Disrupted time.Time `json:"disrupted,omitzero"`
	// Reached is what each facet was last seen to be as designed, as the
	// digest of what was asked: a difference from it is drift.
	Reached map[Facet]string `json:"reached,omitempty"`
	// Boots is how often the machine was booted for what was staged, since it
	// was last as designed.
	Boots *Boots `json:"boots,omitempty"`
	// Last is the state last shown to people, so that a restart does not
	// begin every wait anew.
	Last Shown `json:"last,omitzero"`
}

// Certificate is a certificate that is trusted because it was the first.
type Certificate struct {
	// Endpoint is the URL at which it was shown, Fingerprint is "sha256:" and
	// the digest of its DER form.
	Endpoint    string    `json:"endpoint"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
}

// Boots counts the restarts for what a design asks to be staged.
type Boots struct {
	// Asked is the digest of what is asked.
	Asked string `json:"asked"`
	Count int    `json:"count"`
}

// Begun says in which rollout, by its beginning, a node was begun, when, and
// how long it may be worked on before it counts as failed.
type Begun struct {
	Rollout  time.Time `json:"rollout"`
	Since    time.Time `json:"since"`
	Patience Duration  `json:"patience"`
}

// Shown is a state as people were told of it.
type Shown struct {
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// HostKeys are those that were made for the system on the machine, or for the one
// that is being installed on it.
func (r Recorded) HostKeys() []string {
	switch {
	case r.InFlight != nil && len(r.InFlight.FirstBoot.HostKeys) > 0:
		return r.InFlight.FirstBoot.HostKeys
	case r.Installing != nil:
		return r.Installing.FirstBoot.HostKeys
	case r.Installed != nil:
		return r.Installed.FirstBoot.HostKeys
	}
	return nil
}

// Generation is the generation recorded as installed, 0 for none.
func (r Recorded) Generation() int {
	if r.Installed == nil {
		return 0
	}
	return r.Installed.Generation
}

// Adoption binds a node to the machine first seen under its name.
type Adoption struct {
	Machine Identity  `json:"machine"`
	When    time.Time `json:"when"`
	// BMC is the URL of the endpoint through which it was last seen.
	BMC string `json:"bmc,omitempty"`
	// Settled is when the node was first in-sync, or when a person approved
	// the first disruption; zero while first contact lasts.
	Settled time.Time `json:"settled,omitzero"`
}

// Installation is one installation of an image.
type Installation struct {
	Generation int       `json:"generation"`
	Image      string    `json:"image"` // sha256
	Since      time.Time `json:"since"`
	// Proven is set once the machine itself reported the installation, or
	// when it has no os endpoint to report through.
	Proven bool `json:"proven,omitempty"`
	// Ended is when the installer was found to have powered the machine off,
	// which is how it says that it is done; zero until then.
	Ended time.Time `json:"ended,omitzero"`
	// CutOff says what ended the installer before it was done.
	CutOff string `json:"cutOff,omitempty"`
	// FirstBoot is what its system was given; zero for one that was installed
	// from a medium.
	FirstBoot FirstBoot `json:"firstBoot,omitzero"`
}

// FirstBoot is what was given to a system for its first boot: one host key and
// one token for each try of its installation, of which the machine may have
// taken any.
type FirstBoot struct {
	// HostKeys are the public SSH host keys in authorized_keys form.
	HostKeys []string `json:"hostKeys,omitempty"`
	// Tokens are the SHA-256 digests of the tokens of its marker. They are
	// dropped when it has proven itself.
	Tokens []string `json:"tokens,omitempty"`
}

// mostTries is of how many tries of an installation is kept what they gave.
const mostTries = 8

// With is what was given with one try more.
func (f FirstBoot) With(hostKey, token string) FirstBoot {
	return FirstBoot{
		HostKeys: lastOf(append(slices.Clone(f.HostKeys), hostKey)),
		Tokens:   lastOf(append(slices.Clone(f.Tokens), token)),
	}
}

func lastOf(all []string) []string { return all[max(0, len(all)-mostTries):] }

// Gave says whether a marker's token is one that was given, as it is where none
// was.
func (f FirstBoot) Gave(token string) bool {
	return len(f.Tokens) == 0 || slices.Contains(f.Tokens, TokenDigest(token))
}

// TokenDigest is what is recorded of a token.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// InFlight is a step that was begun.
type InFlight struct {
	Step     Step      `json:"step"`
	Since    time.Time `json:"since"`
	Revision string    `json:"revision"`
	// Term is the term of the controller that began it.
	Term uint64 `json:"term,omitempty"`
	// FirstBoot is what an installation under way gave to the system.
	FirstBoot FirstBoot `json:"firstBoot,omitzero"`
}

// NoEffect is a step that claimed success and changed nothing, or that was
// refused: it is not taken again by itself.
type NoEffect struct {
	// Step is the digest of the step's facet, action and changes.
	Step string    `json:"step"`
	When time.Time `json:"when"`
	// Why is what the driver said when it refused the step; empty for a step
	// that claimed success.
	Why string `json:"why,omitempty"`
}

// Departure is a node's removal from the design that was not carried out.
type Departure struct {
	Revision string    `json:"revision"`
	When     time.Time `json:"when"`
	// Node is the node as it was last designed.
	Node *Node `json:"node"`
}
