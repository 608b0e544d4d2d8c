package item

import (
	"strconv"
	"strings"
)

// The kinds of items. Their keys begin with the kind.
const (
	// Of the facet base.
	KindHostname = "hostname" // the key itself; field ""
	KindHosts    = "hosts"    // the key itself; Body Hosts, field ""
	KindTime     = "time"     // the key itself; fields "zone" and "servers", Body Time
	KindLogs     = "logs"     // the key itself; field "forward", Body Logs
	KindSSHHost  = "sshhost"  // the key itself; field "certificates", Body SSHHost
	KindSSH      = "ssh"      // the key itself; fields "accounts", "authorities" and "revoked", Body SSH
	KindUsers    = "users"    // users.NAME; fields uid, groups, shell, keys, password, sudo, state; Body User
	// Of the facet packages.
	KindRepositories = "repositories" // repositories.NAME; field "", Body Repository
	KindPackages     = "packages"     // packages.NAME; fields version and state
	KindLanguage     = "language"     // language.NAME: a virtual environment; field "", Body Language
	KindPatch        = "patch"        // the key itself; fields level and snapshot, Body Patch
	// Of the facet config.
	KindFiles   = "files"   // files.PATH; fields content, mode, owner ("root:root"), state; Body File
	KindUnits   = "units"   // units.NAME; fields content, enabled, state; Body Unit
	KindSysctl  = "sysctl"  // sysctl.NAME; field ""
	KindModules = "modules" // modules.NAME; field "parameters", ModuleNotLoaded until it is loaded
	// certificates.NAME; fields "names", "usage", "life", "authorities" and "owner", and "revocationList" if the
	// design asks for it, Body Certificate. A system knows only "authorities" and "owner", and tells a Digest as
	// "names" and as "revocationList".
	KindCertificates = "certificates"
	// Units that start with the system and that the design does not name: unlisted.NAME; field "",
	// Disabled once the unit is disabled. The kind alone as a key asks for the list of these units.
	KindUnlisted = "unlisted"
	// Of the facet kernel.
	KindKernel     = "kernel"     // the key itself; field "package"
	KindParameters = "parameters" // parameters.NAME; field ""
	// Of the facet actions: NAME is that of the boot action.
	KindBootActions = "bootActions" // bootActions.NAME; field "", Body Action
	// Of the facet network: NAME is that of the interface.
	// Other managers of the network that configure interfaces of the design: managers.NAME; field
	// "", Disabled once it is disabled. No key asks for one: each is reported with the interfaces.
	KindManagers = "managers"
	KindLinks    = "links" // links.NAME; fields kind, mac, pci, mtu, addresses, routes, dns, members, bond, vlan, dhcp, …; Body Link
)

// ModuleNotLoaded is the value of a module's parameters if the module is loaded only at the next
// boot.
const ModuleNotLoaded = "not loaded before the next boot"

// File is the body of a file.
type File struct {
	Content []byte `json:"content,omitempty"`
	// Artifact is the SHA-256, in lower-case hex, of a content outside the body: the daemon sends
	// it when the machine asks.
	Artifact string `json:"artifact,omitempty"`
	// Key marks the content as a secret, and is the key of its KeyedDigest. The daemon adds both
	// right before the file is set.
	Key   []byte `json:"key,omitempty"`
	Mode  string `json:"mode"` // "0644"
	Owner string `json:"owner"`
	Group string `json:"group"`
}

// Unit is the body of a systemd unit.
type Unit struct {
	Content *string `json:"content,omitempty"` // nil if a package brings the unit file
	// RestartOn are the files whose change restarts the unit.
	RestartOn []string `json:"restartOn,omitempty"`
}

// User is the body of an account. Empty fields are left as the system sets them.
type User struct {
	UID    *int64   `json:"uid,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Shell  string   `json:"shell,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	// Password is a hash in the form of crypt(5), and a secret: no log and no file but shadow(5)
	// contains it. The daemon computes it right before it is set.
	Password string `json:"password,omitempty"`
	Sudo     bool   `json:"sudo,omitempty"`
}

// Hash identifies a hash in shadow(5) without revealing it: the setting that it was computed with,
// "$6$SALT", and the Digest of the whole.
type Hash struct {
	Setting string `json:"setting"`
	Digest  string `json:"digest"`
}

// HashOf returns the Hash of a hash in the form of crypt(5). It is false for other text, such as a
// locked password.
func HashOf(hash string) (Hash, bool) {
	end := strings.LastIndexByte(hash, '$')
	if end <= 0 || hash[0] != '$' {
		return Hash{}, false
	}
	return Hash{Setting: hash[:end], Digest: Digest([]byte(hash))}, true
}

// Time is the body of the clock.
type Time struct {
	Zone    string   `json:"zone,omitempty"`
	Servers []string `json:"servers,omitempty"`
}

// Logs is the body of log forwarding: URLs such as "tls://logs.example.org:6514".
type Logs struct {
	Forward []string `json:"forward,omitempty"`
}

// Hosts is the body of Slipway's part of hosts(5): names by address.
type Hosts map[string][]string

// Repository is the body of a package repository.
type Repository struct {
	// Family is "debian" or "rhel".
	Family string `json:"family"`
	URL    string `json:"url"`
	// Suite and Components are those of sources.list(5), for Debian only.
	Suite      string   `json:"suite,omitempty"`
	Components []string `json:"components,omitempty"`
	// Key is the armoured OpenPGP key that signs the repository.
	Key string `json:"key,omitempty"`
	// Pin is a priority of apt_preferences(5), or of dnf's `priority`; 0 for none.
	Pin int `json:"pin,omitempty"`
}

// Text is the canonical text of a repository: "URL SUITE COMPONENTS key sha256:… pin N", without
// missing parts.
func (r Repository) Text() string {
	parts := []string{r.URL}
	if r.Suite != "" {
		parts = append(parts, r.Suite)
	}
	parts = append(parts, r.Components...)
	if key := r.KeyFile(); key != nil {
		parts = append(parts, "key", Digest(key))
	}
	if r.Pin != 0 {
		parts = append(parts, "pin", strconv.Itoa(r.Pin))
	}
	return strings.Join(parts, " ")
}

// KeyFile is the key as the content of a file: trimmed, with one line break at the end. It is nil
// without a key.
func (r Repository) KeyFile() []byte {
	key := strings.TrimSpace(r.Key)
	if key == "" {
		return nil
	}
	return []byte(key + "\n")
}

// Language is the body of an environment with a language's own packages at pinned versions.
type Language struct {
	Kind     string            `json:"kind"` // "python"
	Path     string            `json:"path"` // of the environment
	Packages map[string]string `json:"packages"`
	Index    string            `json:"index,omitempty"`
}

// Text is the canonical text of an environment: "NAME==VERSION, … in PATH", with names in the form
// of PythonName.
func (l Language) Text() string {
	pinned := make([]string, 0, len(l.Packages))
	for name, version := range l.Packages {
		pinned = append(pinned, PythonName(name)+"=="+version)
	}
	return List(pinned) + " in " + l.Path
}

// PythonName is the name of a Python package as indexes compare it: in lower case, with one "-" for
// each run of "-", "_" and ".".
func PythonName(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(parts, "-")
}

// Patch is the body of the upgrades that the system should have.
type Patch struct {
	Level string `json:"level"` // PatchSecurity or PatchAll
	// Snapshot is the state of the repositories to use: a URL, or a time such as
	// "20260101T000000Z". Empty means their current state.
	Snapshot string `json:"snapshot,omitempty"`
	// Except are the packages whose versions the design sets: upgrades skip them.
	Except []string `json:"except,omitempty"`
}

// The levels of a patch.
const (
	PatchSecurity = "security"
	PatchAll      = "all"
)

// Link is the body of one network interface.
type Link struct {
	// Kind is "ethernet", "bond", "bridge" or "vlan".
	Kind string `json:"kind"`
	// MAC identifies an ethernet interface or, without a designed MAC address, PCI is the place of
	// its adapter. If both are empty, the name identifies it.
	MAC string `json:"mac,omitempty"`
	PCI string `json:"pci,omitempty"`
	MTU int    `json:"mtu,omitempty"`
	// Addresses have prefix lengths: "10.1.0.11/24".
	Addresses []string `json:"addresses,omitempty"`
	// Shared are addresses that move between machines. Whichever machine has one keeps it, and the
	// interface does not count as different.
	Shared []string `json:"shared,omitempty"`
	DHCP4  bool     `json:"dhcp4,omitempty"`
	DHCP6  bool     `json:"dhcp6,omitempty"`
	// SLAAC accepts router advertisements.
	SLAAC   bool     `json:"slaac,omitempty"`
	Routes  []Route  `json:"routes,omitempty"`
	Servers []string `json:"servers,omitempty"` // of DNS
	Search  []string `json:"search,omitempty"`
	// Members are the members of a bond or a bridge.
	Members []string `json:"members,omitempty"`
	Bond    *Bond    `json:"bond,omitempty"`
	STP     bool     `json:"stp,omitempty"`
	// Parent and VLAN are for a VLAN.
	Parent string `json:"parent,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	// Functions is the number of virtual functions (SR-IOV). Trusted means that they may change
	// their own addresses.
	Functions int  `json:"functions,omitempty"`
	Trusted   bool `json:"trusted,omitempty"`
}

// Route is one route; To is a prefix, "0.0.0.0/0" or "::/0" for the default route.
type Route struct {
	To     string `json:"to"`
	Via    string `json:"via"`
	Metric int64  `json:"metric,omitempty"`
}

// Bond is how members are combined; durations are in milliseconds.
type Bond struct {
	Mode       string `json:"mode"`
	LACPRate   string `json:"lacpRate,omitempty"`
	HashPolicy string `json:"hashPolicy,omitempty"`
	Monitor    int    `json:"monitor,omitempty"`
	UpDelay    int    `json:"upDelay,omitempty"`
	DownDelay  int    `json:"downDelay,omitempty"`
	MinLinks   int    `json:"minLinks,omitempty"`
	Primary    string `json:"primary,omitempty"`
}
