package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Marker is the note that an installed system carries about its own installation: the JSON file
// /etc/slipway/marker.json. Root on the machine can write it, so only its token proves anything.
type Marker struct {
	// Site and Machine are empty in a marker that an installer image made.
	Site       string   `json:"site,omitempty"`
	Node       string   `json:"node"`
	Machine    Identity `json:"machine,omitzero"`
	Generation int      `json:"generation"`
	// Image is the SHA-256 digest of the installed image.
	Image string `json:"image"`
	// Attempt is that of the approval that the installation used, 0 if it destroyed nothing. Term
	// is that of the controller that installed.
	Attempt int    `json:"attempt,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	// Token is the site key's signature over all other fields, see package sitekey. An installer
	// that cannot know the token leaves it out.
	Token string `json:"token,omitempty"`
}

// Digest identifies a marker by all its fields; it is "none" for nil.
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

// Recorded is what was done to a node's machine and cannot be seen from outside.
type Recorded struct {
	// Adopted is the machine that the node was bound to at first contact.
	Adopted *Adoption `json:"adopted,omitempty"`
	// Installing is the installation whose medium was booted and that is not finished.
	Installing *Installation `json:"installing,omitempty"`
	// Installed is the last installation that was finished, or that a marker reported.
	Installed *Installation `json:"installed,omitempty"`
	// InFlight is the step whose first request may have been sent and whose end is not recorded.
	InFlight *InFlight `json:"inFlight,omitempty"`
	// HostCertificates are those that were signed for host keys of the system and count, newest last.
	HostCertificates []HostCertificate `json:"hostCertificates,omitempty"`
	// TLS are the certificates that were signed for the system, newest last, until each is over.
	TLS []TLSCertificate `json:"tls,omitempty"`
	// Agent is the last start of Slipway's agent on the machine, until the machine has booted from
	// its disk.
	Agent *AgentBoot `json:"agent,omitempty"`
	// Ports are the ports that were prepared for a network boot and are not yet proven to be back.
	Ports *PreparedPorts `json:"ports,omitempty"`
	// Erased are the last reports on erasing disks, newest last.
	Erased []EraseReport `json:"erased,omitempty"`
	// NoEffect is a step that succeeded and was planned again right after.
	NoEffect *NoEffect `json:"noEffect,omitempty"`
	Paused   *Hold     `json:"paused,omitempty"`
	// Certificate is what the BMC presented at the first use of its endpoint, if the design trusts
	// that.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Departed is set if a revision dropped the node from the design and the removal is held.
	Departed *Departure `json:"departed,omitempty"`
	// Had is what the machine still has from an earlier design, because the node was held when its
	// design changed. It is nil once Slipway acts on the node again.
	Had *Reach `json:"had,omitempty"`
	// Decommissioned is when the design first asked to decommission the node. Retires means that it
	// also asks to erase the disks. Retired is when they were erased.
	Decommissioned time.Time `json:"decommissioned,omitzero"`
	Retires        bool      `json:"retires,omitempty"`
	Retired        time.Time `json:"retired,omitzero"`
	// RetiredLayout is the layout digest of the disks erased then.
	RetiredLayout string `json:"retiredLayout,omitempty"`
	// Quarantined is set while a person has the machine kept off.
	Quarantined *Hold `json:"quarantined,omitempty"`
	// Begun is set if a step was begun in a rollout.
	Begun *Begun `json:"begun,omitempty"`
	// Disrupted is when one of our steps took the machine out of service. It is zero once the
	// machine was seen in service again.
	Disrupted time.Time `json:"disrupted,omitzero"`
	// Healthy is when the system was first seen healthy after its installation, zero before.
	// Unhealthy is since when only its health is not as designed.
	Healthy   time.Time `json:"healthy,omitzero"`
	Unhealthy time.Time `json:"unhealthy,omitzero"`
	// EverHealthy is when any system of this machine was first seen healthy, zero before. Others
	// may rely on the machine since then.
	EverHealthy time.Time `json:"everHealthy,omitzero"`
	// Reached is the last design that each facet was seen to match, as the digest of what was
	// asked. A difference from it is drift.
	Reached map[Facet]string `json:"reached,omitempty"`
	// Attempts are the interruptions of the machine, by the facet that was not as designed.
	Attempts map[Facet]Attempts `json:"attempts,omitempty"`
	// Credentials is the outcome of the passwords that were sent, by endpoint.
	Credentials map[EndpointKind]CredentialUse `json:"credentials,omitempty"`
	// Accounts is what is known of the passwords of accounts of the BMC, by user name.
	Accounts map[string]AccountUse `json:"accounts,omitempty"`
	// BMC is what proves the BMC to which derived passwords may go; nil before it was seen.
	BMC *ProvenBMC `json:"bmc,omitempty"`
	// Actions is what the machine told of the boot actions of this installation, by name.
	Actions map[string]ActionRecord `json:"actions,omitempty"`
	// Owned is the list of what Slipway made inside the system, after its last run.
	Owned Owned `json:"owned,omitzero"`
	// Last is the state last shown to people, so that a restart does not reset every wait.
	Last Shown `json:"last,omitzero"`
}

// AgentBoot is one start of Slipway's agent in the memory of a machine.
type AgentBoot struct {
	// Generation is that of the installation that the agent is for. Tries counts the consecutive
	// starts for it, including this one.
	Generation int `json:"generation,omitempty"`
	Tries      int `json:"tries"`
	// Token is the SHA-256 of the token that the agent has to present, in hex. Key is the SHA-256
	// of the key that the agent presented it with; empty before the agent has called.
	Token string `json:"token"`
	Key   string `json:"key,omitempty"`
	// Served is the URL of the medium. It contains a token of its own, so no status and no log has
	// it. Medium is the medium's SHA-256.
	Served string `json:"served,omitempty"`
	Medium string `json:"medium,omitempty"`
	// Daemon is the address of the daemon's host as the machine reaches it.
	Daemon string `json:"daemon,omitempty"`
	// Network means that the machine boots over the network: no URL serves a medium, and the
	// agent's key replaces the token.
	Network bool `json:"network,omitempty"`
	// Since is when the start began. Until is the last time for a first use of the token. Started
	// is when the machine was seen to run from the medium; zero before.
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"`
	Started time.Time `json:"started,omitzero"`
	// Lost is since when no agent is connected, after one was; zero while one is.
	Lost time.Time `json:"lost,omitzero"`
	// Over is when Slipway stopped waiting for the agent. The next start has another token.
	Over time.Time `json:"over,omitzero"`
	// Failed is how often the agent has failed to install, and Why the last reason.
	Failed int    `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
	// Refused says why the last agent that called for this start, or for the previous one, was
	// refused; empty once one was accepted.
	Refused string `json:"refused,omitempty"`
	// Idle means that the agent waited so long for an installation that Slipway boots the machine
	// from its disk again.
	Idle bool `json:"idle,omitempty"`
}

// IsOn reports whether the start's agent may call, or is connected. It is false for nil.
func (b *AgentBoot) IsOn() bool { return b != nil && b.Over.IsZero() }

// Ramdisk returns the SHA-256 of the medium that the agent belongs to; empty for nil.
func (b *AgentBoot) Ramdisk() string {
	if b == nil {
		return ""
	}
	return b.Medium
}

// IsStarted reports whether IsOn holds and the machine has run from the medium.
func (b *AgentBoot) IsStarted() bool { return b.IsOn() && !b.Started.IsZero() }

// Owned is the recorded list of what Slipway made inside a system. Slipway removes nothing from a
// machine that shows another list.
type Owned struct {
	Digest string `json:"digest,omitempty"`
	// Changing is set while one of our runs may be changing the list. The list seen next is ours if
	// it has nothing beyond the earlier list and what such a run was asked for.
	Changing bool `json:"changing,omitempty"`
	// Asked are the items and fields that the list had before those runs, or that the runs were
	// asked for, sorted. It is empty after an installation, whose list is new.
	Asked []string `json:"asked,omitempty"`
}

// Agrees reports whether a machine shows the recorded list.
func (o Owned) Agrees(seen FacetState) bool { return o.Digest == seen.OwnedDigest }

// Certificate is a certificate that is trusted because it was seen first.
type Certificate struct {
	// Endpoint is the URL that presented the certificate. Fingerprint is "sha256:" and the digest
	// of its DER form.
	Endpoint    string    `json:"endpoint"`
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
}

// SentPassword reports whether a derived password may have been set on the BMC and is not proven: the machine keeps its
// place in a rollout, since nobody may be able to manage it.
func (r Recorded) SentPassword() bool {
	for _, use := range r.Accounts {
		if use.IsSent() {
			return true
		}
	}
	return false
}

// ProvenBMC is the certificate of the BMC of one machine. Derived passwords of this machine go to no BMC
// that shows another one.
type ProvenBMC struct {
	// From is the UUID that the passwords are derived from, Machine that of the machine.
	From    string `json:"from"`
	Machine string `json:"machine"`
	// Fingerprint is "sha256:" and the digest of the certificate's DER form.
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
	// By is who said so; empty for a login with another credential that the BMC accepted.
	By string `json:"by,omitempty"`
}

// MachineProof is what is known of the BMC of one machine whatever becomes of its node.
type MachineProof struct {
	ProvenBMC
	// Highest is the highest epoch that was ever offered to an account, by account.
	Highest map[string]int `json:"highest,omitempty"`
	// Proven is the derived password that a BMC accepted last as an account, by account.
	Proven map[string]Derived `json:"proven,omitempty"`
}

// Begun says when a node was begun, in which rollout (by its beginning), and how long it may take
// before it counts as failed.
type Begun struct {
	Rollout  time.Time `json:"rollout"`
	Since    time.Time `json:"since"`
	Patience Duration  `json:"patience"`
	// Ended is when the node was found in-sync in that rollout, or had failed; zero before, and while
	// it is worked on again.
	Ended time.Time `json:"ended,omitzero"`
}

// In reports whether the node was begun in a rollout. It is false for nil.
func (b *Begun) In(r *RolloutStatus) bool { return b != nil && b.Rollout.Equal(r.Since) }

// Shown is a state as people saw it.
type Shown struct {
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// HostKeys returns the SSH host keys of the system on the machine, or of the system that is being
// installed on it.
func (r Recorded) HostKeys() []string {
	switch {
	case r.InFlight != nil && len(r.InFlight.FirstBoot.HostKeys) > 0 && r.InFlight.Step.ByAgent() && r.Installed != nil:
		// The previous system may answer too: the new one may not be finished.
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

// WithIdentity returns r, which was before, without host certificates, and with its TLS certificates revoked, if the
// change ends the identity of the system: a quarantine, another machine, or the beginning of an installation or of an
// erasure. A host certificate that is not recorded does not count, so it is revoked when this is written.
func (r Recorded) WithIdentity(before Recorded) Recorded {
	isNewAgent := r.Agent != nil && (before.Agent == nil || r.Agent.Since != before.Agent.Since)
	isOther := before.Adopted != nil && (r.Adopted == nil || r.Adopted.Machine != before.Adopted.Machine && !r.Adopted.Machine.IsThatOf(before.Adopted.Machine))
	destroys := r.InFlight != nil && (r.InFlight.Step.Impact >= ImpactDestructive || r.InFlight.Step.Action == ActionInstall)
	if r.Quarantined != nil || isNewAgent || isOther || destroys || r.Installing != nil || r.Generation() != before.Generation() && before.Installed != nil {
		r.HostCertificates, r.TLS = nil, Revoked(r.TLS)
	}
	return r
}

// InstallBegun reports whether the step in flight is an installation that cannot be undone any
// more.
func (r Recorded) InstallBegun() bool {
	return r.InFlight != nil && r.InFlight.Step.Action == ActionInstall && r.InFlight.Committed()
}

// EraseBegun reports whether the step in flight is the erasure of a leaving machine that cannot be
// undone any more.
func (r Recorded) EraseBegun() bool {
	return r.InFlight != nil && r.InFlight.Step.Retires() && r.InFlight.Committed()
}

// AgentWorks reports whether the step in flight is one of the agent's that cannot be undone any more.
func (r Recorded) AgentWorks() bool { return r.InstallBegun() || r.EraseBegun() }

// MayRunAlone reports whether a disconnected agent may have finished by itself and booted the
// machine from its disk: it was asked to install, or has called.
func (r Recorded) MayRunAlone() bool { return r.InstallBegun() || r.Agent != nil && r.Agent.Key != "" }

// UnderWay returns the generation whose installation was begun and is not known to have ended, 0
// for none.
func (r Recorded) UnderWay() int {
	switch {
	case r.InstallBegun():
		return r.InFlight.Step.Generation
	case r.Installing != nil:
		return r.Installing.Generation
	}
	return 0
}

// Generation returns the generation recorded as installed, 0 for none.
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
	// Manager is the URL of the endpoint through which the machine was last seen.
	Manager string `json:"manager,omitempty"`
	// Moved says that the design has named another such URL since the machine was first seen: whether the same BMC answers
	// there is by its own word alone.
	Moved bool `json:"moved,omitempty"`
	// Settled is when the node was first in-sync, or when a person approved its first disruption.
	// It is zero during first contact.
	Settled time.Time `json:"settled,omitzero"`
	// Inside is the same for the inside of a system that Slipway did not install: when the node was
	// first in-sync with helpers that see inside, or when its changes were approved.
	Inside time.Time `json:"inside,omitzero"`
}

// Installation is one installation of an image.
type Installation struct {
	Generation int       `json:"generation"`
	Image      string    `json:"image"` // SHA-256
	Since      time.Time `json:"since"`
	// Proven is set once the machine itself reported the installation, or if it has no os endpoint
	// to report through.
	Proven bool `json:"proven,omitempty"`
	// Reported is set once the right marker was seen, or a person has accepted the present one.
	// Signed is set if that marker had a valid token. Without a token, the machine alone cannot
	// show that we installed it.
	Reported bool `json:"reported,omitempty"`
	Signed   bool `json:"signed,omitempty"`
	// Accepted is the digest of another marker, or of none, that a person has accepted instead of
	// the right one; see Marker.Digest.
	Accepted string `json:"accepted,omitempty"`
	// Attempt is that of the approval that the installation used, 0 for none.
	Attempt int `json:"attempt,omitempty"`
	// Actions is set if boot actions are part of the installation. Older installations have none,
	// and their systems may have been in service for long.
	Actions bool `json:"actions,omitempty"`
	// ByAgent means that Slipway's agent installed the image.
	ByAgent bool `json:"byAgent,omitempty"`
	// BootUnknown says why nobody knows which entries of the firmware's boot manager start the system.
	BootUnknown string `json:"bootUnknown,omitempty"`
	// Ended is when the installer was found to have powered the machine off, which signals that it
	// is done; zero until then. The agent reports it instead.
	Ended time.Time `json:"ended,omitzero"`
	// CutOff says what stopped the installer before it was done.
	CutOff string `json:"cutOff,omitempty"`
	// Served is the URL at which the daemon serves the image to the machine while the installer
	// runs. It is empty if the machine uses the design's URL.
	Served string `json:"served,omitempty"`
	// FirstBoot is what the system was given; zero for one that was installed from a medium.
	FirstBoot FirstBoot `json:"firstBoot,omitzero"`
}

// ByUs reports whether Slipway installed the system, and no person has accepted another one in its
// place.
func (i *Installation) ByUs() bool { return i != nil && i.Accepted == "" }

// ActionRecord is the record of a boot action in an installation. The machine's own journal says
// more. If that is lost, this record prevents a second run.
type ActionRecord struct {
	// Attempts is how often the command was begun.
	Attempts int `json:"attempts,omitempty"`
	// Done is when the action was first seen to be done.
	Done time.Time `json:"done,omitzero"`
	// Again is the attempt that a person has asked for; 0 for none.
	Again int `json:"again,omitempty"`
}

// FirstBoot is what a system was given for its first boot: one host key and one token for each try
// of its installation. The machine may have booted with any of them.
type FirstBoot struct {
	// HostKeys are the public SSH host keys in authorized_keys form.
	HostKeys []string `json:"hostKeys,omitempty"`
	// Tokens are the SHA-256 digests of the tokens of its marker. They are dropped once the system
	// has proven itself.
	Tokens []string `json:"tokens,omitempty"`
	// Design has the digests of what the design gave, by path in the node, as package firstboot
	// makes them. Values that differ between tries are left out: nobody knows with which the
	// machine has booted.
	Design map[string]string `json:"design,omitempty"`
}

// mostTries is how many tries of an installation are remembered.
const mostTries = 8

// With returns f with what one more try was given.
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

// Gave reports whether a marker's token is one that was given. It is true if none was given.
func (f FirstBoot) Gave(token string) bool {
	return len(f.Tokens) == 0 || slices.Contains(f.Tokens, TokenDigest(token))
}

// TokenDigest returns what is recorded of a token.
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
	// Marker is the marker by which a system installed by the agent proves itself. Each try has the
	// same one, so the agent recognizes what an earlier try has finished.
	Marker string `json:"marker,omitempty"`
	// Consumed is set once a destructive step has used its approval. The step can still be
	// abandoned.
	Consumed bool `json:"consumed,omitempty"`
	// Sent is set right before the first request of a destructive step that may lose data. From
	// then on there is no way back.
	Sent bool `json:"sent,omitempty"`
	// Served is the URL at which the daemon serves the image of an installation. The machine gets
	// it instead of the step's URL, and the driver recognizes its medium by it after a restart. It
	// contains a token, so no status and no log has it.
	Served string `json:"served,omitempty"`
}

// Is reports whether s is the step in flight: the same change of the same machine on the same
// hypervisor, with the same image. It is false for a nil InFlight.
func (f *InFlight) Is(s Step) bool {
	return f != nil && f.Step.Digest() == s.Digest() && f.Step.Machine == s.Machine && f.Step.Hypervisor == s.Hypervisor &&
		f.Step.imageDigest() == s.imageDigest()
}

// Committed reports whether the step may already have caused permanent changes: it destroys
// nothing, or may have sent the destructive request.
func (f *InFlight) Committed() bool { return f.Step.Impact < ImpactDestructive || f.Sent }

// NoEffect is a step that claimed success and changed nothing, or that was refused. Slipway does
// not repeat it by itself.
type NoEffect struct {
	// Step is the digest of the step's facet, action and changes.
	Step string    `json:"step"`
	When time.Time `json:"when"`
	// Why is the driver's reason for refusing the step; empty for a step that claimed success.
	Why string `json:"why,omitempty"`
}

// Departure is a node's removal from the design that was not carried out.
type Departure struct {
	Revision string    `json:"revision"`
	When     time.Time `json:"when"`
	// Node is the node as last designed.
	Node *Node `json:"node"`
	// Host is the node of the hypervisor of a virtual machine in that design; empty if the design did not say.
	Host string `json:"host,omitempty"`
}
