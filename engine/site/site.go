// Package site holds the values that every part of Slipway shares: the
// effective design of a site, what was observed of its machines, what was
// recorded about them, the plan that leads from one to the other, and the
// status that people read. It has no behaviour beyond small helpers on these
// values and imports the standard library only.
package site

import (
	"io/fs"
	"sort"
	"strconv"
	"strings"
	"time"
)

// SchemaVersion is the version of the design language that this binary reads.
// An effective design that was evaluated under another version is kept in
// force for observing only.
const SchemaVersion = "v1alpha2"

// Revision is one commit of a site repository, or one state of a working
// directory.
type Revision struct {
	// ID names the revision: a full commit id, or "dir-" and a digest of the
	// files for a working directory.
	ID string `json:"id"`
	// Subject is the first line of the commit message.
	Subject string `json:"subject,omitempty"`
	// Author is the name of the commit's author, without an address.
	Author string `json:"author,omitempty"`
	// When is the committer's time.
	When time.Time `json:"when,omitzero"`
	// Files are the files of the revision, read straight from Git objects or
	// from the working directory. Nil in a revision that is only named.
	Files fs.FS `json:"-"`
}

// Short is the revision's id as people read it.
func (r Revision) Short() string {
	if len(r.ID) > 12 {
		return r.ID[:12]
	}
	return r.ID
}

// Site is the effective design of one site: every layer merged, every
// reference resolvable, every rule passed.
type Site struct {
	Name          string `json:"name"`
	SchemaVersion string `json:"schemaVersion"`
	// Schema is the version that the site says it is written for.
	Schema string `json:"schema,omitempty"`
	// Ruling tells apart what policies and suppressions are made of, as far as
	// the text shows; empty where it is not known.
	Ruling  string  `json:"-"`
	Rollout Rollout `json:"rollout"`
	// Keys are the public halves of the site's root key: one, and a second one
	// while it is exchanged. Without any the daemon's own counts.
	Keys []string `json:"keys,omitempty"`
	// SSH is who signs SSH certificates.
	SSH SSHAuthorities `json:"ssh,omitzero"`
	// Discovery is what the daemon looks for by itself; nil for nothing.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Install is how machines are installed by Slipway's agent.
	Install      Install                 `json:"install,omitzero"`
	Networks     map[string]*Network     `json:"networks,omitempty"`
	RouteDomains map[string]*RouteDomain `json:"routeDomains,omitempty"`
	Links        map[string]*Link        `json:"links,omitempty"`
	Roles        map[string]*Role        `json:"roles,omitempty"`
	Windows      map[string]*Window      `json:"windows,omitempty"`
	Racks        map[string]*Rack        `json:"racks,omitempty"`
	Images       map[string]*Image       `json:"images,omitempty"`
	Artifacts    map[string]*Artifact    `json:"artifacts,omitempty"`
	Drivers      map[string]*Driver      `json:"drivers,omitempty"`
	Hypervisors  map[string]*Hypervisor  `json:"hypervisors,omitempty"`
	BootActions  map[string]*BootAction  `json:"bootActions,omitempty"`
	Credentials  map[string]*Credential  `json:"credentials,omitempty"`
	// Sealed are the encrypted files that credentials name; nil without any.
	Sealed *SealedFiles `json:"sealed,omitempty"`
	// Allocations are the addresses that `slipway allocate` took from pools,
	// by network and node.
	Allocations map[string]map[string]string `json:"allocations,omitempty"`
	// Extensions are kinds of item of the site's own, Policies its own
	// constraints, and Suppressions findings that it lives with.
	Extensions   map[string]*Extension   `json:"extensions,omitempty"`
	Policies     map[string]*Policy      `json:"policies,omitempty"`
	Suppressions map[string]*Suppression `json:"suppressions,omitempty"`
	// Approvals are approved sets of destruction, by digest.
	Approvals map[string]Approval `json:"approvals,omitempty"`
	Nodes     map[string]*Node    `json:"nodes"`
	// Profiles says where each profile is declared. What they say is in the
	// nodes; it is for the rules and kept nowhere.
	Profiles map[string]Origin `json:"-"`
	// Origins says where each value outside the nodes was set, by path
	// ("images.debian12.sha256").
	Origins *Origins `json:"origins,omitempty"`
}

// NodeNames lists the names of the site's nodes in order.
func (s *Site) NodeNames() []string {
	names := make([]string, 0, len(s.Nodes))
	for name := range s.Nodes {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Rollout bounds what may happen at once in a site.
type Rollout struct {
	// MaxUnavailable is how many nodes may be out of service at once: a count
	// ("2") or a share of the nodes ("25%", rounded down, at least 1).
	MaxUnavailable string `json:"maxUnavailable"`
	// ObserveEvery is how often an in-sync machine is looked at.
	ObserveEvery Duration `json:"observeEvery"`
	// PollEvery is how often the repository is asked for a new revision, and
	// ReportEvery how often at most the status is written.
	PollEvery   Duration `json:"pollEvery"`
	ReportEvery Duration `json:"reportEvery"`
	// FirstContact says what may be done to a machine that was never seen
	// in-sync: "hold" asks a person before anything that disrupts it,
	// "repair" treats it like any other.
	FirstContact string `json:"firstContact"`
	// OnChange says what becomes of a new revision while the one before is
	// being rolled out: "supersede" (also when empty) puts it in force between
	// two steps, "queue" when the rollout has ended or halted.
	OnChange string `json:"onChange,omitempty"`
	// MaxFailures is how many nodes may fail in one rollout: a count ("0") or
	// a share of the nodes that change ("10%", rounded down). One more halts
	// it. Empty is 10%, at least 1.
	MaxFailures string `json:"maxFailures,omitempty"`
	// Canaries go first; nil for none.
	Canaries *Canaries `json:"canaries,omitempty"`
	// Budget is how long a rollout is meant to take at most; 0 for no bound.
	// Nothing enforces it: a plan that takes longer says so.
	Budget Duration `json:"budget,omitempty"`
}

// Canaries are the nodes of a rollout that go first. The others wait until all
// of them have been in-sync for Soak.
type Canaries struct {
	// Nodes selects whom to choose from; nil is every node.
	Nodes *Selector `json:"nodes,omitempty"`
	// Count is how many, the first by name of those that change.
	Count int `json:"count"`
	// Soak is how long the last of them has to be in-sync.
	Soak Duration `json:"soak"`
}

// Image is what an operating system is installed from: a medium, which installs
// it without questions and powers the machine off when it is done, or, for
// virtual machines, the disk of an installed system that sets itself up at its
// first boot (cloud-init, NoCloud).
type Image struct {
	Description string `json:"description,omitempty"`
	// URL is where the daemon fetches it from. {node} and {generation} in it stand
	// for the node's name and the generation being installed.
	URL string `json:"url"`
	// SHA256 is the digest of the file at URL in lower-case hex.
	SHA256 string `json:"sha256,omitempty"`
	// Digests are the digests of the files of single nodes, by node. They take the
	// place of SHA256, which cannot fit where URL names a file for each node.
	Digests map[string]string `json:"digests,omitempty"`
	// Kind is how a physical machine is installed from it: KindInstaller, also when empty,
	// KindRoot or KindDisk.
	Kind string `json:"kind,omitempty"`
	// Format is "qcow2" or "raw" for the image of a whole disk, and empty for others.
	Format string `json:"format,omitempty"`
	// Size is how large the disk in it is; 0 where the design does not say.
	Size Size `json:"size,omitempty"`
	// InstallTimeout bounds the time from booting the medium to the machine
	// powering itself off, and of a first boot to the marker.
	InstallTimeout Duration `json:"installTimeout"`
	// Family and Version are those of the operating system in it.
	Family       string `json:"family,omitempty"`
	Version      string `json:"version,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// BootMode is "uefi", "bios" or, for either, empty.
	BootMode string `json:"bootMode,omitempty"`
}

// The kinds of images of physical machines.
const (
	KindInstaller = "installer" // a medium that installs the machine by itself and switches it off
	KindRoot      = "root"      // a tar of a root file system, which Slipway's agent unpacks
	KindDisk      = "disk"      // a whole disk, which Slipway's agent writes
)

// IsRoot says whether the image is of a root file system. It is false for no image.
func (i *Image) IsRoot() bool { return i != nil && i.Kind == KindRoot }

// IsDisk says whether the image is of a whole disk that is written to physical machines. It is
// false for no image.
func (i *Image) IsDisk() bool { return i != nil && i.Kind == KindDisk }

// ByAgent says whether Slipway's agent installs physical machines from the image.
func (i *Image) ByAgent() bool { return i.IsRoot() || i.IsDisk() }

// PerNode reports whether the URL names different files for different nodes or
// generations, so that each node needs a digest of its own.
func (i *Image) PerNode() bool {
	return strings.Contains(i.URL, "{node}") || strings.Contains(i.URL, "{generation}")
}

// For returns the image that a node installs in a generation: URL is that of its
// file, and SHA256 the digest of that very file. SHA256 is empty where the design
// gives none for it; such an image is never installed.
func (i *Image) For(node string, generation int) *Image {
	its := *i
	its.Digests = nil
	its.URL = strings.NewReplacer("{node}", node, "{generation}", strconv.Itoa(generation)).Replace(i.URL)
	if digest, ok := i.Digests[node]; ok {
		its.SHA256 = digest
	} else if i.PerNode() {
		its.SHA256 = ""
	}
	return &its
}

// Artifact is a file that the design refers to by name.
type Artifact struct {
	Description  string `json:"description,omitempty"`
	URL          string `json:"url"`
	SHA256       string `json:"sha256"`
	Size         Size   `json:"size,omitempty"`
	Version      string `json:"version,omitempty"`
	Architecture string `json:"architecture,omitempty"`
}

// Credential is a credential's name as the design knows it. Its value and the
// hosts it may be sent to are on the bootstrap host, or encrypted in the repository.
type Credential struct {
	Description string `json:"description,omitempty"`
	// From is where the value is: FromFile, also when empty, FromSealed, FromSOPS,
	// FromProgram or FromVault.
	From string `json:"from,omitempty"`
	// File and Key are the file in the site's folder of secrets and the path within
	// it, of FromSOPS. Of FromVault, Key is the path of the object.
	File string `json:"file,omitempty"`
	Key  string `json:"key,omitempty"`
}

// SealedFiles are the encrypted files that the credentials of a design name.
type SealedFiles struct {
	// Folder is where they are in the repository, and Files are their contents by path.
	Folder string            `json:"folder"`
	Files  map[string][]byte `json:"files"`
}

// The sources of credentials.
const (
	FromFile    = "file"    // a file on the bootstrap host
	FromSealed  = "sealed"  // NAME.age in the site's folder of secrets
	FromSOPS    = "sops"    // a key in a file of SOPS there
	FromProgram = "program" // a program on the bootstrap host prints it
	FromVault   = "vault"   // an object on a server of OpenBao or HashiCorp Vault
)

// Encrypted says whether the value is in the repository.
func (c *Credential) Encrypted() bool {
	return c != nil && (c.From == FromSealed || c.From == FromSOPS)
}

// SealedFile is the name of the file in the site's folder of secrets that has the
// value of a credential; empty where it is none of those.
func (c *Credential) SealedFile(name string) string {
	switch {
	case c == nil || !c.Encrypted():
		return ""
	case c.From == FromSOPS:
		return c.File
	}
	return name + ".age"
}

// Approval is a set of destruction approved by a line in the design.
type Approval struct {
	By   string `json:"by"`
	Note string `json:"note,omitempty"`
}

// Node is one designed machine with every layer merged.
type Node struct {
	Name string `json:"name"`
	// Enabled is nil or true for a node in use.
	Enabled *bool `json:"enabled,omitempty"`
	// Style is "physical", also when empty, or StyleVirtual.
	Style string `json:"style,omitempty"`
	Role  string `json:"role,omitempty"`
	// Rack is that of the hypervisor for a virtual machine.
	Rack string `json:"rack,omitempty"`
	// Tags are those that are set to true, and those taken back.
	Tags     map[string]bool   `json:"tags,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Profiles []string          `json:"profiles,omitempty"` // linearised, weakest first
	Identity Identity          `json:"identity,omitzero"`
	Virtual  Virtual           `json:"virtual,omitzero"`
	Hardware Hardware          `json:"hardware,omitzero"`
	BIOS     BIOS              `json:"bios,omitzero"`
	// Firmware is by component, as Redfish names it.
	Firmware map[string]Firmware `json:"firmware,omitempty"`
	// Endpoints are the ways to the machine, by kind.
	Endpoints map[EndpointKind]Endpoint `json:"endpoints,omitempty"`
	// PrimaryNetwork is the one whose gateway and domain are the node's.
	PrimaryNetwork string `json:"primaryNetwork,omitempty"`
	// Addresses are the node's addresses by network: an address,
	// AddressDHCP, or AddressAllocate while the allocation is missing.
	Addresses map[string]string `json:"addresses,omitempty"`
	// ExtraAddresses are further ones by network, and Routes those of the node
	// besides its networks'.
	ExtraAddresses map[string][]string `json:"extraAddresses,omitempty"`
	Routes         map[string]Route    `json:"routes,omitempty"`
	// Interfaces, Bonds, Bridges and VLANs are by the kernel's names.
	Interfaces map[string]Interface `json:"interfaces,omitempty"`
	Bonds      map[string]Bond      `json:"bonds,omitempty"`
	Bridges    map[string]Bridge    `json:"bridges,omitempty"`
	VLANs      map[string]VLAN      `json:"vlans,omitempty"`
	Storage    Storage              `json:"storage,omitzero"`
	// Power is "on" or "off"; empty leaves the power as it is.
	Power string `json:"power,omitempty"`
	Boot  Boot   `json:"boot,omitzero"`
	// Image names the image to install; nothing is installed without a
	// Generation.
	Image string `json:"image,omitempty"`
	// Generation counts the wanted installations, up to MaxGeneration. A machine
	// is installed when it is higher than the one recorded.
	Generation int    `json:"generation,omitempty"`
	Kernel     Kernel `json:"kernel,omitzero"`
	// System is what is in the operating system, Families what is in it
	// besides by the family of the image.
	System   System            `json:"system,omitzero"`
	Families map[string]System `json:"families,omitempty"`
	// Inspect is how often the machine is asked for all that it is made of:
	// "daily", also when empty, or "never".
	Inspect string `json:"inspect,omitempty"`
	// Drift is what is done about a difference, by facet: "report",
	// "propose", "repair" (in the Window) or "enforce".
	Drift map[Facet]string `json:"drift,omitempty"`
	// Window names the window of what disrupts the node and of repairs;
	// Windows those of an impact, over it.
	Window  string  `json:"window,omitempty"`
	Windows Windows `json:"windows,omitzero"`
	// Extensions are items of the site's own kinds, by kind and name, as
	// encoding/json has them.
	Extensions map[string]map[string]any `json:"extensions,omitempty"`
	// Decommission announces that the node will leave the design. DecommissionErase is "secure"
	// where the disks of its machine are erased first.
	Decommission      bool   `json:"decommission,omitempty"`
	DecommissionErase string `json:"decommissionErase,omitempty"`
	// Moved is the machine that has taken the place of the one under Identity:
	// another chassis, or another board.
	Moved Identity `json:"moved,omitzero"`
	// Away says why the machine is out of service for long. It is counted
	// nowhere, needed by nothing, and not written to.
	Away   string `json:"away,omitempty"`
	Paused *Hold  `json:"paused,omitempty"`
	// References are what its names stand for elsewhere in the site.
	References References `json:"references,omitzero"`
	// Origins says where each value was set, by path ("boot.order").
	Origins *Origins `json:"origins,omitempty"`
	// Place is where the node itself is declared.
	Place Origin `json:"place,omitzero"`
}

// InUse says whether the node is enabled.
func (n *Node) InUse() bool { return n.Enabled == nil || *n.Enabled }

// Machine is the machine that the name means.
func (n *Node) Machine() Identity {
	if n.Moved.Known() {
		return n.Moved
	}
	return n.Identity
}

// Why a node of the design is not worked on; empty when it is. Its machine is
// left as it is, and observed.
func (s *Site) Unused(n *Node) string {
	switch r := s.Roles[n.Role]; {
	case !n.InUse():
		return "the node is disabled"
	case r != nil && !r.Enabled:
		return "its role " + n.Role + " is disabled"
	case n.Away != "":
		return "the machine is away: " + n.Away
	}
	return ""
}

// EndpointKind tells the ways to a machine apart.
type EndpointKind string

// The kinds of endpoint.
const (
	Manager EndpointKind = "manager" // what manages the machine: its BMC, or its hypervisor
	OS      EndpointKind = "os"      // the installed operating system
	// Agent is Slipway's own program in the memory of the machine. No design has such an
	// endpoint: it is there while an agent is connected.
	Agent EndpointKind = "agent"
)

// Endpoint is one way to a machine.
type Endpoint struct {
	// URL's scheme up to "+" picks the driver:
	// redfish+https://192.0.2.11/redfish/v1/Systems/1, ssh://192.0.2.11.
	URL string `json:"url"`
	// Credential names the credential to log in with.
	Credential string `json:"credential,omitempty"`
	// Trust says how the other side proves that it is itself.
	Trust Trust `json:"trust,omitzero"`
	// Unbound is what is done on a BMC to which no write can be bound: one
	// without sessions that closes its connection after each answer. UnboundAccept
	// takes destructive steps all the same; empty refuses them.
	Unbound string `json:"unbound,omitempty"`
}

// UnboundAccept is Endpoint.Unbound that accepts it.
const UnboundAccept = "accept"

// Trust is public data that proves the other side of an endpoint. With
// nothing set, TLS endpoints are verified against the host's roots and SSH
// endpoints are refused.
type Trust struct {
	// CA is a PEM bundle of the certificate authorities to trust.
	CA string `json:"ca,omitempty"`
	// Fingerprint pins one certificate: "sha256:" and the hex digest of its
	// DER form. It takes the place of every other check but expiry.
	Fingerprint string `json:"fingerprint,omitempty"`
	// FirstUse trusts the certificate that the other side shows at the first
	// use of the endpoint, and no other afterwards. A fingerprint or a CA goes
	// before it.
	FirstUse bool `json:"firstUse,omitempty"`
	// HostKeys are SSH host public keys in authorized_keys form, and behind
	// "@cert-authority" those of who signs hosts' keys.
	HostKeys []string `json:"hostKeys,omitempty"`
}

// OnFirstUse says whether there is nothing yet to prove the other side by, and
// the design trusts what it shows first.
func (t Trust) OnFirstUse() bool { return t.FirstUse && t.Fingerprint == "" && t.CA == "" }

// Hold is a person's hands-off: who, why, since when, and until when.
type Hold struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
	// Until ends the hold by itself; zero holds until resumed.
	Until time.Time `json:"until,omitzero"`
}

// Holds says whether there is a hold at a time: none holds nothing, and one
// that has ended no more.
func (h *Hold) Holds(at time.Time) bool {
	return h != nil && (h.Until.IsZero() || at.Before(h.Until))
}

// FileDigests are the digests of the files that a design names.
func (s *Site) FileDigests() map[string]bool {
	named := map[string]bool{}
	for _, i := range s.Images {
		named[i.SHA256] = true
		for _, digest := range i.Digests {
			named[digest] = true
		}
	}
	for _, a := range s.Artifacts {
		named[a.SHA256] = true
	}
	return named
}
