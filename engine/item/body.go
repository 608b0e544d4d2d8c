package item

import (
	"strconv"
	"strings"
)

// The kinds of items, which begin their keys.
const (
	// Of the facet base.
	KindHostname = "hostname" // the key itself; field ""
	KindHosts    = "hosts"    // the key itself; Body Hosts, field ""
	KindTime     = "time"     // the key itself; fields "zone" and "servers", Body Time
	KindLogs     = "logs"     // the key itself; field "forward", Body Logs
	KindSSH      = "ssh"      // the key itself; fields "accounts" and "authorities", Body SSH
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
	// Units that start with the system and that the design does not name: unlisted.NAME; field "",
	// Disabled once the unit is. The kind alone as a key asks which units these are.
	KindUnlisted = "unlisted"
	// Of the facet kernel.
	KindKernel     = "kernel"     // the key itself; field "package"
	KindParameters = "parameters" // parameters.NAME; field ""
	// Of the facet actions: NAME is that of the boot action.
	KindBootActions = "bootActions" // bootActions.NAME; field "", Body Action
	// Of the facet network: NAME is that of the interface.
	// Managers of the network that set up interfaces of the design too: managers.NAME; field "",
	// Disabled once it is. No key asks for one: each that is there is told with the interfaces.
	KindManagers = "managers"
	KindLinks    = "links" // links.NAME; fields kind, mac, pci, mtu, addresses, routes, dns, members, bond, vlan, dhcp, …; Body Link
)

// ModuleNotLoaded is what the parameters of a module are that is loaded at the next boot
// and not now.
const ModuleNotLoaded = "not loaded before the next boot"

// File is the body of a file.
type File struct {
	Content []byte `json:"content,omitempty"`
	// Artifact is the SHA-256, in lower-case hex, of a content that is not in the body:
	// the daemon sends it when the machine asks for it.
	Artifact string `json:"artifact,omitempty"`
	// Key says that the content is a secret, and is what its KeyedDigest is made with. The
	// daemon puts both there right before the file is set.
	Key   []byte `json:"key,omitempty"`
	Mode  string `json:"mode"` // "0644"
	Owner string `json:"owner"`
	Group string `json:"group"`
}

// Unit is the body of a systemd unit.
type Unit struct {
	Content *string `json:"content,omitempty"` // nil where a package brings the unit file
	// RestartOn are the files that have it restarted when they change.
	RestartOn []string `json:"restartOn,omitempty"`
}

// User is the body of an account. What is empty is left as the system makes it.
type User struct {
	UID    *int64   `json:"uid,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Shell  string   `json:"shell,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	// Password is a hash as crypt(5) has it, and a secret: it is in no log and in
	// no file but shadow(5). The daemon computes it right before it is set.
	Password string `json:"password,omitempty"`
	Sudo     bool   `json:"sudo,omitempty"`
}

// Hash tells whether a password has a hash in shadow(5), without the hash: the setting
// that it was computed with, "$6$SALT", and Digest of the whole.
type Hash struct {
	Setting string `json:"setting"`
	Digest  string `json:"digest"`
}

// HashOf is that of a hash as crypt(5) has it; false for what is none, such as a
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

// Logs is the body of where messages go: URLs such as "tls://logs.example.org:6514".
type Logs struct {
	Forward []string `json:"forward,omitempty"`
}

// Hosts is the body of the part of hosts(5) that is ours: names by address.
type Hosts map[string][]string

// Repository is the body of a place that packages come from.
type Repository struct {
	// Family is "debian" or "rhel".
	Family string `json:"family"`
	URL    string `json:"url"`
	// Suite and Components are those of sources.list(5); they are Debian's alone.
	Suite      string   `json:"suite,omitempty"`
	Components []string `json:"components,omitempty"`
	// Key is the armoured OpenPGP key that signs it.
	Key string `json:"key,omitempty"`
	// Pin is a priority of apt_preferences(5), or of dnf's `priority`; 0 for none.
	Pin int `json:"pin,omitempty"`
}

// Text is the canonical text of a repository: "URL SUITE COMPONENTS key sha256:… pin N",
// without the parts that it does not have.
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

// KeyFile is the key as a file has it: without blanks around, one line break at
// the end. It is nil without a key.
func (r Repository) KeyFile() []byte {
	key := strings.TrimSpace(r.Key)
	if key == "" {
		return nil
	}
	return []byte(key + "\n")
}

// Language is the body of an environment of a language's own packages at pinned
// versions.
type Language struct {
	Kind     string            `json:"kind"` // "python"
	Path     string            `json:"path"` // of the environment
	Packages map[string]string `json:"packages"`
	Index    string            `json:"index,omitempty"`
}

// Text is the canonical text of an environment: "NAME==VERSION, … in PATH", with
// the names as PythonName has them.
func (l Language) Text() string {
	pinned := make([]string, 0, len(l.Packages))
	for name, version := range l.Packages {
		pinned = append(pinned, PythonName(name)+"=="+version)
	}
	return List(pinned) + " in " + l.Path
}

// PythonName is the name of a Python package as indexes compare names: in lower
// case, with one "-" for each run of "-", "_" and ".".
func PythonName(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(parts, "-")
}

// Patch is the body of the upgrades that the system is to have.
type Patch struct {
	Level string `json:"level"` // PatchSecurity or PatchAll
	// Snapshot is the state of the repositories that counts: a URL, or a time such
	// as "20260101T000000Z". Empty, they count as they are.
	Snapshot string `json:"snapshot,omitempty"`
	// Except are the packages whose versions the design gives: upgrades leave them
	// alone.
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
	// MAC tells which ethernet it is, and PCI where its adapter is, for one without a
	// designed MAC address; the name alone does where both are empty.
	MAC string `json:"mac,omitempty"`
	PCI string `json:"pci,omitempty"`
	MTU int    `json:"mtu,omitempty"`
	// Addresses are with their prefix lengths: "10.1.0.11/24".
	Addresses []string `json:"addresses,omitempty"`
	// Shared are addresses that move between machines: whoever has one keeps it, and it
	// says nothing of the interface.
	Shared []string `json:"shared,omitempty"`
	DHCP4  bool     `json:"dhcp4,omitempty"`
	DHCP6  bool     `json:"dhcp6,omitempty"`
	// SLAAC accepts router advertisements.
	SLAAC   bool     `json:"slaac,omitempty"`
	Routes  []Route  `json:"routes,omitempty"`
	Servers []string `json:"servers,omitempty"` // of DNS
	Search  []string `json:"search,omitempty"`
	// Members are those of a bond or a bridge.
	Members []string `json:"members,omitempty"`
	Bond    *Bond    `json:"bond,omitempty"`
	STP     bool     `json:"stp,omitempty"`
	// Parent and VLAN are those of a VLAN.
	Parent string `json:"parent,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	// Functions are virtual functions (SR-IOV); Trusted that they may change their
	// own addresses.
	Functions int  `json:"functions,omitempty"`
	Trusted   bool `json:"trusted,omitempty"`
}

// Route is one route; To is a prefix, "0.0.0.0/0" or "::/0" for the default one.
type Route struct {
	To     string `json:"to"`
	Via    string `json:"via"`
	Metric int64  `json:"metric,omitempty"`
}

// Bond is how members are used as one; durations are in milliseconds.
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
