package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Marker is the note that an installed system carries about its own
// installation, read from inside the machine as the JSON file
// /etc/slipway/marker.json. Whoever is root there can write it, so it proves
// nothing but by its token.
type Marker struct {
	// Site and Machine are empty in a marker that an installer of its own made.
	Site       string   `json:"site,omitempty"`
	Node       string   `json:"node"`
	Machine    Identity `json:"machine,omitzero"`
	Generation int      `json:"generation"`
	// Image is the sha256 of the image that was installed.
	Image string `json:"image"`
	// Attempt is that of the approval that the installation used, 0 for one that
	// destroyed nothing; Term that of the controller that installed.
	Attempt int    `json:"attempt,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	// Token is the site key's signature of all the other fields, see package
	// sitekey. An installer that cannot know it leaves it out.
	Token string `json:"token,omitempty"`
}

// Digest names a marker by all that it says; that of no marker is "none".
func (m *Marker) Digest() string {
	if m == nil {
		return "none"
	}
	text, _ := json.Marshal(m)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// MaxGeneration is the highest generation that a design or a marker may name.
const MaxGeneration = 1_000_000

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
	// Agent is the last start of Slipway's agent on the machine, until it has booted from its
	// disk since.
	Agent *AgentBoot `json:"agent,omitempty"`
	// Ports are those that were prepared for a start over the network, until they are proven to be
	// back.
	Ports *PreparedPorts `json:"ports,omitempty"`
	// Erased are the last reports of what came of erasing disks, the newest last.
	Erased []EraseReport `json:"erased,omitempty"`
	// NoEffect is a step that succeeded and was planned again right after.
	NoEffect *NoEffect `json:"noEffect,omitempty"`
	Paused   *Hold     `json:"paused,omitempty"`
	// Certificate is what the BMC showed at the first use of its endpoint,
	// where the design trusts that.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Departed is set when a revision dropped the node from the design and
	// the removal is held.
	Departed *Departure `json:"departed,omitempty"`
	// Had is what its machine has of an earlier design: the node was held when its
	// design changed. Nil once Slipway acts on it again.
	Had *Reach `json:"had,omitempty"`
	// Decommissioned is when the design first asked to decommission the node. Retires says that it
	// asks for the disks to be erased too, and Retired is when they were.
	Decommissioned time.Time `json:"decommissioned,omitzero"`
	Retires        bool      `json:"retires,omitempty"`
	Retired        time.Time `json:"retired,omitzero"`
	// RetiredLayout is the digest of the disks that were erased then.
	RetiredLayout string `json:"retiredLayout,omitempty"`
	// Quarantined is set while a person has the machine kept off.
	Quarantined *Hold `json:"quarantined,omitempty"`
	// Begun is set when a step was begun in a rollout.
	Begun *Begun `json:"begun,omitempty"`
	// Disrupted is when a step of ours took the machine out of service; zero
	// once it was seen in service again.
	Disrupted time.Time `json:"disrupted,omitzero"`
	// Healthy is when the system was first seen healthy since it was installed, zero
	// before; Unhealthy since when all else is as designed and it is not.
	Healthy   time.Time `json:"healthy,omitzero"`
	Unhealthy time.Time `json:"unhealthy,omitzero"`
	// EverHealthy is when any system of this machine was first seen healthy, zero before:
	// others may rely on it since.
	EverHealthy time.Time `json:"everHealthy,omitzero"`
	// Reached is what each facet was last seen to be as designed, as the
	// digest of what was asked: a difference from it is drift.
	Reached map[Facet]string `json:"reached,omitempty"`
	// Attempts are the times that the machine was interrupted, by the facet that
	// was not as designed.
	Attempts map[Facet]Attempts `json:"attempts,omitempty"`
	// Credentials is what became of the passwords that were sent, by endpoint.
	Credentials map[EndpointKind]CredentialUse `json:"credentials,omitempty"`
	// Accounts is what is known of the passwords of accounts of the BMC, by user name.
	Accounts map[string]AccountUse `json:"accounts,omitempty"`
	// Actions is what the machine told of the boot actions of this installation, by name.
	Actions map[string]ActionRecord `json:"actions,omitempty"`
	// Owned is the list of what Slipway made inside the system, after our last run.
	Owned Owned `json:"owned,omitzero"`
	// Last is the state last shown to people, so that a restart does not
	// begin every wait anew.
	Last Shown `json:"last,omitzero"`
}

// AgentBoot is one start of Slipway's agent in the memory of a machine.
type AgentBoot struct {
	// Generation is that of the installation it is for, and Tries counts the starts for it in a
	// row, this one among them.
	Generation int `json:"generation,omitempty"`
	Tries      int `json:"tries"`
	// Token is the SHA-256 of the token that the agent has to show, in hex. Key is that of
	// the key that the agent has used it with; empty before it has called.
	Token string `json:"token"`
	Key   string `json:"key,omitempty"`
	// Served is the URL of the medium, which has a token of its own, and is in no status and
	// no log. Medium is its SHA-256.
	Served string `json:"served,omitempty"`
	Medium string `json:"medium,omitempty"`
	// Daemon is the address of the daemon's host towards the machine.
	Daemon string `json:"daemon,omitempty"`
	// Network says that the machine starts over the network: nothing is served at a URL, and
	// the key of the agent is in the place of the token.
	Network bool `json:"network,omitempty"`
	// Since is when the start began, Until until when the token can be used first, and
	// Started when the machine was seen to run from the medium; zero before.
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"`
	Started time.Time `json:"started,omitzero"`
	// Lost is since when no agent is connected, after one was; zero while one is.
	Lost time.Time `json:"lost,omitzero"`
	// Over is when nobody waited for the agent any more: the next start has another token.
	Over time.Time `json:"over,omitzero"`
	// Failed is how often the agent has tried to install and failed, and Why the last reason.
	Failed int    `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
	// Refused is why the last agent was refused that called for this start, or for the one
	// before; empty once one was accepted.
	Refused string `json:"refused,omitempty"`
	// Idle is set once the agent has waited so long for an installation that the machine is
	// booted from its disk again.
	Idle bool `json:"idle,omitempty"`
}

// IsOn says whether the agent of the start may call, or is connected. It is false for nil.
func (b *AgentBoot) IsOn() bool { return b != nil && b.Over.IsZero() }

// Ramdisk is the SHA-256 of the medium that the agent belongs to; empty for nil.
func (b *AgentBoot) Ramdisk() string {
	if b == nil {
		return ""
	}
	return b.Medium
}

// IsStarted says the same once the machine has run from the medium.
func (b *AgentBoot) IsStarted() bool { return b.IsOn() && !b.Started.IsZero() }

// Owned is the list of what Slipway made inside a system as the records have it.
// Nothing is removed from a machine that shows another list.
type Owned struct {
	Digest string `json:"digest,omitempty"`
	// Changing is set while a run of ours may be changing the list: what is seen of
	// it next is ours, as far as it says no more than it did or such a run was asked for.
	Changing bool `json:"changing,omitempty"`
	// Asked are the names of the items and fields that the list had before those runs or
	// that they were asked for, in order; none after an installation, whose list is new.
	Asked []string `json:"asked,omitempty"`
}

// Agrees says whether a machine shows the list that is recorded.
func (o Owned) Agrees(seen FacetState) bool { return o.Digest == seen.OwnedDigest }

// Certificate is a certificate that is trusted because it was the first.
type Certificate struct {
	// Endpoint is the URL at which it was shown, Fingerprint is "sha256:" and
	// the digest of its DER form.
	Endpoint    string    `json:"endpoint"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
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
	case r.InFlight != nil && len(r.InFlight.FirstBoot.HostKeys) > 0 && r.InFlight.Step.ByAgent() && r.Installed != nil:
		// The system before may answer as well: the new one may not have come to its end.
		return slices.Concat(r.InFlight.FirstBoot.HostKeys, r.Installed.FirstBoot.HostKeys)
	case r.InFlight != nil && len(r.InFlight.FirstBoot.HostKeys) > 0:
		return r.InFlight.FirstBoot.HostKeys
	case r.Installing != nil:
		return r.Installing.FirstBoot.HostKeys
	case r.Installed != nil:
		return r.Installed.FirstBoot.HostKeys
	}
	return nil
}

// InstallBegun says whether the step in flight is an installation from which
// there is no way back.
func (r Recorded) InstallBegun() bool {
	return r.InFlight != nil && r.InFlight.Step.Action == ActionInstall && r.InFlight.Committed()
}

// EraseBegun says whether the step in flight is the erase of a machine that leaves the design, from
// which there is no way back.
func (r Recorded) EraseBegun() bool {
	return r.InFlight != nil && r.InFlight.Step.Retires() && r.InFlight.Committed()
}

// AgentWorks says whether the step in flight is one of the agent's from which there is no way back.
func (r Recorded) AgentWorks() bool { return r.InstallBegun() || r.EraseBegun() }

// MayRunAlone says whether an agent that is not connected may have ended its work by itself and
// booted the machine from its disk: it was asked to install, or has called.
func (r Recorded) MayRunAlone() bool { return r.InstallBegun() || r.Agent != nil && r.Agent.Key != "" }

// UnderWay is the generation whose installation was begun and is not known to
// have ended, 0 for none.
func (r Recorded) UnderWay() int {
	switch {
	case r.InstallBegun():
		return r.InFlight.Step.Generation
	case r.Installing != nil:
		return r.Installing.Generation
	}
	return 0
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
	// Manager is the URL of the endpoint through which it was last seen.
	Manager string `json:"manager,omitempty"`
	// Settled is when the node was first in-sync, or when a person approved
	// the first disruption; zero while first contact lasts.
	Settled time.Time `json:"settled,omitzero"`
	// Inside is the same for what is inside a system that Slipway met: when the node was
	// first in-sync with helpers that see it, or its changes were approved.
	Inside time.Time `json:"inside,omitzero"`
}

// Installation is one installation of an image.
type Installation struct {
	Generation int       `json:"generation"`
	Image      string    `json:"image"` // sha256
	Since      time.Time `json:"since"`
	// Proven is set once the machine itself reported the installation, or
	// when it has no os endpoint to report through.
	Proven bool `json:"proven,omitempty"`
	// Reported is set once its marker was seen to be as it has to be, or a person
	// has accepted the marker that is there; Signed when that had a valid token.
	// Without one nobody can tell from the machine alone that it was installed by
	// us.
	Reported bool `json:"reported,omitempty"`
	Signed   bool `json:"signed,omitempty"`
	// Accepted is the digest of another marker, or of none, that a person has
	// accepted in the place of the right one; see Marker.Digest.
	Accepted string `json:"accepted,omitempty"`
	// Attempt is that of the approval that it used, 0 for none.
	Attempt int `json:"attempt,omitempty"`
	// Actions is set where boot actions are part of it: not of an installation that is
	// older than they are, and whose system may be in service for long.
	Actions bool `json:"actions,omitempty"`
	// ByAgent says that Slipway's agent has put it there.
	ByAgent bool `json:"byAgent,omitempty"`
	// BootUnknown says why nobody knows which entries of the firmware's boot manager start it.
	BootUnknown string `json:"bootUnknown,omitempty"`
	// Ended is when the installer was found to have powered the machine off,
	// which is how it says that it is done; zero until then. The agent says so itself.
	Ended time.Time `json:"ended,omitzero"`
	// CutOff says what ended the installer before it was done.
	CutOff string `json:"cutOff,omitempty"`
	// Served is the URL at which the daemon serves the image to the machine while
	// the installer runs; empty where it had the design's.
	Served string `json:"served,omitempty"`
	// FirstBoot is what its system was given; zero for one that was installed
	// from a medium.
	FirstBoot FirstBoot `json:"firstBoot,omitzero"`
}

// ByUs says whether Slipway installed the system: a person has not accepted another one
// in its place.
func (i *Installation) ByUs() bool { return i != nil && i.Accepted == "" }

// ActionRecord is what is recorded of a boot action in an installation. The machine's own
// journal says more; where that was lost, this keeps the action from being done again.
type ActionRecord struct {
	// Attempts is how many times its command was begun.
	Attempts int `json:"attempts,omitempty"`
	// Done is when it was first seen to be done.
	Done time.Time `json:"done,omitzero"`
	// Again is the attempt that a person has asked for; 0 for none.
	Again int `json:"again,omitempty"`
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
	// Design has digests of what the design gave, by its path in the node, as
	// package firstboot makes them. What two tries were given differently is left
	// out: nobody knows which of them the machine has booted with.
	Design map[string]string `json:"design,omitempty"`
}

// mostTries is of how many tries of an installation is kept what they gave.
const mostTries = 8

// With is what was given with one try more.
func (f FirstBoot) With(hostKey, token string, design map[string]string) FirstBoot {
	if len(f.HostKeys) > 0 {
		design = maps.Clone(design)
		maps.DeleteFunc(design, func(path, digest string) bool { return f.Design[path] != digest })
	}
	return FirstBoot{
		HostKeys: lastOf(append(slices.Clone(f.HostKeys), hostKey)),
		Tokens:   lastOf(append(slices.Clone(f.Tokens), token)),
		Design:   design,
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
	// Marker is what an installation by the agent has the system prove itself by: each try
	// has the same one, by which the agent knows what an earlier try has finished.
	Marker string `json:"marker,omitempty"`
	// Consumed is set when a destructive step has used its approval. It can
	// still be left.
	Consumed bool `json:"consumed,omitempty"`
	// Sent is set right before the first request of a destructive step after
	// which data may be lost: from then on there is no way back.
	Sent bool `json:"sent,omitempty"`
	// Served is the URL at which the daemon serves the image of an installation.
	// The machine gets it in the place of the step's, and the driver knows its
	// medium by it after a restart. It has a token, and is in no status and no log.
	Served string `json:"served,omitempty"`
}

// Is reports whether a step is the one in flight: the same change of the same
// machine on the same hypervisor, with the same image. It is false for a nil InFlight.
func (f *InFlight) Is(s Step) bool {
	return f != nil && f.Step.Digest() == s.Digest() && f.Step.Machine == s.Machine && f.Step.Hypervisor == s.Hypervisor &&
		f.Step.imageDigest() == s.imageDigest()
}

// Committed says whether the step may have changed what it is about to change
// for good: it destroys nothing, or may have sent what does.
func (f *InFlight) Committed() bool { return f.Step.Impact < ImpactDestructive || f.Sent }

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
