package rule

import "github.com/slipway-gitops/slipway/engine/site"

// extensions: is what a site adds to the schema valid?
var extensions = []Rule{
	{
		Code: "unknown-extension", Severity: site.SeverityError, Firm: true,
		What:  "The kind of an item is an entry in `extensions`.",
		Why:   "Slipway does not know what its items are, so it can do nothing with them.",
		Wrong: "extensions: vm: item: cpus!: int\nnodes: \"n1\": extensions: vms: web: cpus: 2",
		Right: "extensions: vm: item: cpus!: int\nnodes: \"n1\": extensions: vm: web: cpus: 2",
	},
	{
		Code: "extension-item", Severity: site.SeverityError, Firm: true,
		What:  "An item is what its kind says, once the layers are merged.",
		Why:   "Programs that read the items of this kind rely on it.",
		Wrong: "extensions: vm: item: cpus!: int\nnodes: \"n1\": extensions: vm: web: cpus: \"2\"",
		Right: "extensions: vm: item: cpus!: int\nnodes: \"n1\": extensions: vm: web: cpus: 2",
	},
}

// hostless leaves a node without host keys, which is a finding.
const hostless = "\nnodes: \"n1\": endpoints: os: trust: hostKeys: _ @unset()"

// suppressing: do suppressions silence what they should?
var suppressing = []Rule{
	{
		Code: "unknown-code", Severity: site.SeverityError, Firm: true,
		What:  "The code that a suppression names is one that findings have.",
		Why:   "The suppression silences nothing, and nobody would notice.",
		Wrong: `suppressions: spares: {code: "host-key-mising", reason: "not installed yet"}`,
		Right: `suppressions: keys: {code: "host-key-missing", reason: "not installed yet"}` + hostless,
	},
	{
		Code: "suppression-refused", Severity: site.SeverityError, Firm: true,
		What:  "A suppression names no code that cannot be silenced.",
		Why:   "A design with such findings cannot be applied, or acting on it could lose data.",
		Wrong: `suppressions: roles: {code: "unknown-role", reason: "later"}`,
		Right: `suppressions: keys: {code: "host-key-missing", reason: "not installed yet"}` + hostless,
	},
	{
		Code: "suppression-expired", Severity: site.SeverityWarning, Firm: true,
		What:  "A suppression that has ended is removed from the design.",
		Why:   "Its findings are shown again; somebody meant to fix the cause before the end.",
		Wrong: `suppressions: keys: {code: "host-key-missing", reason: "not installed yet", until: "2020-01-01T00:00:00Z"}`,
		Right: `suppressions: keys: {code: "host-key-missing", reason: "not installed yet", until: "9999-01-01T00:00:00Z"}` + hostless,
	},
	{
		Code: "suppression-unused", Severity: site.SeverityNote, Firm: true,
		What:  "A suppression silences a finding.",
		Why:   "It would silence a future finding that nobody has looked at.",
		Wrong: `suppressions: keys: {code: "host-key-missing", reason: "not installed yet"}`,
		Right: `suppressions: keys: {code: "host-key-missing", reason: "not installed yet"}` + hostless,
	},
}

// datafiles: can the data files be read?
var datafiles = []Rule{
	{
		Code: "data-without-file", Severity: site.SeverityError, Firm: true,
		What:  "There is a file at the path of an entry in `data`.",
		Why:   "What it says about the nodes would be missing, without any message.",
		Wrong: `data: ipam: path: "ipam.json"`,
		Right: "-- ipam.json --\n{}\n-- patch.cue --\npackage clean\n\ndata: ipam: path: \"ipam.json\"",
	},
	{
		Code: "data-file", Severity: site.SeverityError, Firm: true,
		What:  "A file of an entry in `data` holds an object with nodes, as JSON or YAML.",
		Why:   "Slipway cannot tell what it says about the nodes.",
		Wrong: "-- ipam.json --\n[]\n-- patch.cue --\npackage clean\n\ndata: ipam: path: \"ipam.json\"",
		Right: "-- ipam.json --\n{\"n1\": {\"labels\": {\"floor\": \"2\"}}}\n-- patch.cue --\npackage clean\n\ndata: ipam: path: \"ipam.json\"",
	},
	{
		Code: "data-without-node", Severity: site.SeverityNote,
		What:  "A data file names only nodes of the design.",
		Why:   "A data file cannot create a node, so Slipway does not use this entry.",
		Wrong: "-- ipam.json --\n{\"n11\": {\"labels\": {\"floor\": \"2\"}}}\n-- patch.cue --\npackage clean\n\ndata: ipam: path: \"ipam.json\"",
		Right: "-- ipam.json --\n{\"n1\": {\"labels\": {\"floor\": \"2\"}}}\n-- patch.cue --\npackage clean\n\ndata: ipam: path: \"ipam.json\"",
	},
}
