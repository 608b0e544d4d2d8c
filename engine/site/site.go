// Package site holds the values that every part of Slipway shares: the
// effective design of a site, what was observed of its machines, what was
// recorded about them, the plan that leads from one to the other, and the
// status that people read. It has no behaviour beyond small helpers on these
// values.
package site

import (
	"io/fs"
	"sort"
	"strconv"
	"strings"
	"time"
)

// SchemaVersion is the version of the design language that this binary reads.
// An effective design that was evaluated under another version stays in force
// for observing only.
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
	// from the working directory. It is nil in a revision that is only named.
	Files fs.FS `json:"-"`
}

// Short returns the abbreviated id.
func (r Revision) Short() string {
	if len(r.ID) > 12 {
		return r.ID[:12]
	}
	return r.ID
}

// Site is the effective design of one site: every layer merged, every reference
// resolvable, every rule passed.
type Site struct {
	Name          string `json:"name"`
	SchemaVersion string `json:"schemaVersion"`
	// Schema is the version that the site says it is written for.
	Schema string `json:"schema,omitempty"`
	// Ruling is the digest of the policies and suppressions, as far as their
	// text shows; empty if unknown.
	Ruling  string  `json:"-"`
	Rollout Rollout `json:"rollout"`
	// Keys are the public halves of the site's root key: one, or two while it
	// is being replaced. Without any, the daemon's own key counts.
	Keys []string `json:"keys,omitempty"`
	// SSH is who signs SSH certificates.
	SSH SSHAuthorities `json:"ssh,omitzero"`
	// TLS is who signs TLS certificates.
	TLS TLSAuthorities `json:"tls,omitzero"`
	// Access is who may do what, as far as the daemon's host lets the design say that.
	Access Access `json:"access,omitzero"`
	// Discovery is what the daemon looks for by itself; nil for nothing.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Install says how Slipway's agent installs machines.
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
	// Extensions are the site's own kinds of item, Policies its own
	// constraints, and Suppressions the findings that it accepts.
	Extensions   map[string]*Extension   `json:"extensions,omitempty"`
	Policies     map[string]*Policy      `json:"policies,omitempty"`
	Suppressions map[string]*Suppression `json:"suppressions,omitempty"`
	// Approvals are the approved sets of destruction, by digest.
	Approvals map[string]Approval `json:"approvals,omitempty"`
	// Incidents are compromises of nodes, by name.
	Incidents map[string]Incident `json:"incidents,omitempty"`
	Nodes     map[string]*Node    `json:"nodes"`
	// Profiles says where each profile is declared, for the rules; it is not
	// stored. The profiles' values are merged into the nodes.
	Profiles map[string]Origin `json:"-"`
	// Origins says where each value outside the nodes was set, by path
	// ("images.debian12.sha256").
	Origins *Origins `json:"origins,omitempty"`
}

// NodeNames returns the names of the site's nodes, sorted.
func (s *Site) NodeNames() []string {
	names := make([]string, 0, len(s.Nodes))
	for name := range s.Nodes {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Rollout limits what may happen at once in a site.
type Rollout struct {
	// MaxUnavailable is how many nodes may be out of service at once: a count
	// ("2") or a percentage of the nodes ("25%", rounded down, at least 1).
	MaxUnavailable string `json:"maxUnavailable"`
	// ObserveEvery is how often Slipway looks at an in-sync machine.
	ObserveEvery Duration `json:"observeEvery"`
	// PollEvery is how often the repository is asked for a new revision.
	// ReportEvery is the minimum interval between writes of the status.
	PollEvery   Duration `json:"pollEvery"`
	ReportEvery Duration `json:"reportEvery"`
	// FirstContact says what may be done to a machine that was never seen
	// in-sync: "hold" asks a person before any disruption, "repair" treats it
	// like any other.
	FirstContact string `json:"firstContact"`
	// OnChange says what happens to a new revision during the rollout of the
	// previous one. "supersede" (the default) puts it in force between two
	// steps, "queue" after the rollout has ended or halted.
	OnChange string `json:"onChange,omitempty"`
	// MaxFailures is how many nodes may fail in one rollout: a count ("0") or a
	// percentage of the nodes that change ("10%", rounded down). One more halts
	// the rollout. Empty means 10%, at least 1.
	MaxFailures string `json:"maxFailures,omitempty"`
	// Canaries go first; nil for none.
	Canaries *Canaries `json:"canaries,omitempty"`
	// Budget is how long a rollout should take at most; 0 for no bound. It is
	// not enforced: a plan that takes longer says so.
	Budget Duration `json:"budget,omitempty"`
}

// Canaries are the nodes of a rollout that go first. The others wait until all
// of them have been in-sync for Soak.
type Canaries struct {
	// Nodes selects the candidates; nil means every node.
	Nodes *Selector `json:"nodes,omitempty"`
	// Count is how many canaries there are: the first by name of the nodes that change.
	Count int `json:"count"`
	// Soak is how long the last canary has to be in-sync.
	Soak Duration `json:"soak"`
}

// Image is what a system is installed from: a medium that installs it without
// questions and then powers the machine off, a root file system, or a whole
// disk. A virtual machine gets the disk of an installed system that configures
// itself at first boot (cloud-init, NoCloud).
type Image struct {
	Description string `json:"description,omitempty"`
	// URL is where the daemon fetches the image. {node} and {generation} in it
	// stand for the node's name and the generation being installed.
	URL string `json:"url"`
	// SHA256 is the digest of the file at URL in lower-case hex.
	SHA256 string `json:"sha256,omitempty"`
	// Digests are the digests of files for single nodes, by node. They replace
	// SHA256, which cannot match if URL names a file per node.
	Digests map[string]string `json:"digests,omitempty"`
	// Kind is how a physical machine is installed from the image: KindInstaller (the
	// default), KindRoot or KindDisk.
	Kind string `json:"kind,omitempty"`
	// Format is "qcow2" or "raw" for the image of a whole disk, and empty for others.
	Format string `json:"format,omitempty"`
	// Size is the size of the disk in the image; 0 if the design does not say.
	Size Size `json:"size,omitempty"`
	// InstallTimeout limits the time from booting the medium until the machine
	// powers itself off, and the time from a first boot until the marker.
	InstallTimeout Duration `json:"installTimeout"`
	// Family and Version are those of the image's operating system.
	Family       string `json:"family,omitempty"`
	Version      string `json:"version,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// BootMode is "uefi", "bios" or empty for either.
	BootMode string `json:"bootMode,omitempty"`
}

// The kinds of images for physical machines.
const (
	KindInstaller = "installer" // a medium that installs the machine by itself and switches it off
	KindRoot      = "root"      // a tar of a root file system, which Slipway's agent unpacks
	KindDisk      = "disk"      // a whole disk, which Slipway's agent writes
)

// IsRoot reports whether the image is a root file system. It is false for nil.
func (i *Image) IsRoot() bool { return i != nil && i.Kind == KindRoot }

// IsDisk reports whether the image is a whole disk to write to physical machines. It is false
// for nil.
func (i *Image) IsDisk() bool { return i != nil && i.Kind == KindDisk }

// ByAgent reports whether Slipway's agent installs the image on physical machines.
func (i *Image) ByAgent() bool { return i.IsRoot() || i.IsDisk() }

// PerNode reports whether the URL names different files for different nodes or
// generations, so that each node needs its own digest.
func (i *Image) PerNode() bool {
	return strings.Contains(i.URL, "{node}") || strings.Contains(i.URL, "{generation}")
}

// For returns the image that a node installs in a generation, with the URL and
// SHA256 of that file. SHA256 is empty if the design has no digest for it; such
// an image is never installed.
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

// Credential is a credential's entry in the design. Its value and the hosts that may
// receive it are on the bootstrap host, or encrypted in the repository.
type Credential struct {
	Description string `json:"description,omitempty"`
	// From is where the value is: FromFile (the default), FromSealed, FromSOPS,
	// FromProgram, FromVault or FromDerived.
	From string `json:"from,omitempty"`
	// File and Key are for FromSOPS: the file in the site's folder of secrets, and
	// the path in that file. For FromVault, Key is the path of the object.
	File string `json:"file,omitempty"`
	Key  string `json:"key,omitempty"`
	// Account, Epoch and Form are for FromDerived: the account of BMCs that it is the password
	// of, the number of the password, and its form as package derived names it.
	Account string `json:"account,omitempty"`
	Epoch   int    `json:"epoch,omitempty"`
	Form    string `json:"form,omitempty"`
}

// SealedFiles are the encrypted files that the credentials of a design name.
type SealedFiles struct {
	// Folder is their folder in the repository. Files are their contents by path.
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
	FromDerived = "derived" // it follows from the site key, another one on each machine
)

// Encrypted reports whether the value is in the repository.
func (c *Credential) Encrypted() bool {
	return c != nil && (c.From == FromSealed || c.From == FromSOPS)
}

// SealedFile returns the file in the site's folder of secrets that holds the
// credential's value; empty if the value is elsewhere.
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
	// Rack of a virtual machine is that of its hypervisor.
	Rack string `json:"rack,omitempty"`
	// Position is where in its rack the machine is.
	Position Position `json:"position,omitzero"`
	// Tags maps a tag to true if it is set, and to false if a layer revoked it.
	Tags     map[string]bool   `json:"tags,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Profiles []string          `json:"profiles,omitempty"` // linearised, weakest first
	Identity Identity          `json:"identity,omitzero"`
	Virtual  Virtual           `json:"virtual,omitzero"`
	Hardware Hardware          `json:"hardware,omitzero"`
	BIOS     BIOS              `json:"bios,omitzero"`
	BMC      BMC               `json:"bmc,omitzero"`
	// Firmware is by component, as Redfish names it.
	Firmware map[string]Firmware `json:"firmware,omitempty"`
	// Endpoints are the node's endpoints by kind.
	Endpoints map[EndpointKind]Endpoint `json:"endpoints,omitempty"`
	// PrimaryNetwork is the network whose gateway and domain the node uses.
	PrimaryNetwork string `json:"primaryNetwork,omitempty"`
	// Addresses are the node's addresses by network: an address,
	// AddressDHCP, or AddressAllocate while the allocation is missing.
	Addresses map[string]string `json:"addresses,omitempty"`
	// ExtraAddresses are further addresses by network. Routes are the node's
	// own, besides those of its networks.
	ExtraAddresses map[string][]string `json:"extraAddresses,omitempty"`
	Routes         map[string]Route    `json:"routes,omitempty"`
	// Interfaces, Bonds, Bridges and VLANs are by kernel name.
	Interfaces map[string]Interface `json:"interfaces,omitempty"`
	Bonds      map[string]Bond      `json:"bonds,omitempty"`
	Bridges    map[string]Bridge    `json:"bridges,omitempty"`
	VLANs      map[string]VLAN      `json:"vlans,omitempty"`
	Storage    Storage              `json:"storage,omitzero"`
	// Power is "on" or "off"; empty leaves the power unchanged.
	Power string `json:"power,omitempty"`
	Boot  Boot   `json:"boot,omitzero"`
	// Image names the image to install; nothing is installed without a
	// Generation.
	Image string `json:"image,omitempty"`
	// Generation counts the wanted installations, up to MaxGeneration. A machine
	// is installed if this is higher than the recorded generation.
	Generation int    `json:"generation,omitempty"`
	Kernel     Kernel `json:"kernel,omitzero"`
	// System is the content of the operating system. Families has further
	// content by the family of the image.
	System   System            `json:"system,omitzero"`
	Families map[string]System `json:"families,omitempty"`
	// Inspect is how often the machine is fully inventoried: "daily" (the
	// default) or "never".
	Inspect string `json:"inspect,omitempty"`
	// Drift says what to do about a difference, by facet: "report", "propose",
	// "repair" (in the Window) or "enforce".
	Drift map[Facet]string `json:"drift,omitempty"`
	// Window names the window for disruptions and repairs. Windows takes
	// precedence for a given impact.
	Window  string  `json:"window,omitempty"`
	Windows Windows `json:"windows,omitzero"`
	// Extensions are items of the site's own kinds, by kind and name, as
	// decoded by encoding/json.
	Extensions map[string]map[string]any `json:"extensions,omitempty"`
	// Decommission announces that the node will leave the design. DecommissionErase is "secure"
	// if the disks of its machine are to be erased first.
	Decommission      bool   `json:"decommission,omitempty"`
	DecommissionErase string `json:"decommissionErase,omitempty"`
	// Moved is the machine that has replaced the one under Identity: another
	// chassis, or another board.
	Moved Identity `json:"moved,omitzero"`
	// Away says why the machine is out of service for long. Counts leave it
	// out, no need waits for it, and Slipway does not write to it.
	Away   string `json:"away,omitempty"`
	Paused *Hold  `json:"paused,omitempty"`
	// References resolve the names in the node's design.
	References References `json:"references,omitzero"`
	// Origins says where each value was set, by path ("boot.order").
	Origins *Origins `json:"origins,omitempty"`
	// Place is where the node is declared.
	Place Origin `json:"place,omitzero"`
}

// InUse reports whether the node is enabled.
func (n *Node) InUse() bool { return n.Enabled == nil || *n.Enabled }

// Machine returns the identity of the machine that the node's name stands for.
func (n *Node) Machine() Identity {
	if n.Moved.Known() {
		return n.Moved
	}
	return n.Identity
}

// Unused says why Slipway does not work on a node of the design; empty if it
// does. The machine of an unused node is only observed.
func (s *Site) Unused(n *Node) string { return n.UnusedIn(s.Roles[n.Role]) }

// EndpointKind is a kind of endpoint of a machine.
type EndpointKind string

// The kinds of endpoint.
const (
	Manager EndpointKind = "manager" // what manages the machine: its BMC, or its hypervisor
	OS      EndpointKind = "os"      // the installed operating system
	// Agent is Slipway's own program in the machine's memory. No design has such an
	// endpoint: it exists while an agent is connected.
	Agent EndpointKind = "agent"
)

// Endpoint is one way to a machine.
type Endpoint struct {
	// URL's scheme up to "+" picks the driver:
	// redfish+https://192.0.2.11/redfish/v1/Systems/1, ssh://192.0.2.11.
	URL string `json:"url"`
	// Credential names the credential to log in with.
	Credential string `json:"credential,omitempty"`
	// Trust says how the other side proves its identity.
	Trust Trust `json:"trust,omitzero"`
	// Unbound says what to do on a BMC to which writes cannot be bound: it has no
	// sessions and closes its connection after each answer. UnboundAccept permits
	// destructive steps anyway; empty refuses them.
	Unbound string `json:"unbound,omitempty"`
}

// UnboundAccept is the value of Endpoint.Unbound that permits destructive steps.
const UnboundAccept = "accept"

// Trust is public data that proves the other side of an endpoint. If nothing is
// set, TLS endpoints are verified against the host's roots and SSH endpoints
// are refused.
type Trust struct {
	// CA is a PEM bundle of the certificate authorities to trust.
	CA string `json:"ca,omitempty"`
	// Fingerprint pins one certificate: "sha256:" and the hex digest of its DER
	// form. It replaces every other check except expiry.
	Fingerprint string `json:"fingerprint,omitempty"`
	// FirstUse trusts the certificate that the other side presents at the first
	// use of the endpoint, and no other afterwards. Fingerprint and CA take
	// precedence.
	FirstUse bool `json:"firstUse,omitempty"`
	// HostKeys are SSH host public keys in authorized_keys form or, after
	// "@cert-authority", the keys of certificate authorities.
	HostKeys []string `json:"hostKeys,omitempty"`
}

// OnFirstUse reports whether the certificate presented first is to be trusted,
// because the design pins nothing else.
func (t Trust) OnFirstUse() bool { return t.FirstUse && t.Fingerprint == "" && t.CA == "" }

// Hold is a person's order to leave something alone: who, why, since when, and until when.
type Hold struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since,omitzero"`
	// Until is when the hold ends by itself; zero means when resumed.
	Until time.Time `json:"until,omitzero"`
	// Incident is the name of the incident that it follows from; empty for a person's own.
	Incident string `json:"incident,omitempty"`
	// Imported says that it comes from imported records. A person may have ended it since, so nothing is switched off
	// because of it.
	Imported bool `json:"imported,omitempty"`
}

// Holds reports whether the hold is active at a time. A nil hold is never
// active.
func (h *Hold) Holds(at time.Time) bool {
	return h != nil && (h.Until.IsZero() || at.Before(h.Until))
}

// Release is the command that ends the quarantine of a node.
func (h *Hold) Release(node string) string {
	if h.Incident != "" {
		return "slipway release " + node + " --incident " + h.Incident
	}
	return "slipway release " + node
}

// FileDigests returns the set of digests of the images and artifacts in the design.
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
