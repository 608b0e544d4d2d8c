package site

// System is what is in the operating system of a node.
type System struct {
	Packages map[string]Package `json:"packages,omitempty"`
	Files    map[string]File    `json:"files,omitempty"` // by path
	Units    map[string]Unit    `json:"units,omitempty"`
	Users    map[string]User    `json:"users,omitempty"`
	// Sysctl are texts and whole numbers by parameter.
	Sysctl Scalars `json:"sysctl,omitempty"`
	Time   Time    `json:"time,omitzero"`
	Logs   Logs    `json:"logs,omitzero"`
}

// Package is one package; State is "present", also when empty, "absent" or
// "held".
type Package struct {
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
}

// File is one file, with its content here or in an artifact.
type File struct {
	// Content is nil where the design sets none.
	Content  *string `json:"content,omitempty"`
	Artifact string  `json:"artifact,omitempty"`
	// Template says that {…} in Content stands for facts of the node.
	Template bool `json:"template,omitempty"`
	// Mode is in octal; "0644" when empty.
	Mode  string `json:"mode,omitempty"`
	Owner string `json:"owner,omitempty"`
	Group string `json:"group,omitempty"`
	State string `json:"state,omitempty"`
}

// Unit is one systemd unit.
type Unit struct {
	Content *string `json:"content,omitempty"`
	Enabled *bool   `json:"enabled,omitempty"`
	// State is "running", "stopped", "masked" or empty.
	State string `json:"state,omitempty"`
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
