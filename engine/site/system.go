package site

// System is what is in the operating system of a node.
type System struct {
	// Hostname is the name that the system has of itself; {name} stands for the
	// node's. Empty leaves it as it is.
	Hostname string `json:"hostname,omitempty"`
	// Hosts are names by address, for hosts(5).
	Hosts    map[string][]string `json:"hosts,omitempty"`
	Packages map[string]Package  `json:"packages,omitempty"`
	// Repositories are where packages come from, Environments a language's own
	// packages at pinned versions, apart from those of the system.
	Repositories map[string]Repository  `json:"repositories,omitempty"`
	Environments map[string]Environment `json:"environments,omitempty"`
	// Patch is which upgrades the system is to have; nil for none.
	Patch *Patch `json:"patch,omitempty"`
	// Modules are modules of the kernel that are loaded at each boot.
	Modules map[string]Module `json:"modules,omitempty"`
	Files   map[string]File   `json:"files,omitempty"` // by path
	Units   map[string]Unit   `json:"units,omitempty"`
	// Unlisted is what becomes of what the system has and the design does not name.
	Unlisted Unlisted        `json:"unlisted,omitzero"`
	Users    map[string]User `json:"users,omitempty"`
	// Sysctl are texts and whole numbers by parameter.
	Sysctl Scalars `json:"sysctl,omitempty"`
	Time   Time    `json:"time,omitzero"`
	Logs   Logs    `json:"logs,omitzero"`
	SSH    SSH     `json:"ssh,omitzero"`
	// Certificates are TLS certificates by name.
	Certificates map[string]TLS `json:"certificates,omitempty"`
}

// Package is one package; State is "present", also when empty, "absent" or
// "held".
type Package struct {
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
}

// Repository is a place that packages come from.
type Repository struct {
	URL string `json:"url"`
	// Suite and Components are Debian's: those of sources.list(5).
	Suite      string   `json:"suite,omitempty"`
	Components []string `json:"components,omitempty"`
	// Key is the armoured OpenPGP key that signs it.
	Key string `json:"key,omitempty"`
	// Pin is its priority; 0 leaves the package manager's own.
	Pin int `json:"pin,omitempty"`
}

// Environment is an environment of a language's own packages.
type Environment struct {
	// Language is "python", also when empty.
	Language string            `json:"language,omitempty"`
	Path     string            `json:"path"`
	Packages map[string]string `json:"packages"` // versions by name
	Index    string            `json:"index,omitempty"`
}

// Patch is which upgrades a system is to have.
type Patch struct {
	Level    string `json:"level"` // "security" or "all"
	Snapshot string `json:"snapshot,omitempty"`
	// Reboot is "ifNeeded", also when empty, "libraries" or "never".
	Reboot string `json:"reboot,omitempty"`
}

// Module is a module of the kernel.
type Module struct {
	Parameters Scalars `json:"parameters,omitempty"`
}

// File is one file, with its content here or in an artifact.
type File struct {
	// Content is nil where the design sets none.
	Content  *string `json:"content,omitempty"`
	Artifact string  `json:"artifact,omitempty"`
	// Credential names the one whose value is the content.
	Credential string `json:"credential,omitempty"`
	// Template says that {…} in Content stands for facts of the node.
	Template bool `json:"template,omitempty"`
	// Mode is in octal. When empty it is "0644", and secretMode where the content is the value
	// of a credential.
	Mode  string `json:"mode,omitempty"`
	Owner string `json:"owner,omitempty"`
	Group string `json:"group,omitempty"`
	State string `json:"state,omitempty"`
}

// secretMode are the permissions of a file with a secret where the design sets none.
const secretMode = "0600"

// Unit is one systemd unit.
type Unit struct {
	Content *string `json:"content,omitempty"`
	Enabled *bool   `json:"enabled,omitempty"`
	// State is "running", "stopped", "masked" or empty.
	State string `json:"state,omitempty"`
	// RestartOn are the designed files that have it restarted when they change.
	RestartOn []string `json:"restartOn,omitempty"`
}

// User is one account.
type User struct {
	UID    *int64   `json:"uid,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Shell  string   `json:"shell,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	// Password names a credential.
	Password string `json:"password,omitempty"`
	Sudo     bool   `json:"sudo,omitempty"`
	State    string `json:"state,omitempty"`
}

// Time is the clock of a node.
type Time struct {
	Zone    string   `json:"zone,omitempty"`
	Servers []string `json:"servers,omitempty"`
}

// Logs is where a node's messages go.
type Logs struct {
	// Forward are URLs: "tls://logs.example.org:6514".
	Forward []string `json:"forward,omitempty"`
}

// Kernel is the kernel of a node and how it is started.
type Kernel struct {
	Package string `json:"package,omitempty"`
	// Parameters are texts, whole numbers and truth values by name.
	Parameters Scalars `json:"parameters,omitempty"`
}

// BootAction is something done once when a node was installed.
type BootAction struct {
	Description string `json:"description,omitempty"`
	// Nodes selects the nodes; nil is every node.
	Nodes *Selector `json:"nodes,omitempty"`
	// After is a phase of the node's role; empty is the last.
	After    string             `json:"after,omitempty"`
	Timeout  Duration           `json:"timeout"`
	Packages map[string]Package `json:"packages,omitempty"`
	Files    map[string]File    `json:"files,omitempty"`
	Units    map[string]Unit    `json:"units,omitempty"`
	Run      []string           `json:"run,omitempty"`
}
