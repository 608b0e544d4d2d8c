package rule

import "github.com/slipway-gitops/slipway/engine/site"

// The findings in this file arise while a design is read, before any rule can
// run. None of them can be suppressed, because the affected part of the design
// has no meaning.

// repositories: is there a site to read?
var repositories = []Rule{
	{
		Code: "empty-repository", Severity: site.SeverityError, Firm: true,
		What: "A repository holds a site.",
		Why:  "Slipway never treats an empty design as a request to remove every node.",
	},
	{
		Code: "no-package", Severity: site.SeverityError, Firm: true,
		What:  "The CUE files at the root name their package.",
		Why:   "A file without a package clause belongs to no package, so none of them is part of a site.",
		Wrong: "-- site.cue --\nracks: r1: {}\n-- nodes.cue --\nroles: compute: {}",
		Right: "-- site.cue --\npackage clean\n\nracks: r1: {}\n-- nodes.cue --\npackage clean\n\nroles: compute: {}",
	},
	{
		Code: "several-sites", Severity: site.SeverityError, Firm: true,
		What:  "If a repository has several sites, one of them is chosen by name.",
		Why:   "One site is evaluated at a time.",
		Wrong: "-- sites/fra/site.cue --\npackage fra\n-- sites/muc/site.cue --\npackage muc",
		Right: "-- sites/fra/site.cue --\npackage clean",
	},
	{
		Code: "root-beside-sites", Severity: site.SeverityError, Firm: true,
		What:  "A repository with sites under sites/ has none at its root.",
		Why:   "With sites under sites/, the root only has what they share. Slipway would no longer change a site that it does not read, and nobody would notice.",
		Wrong: "-- sites/fra/site.cue --\npackage fra",
		Right: "-- sites/fra/site.cue --\npackage clean",
	},
	{
		Code: "unknown-site", Severity: site.SeverityError, Firm: true,
		What: "The site that is asked for is in the repository.",
		Why:  "A site is a package under sites/, or the package at the root when there is only one.",
	},
	{
		Code: "unreadable", Severity: site.SeverityError, Firm: true,
		What: "All files of a design can be read.",
		Why:  "Slipway does not apply a design that it can read only in part.",
	},
	{
		Code: "not-regular-file", Severity: site.SeverityError, Firm: true,
		What: "The files of a design are regular files.",
		Why:  "A link could lead out of the repository.",
	},
}

// modules: what are the repository's packages called, and what may they import?
var modules = []Rule{
	{
		Code: "no-module", Severity: site.SeverityError, Firm: true,
		What: "A repository has the file cue.mod/module.cue.",
		Why:  "It gives the module's name, by which its packages import each other, and the version of CUE they are written in.",
	},
	{
		Code: "module-file", Severity: site.SeverityError, Firm: true,
		What:  "The module file gives the module's name, and a version of CUE that this program knows.",
		Why:   "It says what the repository's packages are called, and in which version of CUE they are written.",
		Wrong: "-- cue.mod/module.cue --\nmodule: \"example.org/site\"\nlanguage: version: \"newest\"",
		Right: "-- cue.mod/module.cue --\nmodule: \"example.org/site\"\nlanguage: version: \"v0.17.0\"",
	},
	{
		Code: "local-module", Severity: site.SeverityError, Firm: true,
		What:  "There is no other file beside the module file.",
		Why:   "It can point the design at folders of the machine that evaluates it.",
		Wrong: "-- cue.mod/local-module.cue --\ndeps: \"example.org/racks\": replaceWith: \"/srv/racks\"",
		Right: "-- cue.mod/pkg/example.org/racks/racks.cue --\npackage racks",
	},
	{
		Code: "import-not-found", Severity: site.SeverityError, Firm: true,
		What:  "Imports name packages of the repository, of CUE or of Slipway.",
		Why:   "Nothing is fetched while a design is evaluated, and nothing is read of the machine that does it.",
		Wrong: "import \"example.org/inventory\"\n\nracks: inventory.racks",
		Right: "-- inventory/racks.cue --\npackage inventory\n\nracks: r1: location: \"row A\"\n-- racks.cue --\npackage clean\n\nimport \"example.org/site/inventory\"\n\nracks: inventory.racks",
	},
	{
		Code: "import-unused", Severity: site.SeverityError, Firm: true,
		What:  "Every import is used.",
		Why:   "CUE refuses a package with an import that nothing uses.",
		Wrong: "import \"strings\"\n\nracks: r1: location: \"ROW A\"",
		Right: "import \"strings\"\n\nracks: r1: location: strings.ToUpper(\"row a\")",
	},
	{
		Code: "import-cycle", Severity: site.SeverityError, Firm: true,
		What: "Packages do not import each other in a circle.",
		Why:  "Neither could be evaluated before the other.",
		Wrong: "-- rows/rows.cue --\npackage rows\n\nimport \"example.org/site/halls\"\n\nrow: halls.hall\n" +
			"-- halls/halls.cue --\npackage halls\n\nimport \"example.org/site/rows\"\n\nhall: rows.row\n" +
			"-- racks.cue --\npackage clean\n\nimport \"example.org/site/rows\"\n\nracks: r1: location: rows.row",
		Right: "-- rows/rows.cue --\npackage rows\n\nimport \"example.org/site/halls\"\n\nrow: halls.hall\n" +
			"-- halls/halls.cue --\npackage halls\n\nhall: \"hall 1\"\n" +
			"-- racks.cue --\npackage clean\n\nimport \"example.org/site/rows\"\n\nracks: r1: location: rows.row",
	},
}

// texts: can the files be read as CUE?
var texts = []Rule{
	{
		Code: "syntax", Severity: site.SeverityError, Firm: true,
		What:  "Every file can be read as CUE.",
		Why:   "Slipway cannot tell what the file says, or what is missing without it.",
		Wrong: "nodes: \"n1\": {power: \"on\"",
		Right: "nodes: \"n1\": {power: \"on\"}",
	},
	{
		Code: "merge-conflict", Severity: site.SeverityError, Firm: true,
		What:  "No file holds the markers of an unsolved merge conflict.",
		Why:   "The file says two things at once, and Git could not decide between them.",
		Wrong: "<<<<<<< HEAD\nnodes: \"n1\": power: \"on\"\n=======\nnodes: \"n1\": power: \"off\"\n>>>>>>> other",
		Right: "nodes: \"n1\": power: \"off\"",
	},
	{
		Code: "hidden-character", Severity: site.SeverityError, Firm: true,
		What:  "No file holds an invisible character that can make a line look different from what it means, such as a direction mark or a zero-width space.",
		Why:   "A reviewer may approve something other than what the line does.",
		Wrong: "racks: r1: location: \"row\u200b A\"",
		Right: "racks: r1: location: \"row\\u200b A\"",
	},
	{
		Code: "posing-letter", Severity: site.SeverityError, Firm: true,
		What:  "No word mixes Latin letters with letters of Cyrillic or Greek that look like them.",
		Why:   "The word differs from what it looks like, so a reviewer may approve something else, and a search for it finds nothing.",
		Wrong: "racks: r1: location: \"r\u043ew A\"",
		Right: "racks: r1: location: \"\u0440\u044f\u0434 A\"",
	},
	{
		Code: "other-package", Severity: site.SeverityError, Firm: true,
		What:  "All CUE files of a site's directory belong to one package.",
		Why:   "The fields of the others would not be part of the site.",
		Wrong: "-- rack1.cue --\npackage rack1\n\nracks: r1: location: \"row A\"",
		Right: "-- rack1.cue --\npackage clean\n\nracks: r1: location: \"row A\"",
	},
	{
		Code: "attribute-refused", Severity: site.SeverityError, Firm: true,
		What:  "No attribute makes CUE read files or leave some out: @embed, @extern, @if, @ignore.",
		Why:   "A design must mean the same wherever it is evaluated.",
		Wrong: "racks: r1: location: _ @embed(file=location.json)",
		Right: "racks: r1: location: \"row A\"",
	},
	{
		Code: "embedding", Severity: site.SeverityError, Firm: true,
		What:  "Nothing is embedded at the top of a site's package.",
		Why:   "An embedded definition applies to all fields of the site, also to those that it does not know.",
		Wrong: "{racks: r1: location: \"row A\"}",
		Right: "racks: r1: location: \"row A\"",
	},
	{
		Code: "does-not-compile", Severity: site.SeverityError, Firm: true,
		What:  "Every expression has a meaning.",
		Why:   "An expression without a meaning has no value, and neither has what refers to it.",
		Wrong: "nodes: \"n1\": labels: row: rowName",
		Right: "let rowName = \"A\"\n\nnodes: \"n1\": labels: row: rowName",
	},
	{
		Code: "rules-not-checked", Severity: site.SeverityNote, Firm: true,
		What: "All of a design compiles, so that every rule can be checked.",
		Why:  "Parts that do not compile may declare what the rest refers to, which would then be reported as missing.",
	},
}

// values: does every field have a value that the schema allows?
var values = []Rule{
	{
		Code: "unknown-field", Severity: site.SeverityError, Firm: true,
		What:  "Every field is one that the schema has.",
		Why:   "Nothing reads it, so it would have no effect.",
		Wrong: `nodes: "n1": boot: oder: ["Hdd"]`,
		Right: `nodes: "n1": boot: order: ["Hdd"]`,
	},
	{
		Code: "invalid-key", Severity: site.SeverityError, Firm: true,
		What:  "Every entry of a map has a key that the schema allows.",
		Why:   "The key is used as a name, and this name is not allowed.",
		Wrong: `nodes: "n1": tags: "gpu node": true`,
		Right: `nodes: "n1": tags: "gpu-node": true`,
	},
	{
		Code: "closed-definition", Severity: site.SeverityError, Firm: true,
		What:  "A layer over a definition of the repository sets only fields of that definition, unless the definition ends with `...`.",
		Why:   "CUE closes every definition (#Name) and what close() holds: nobody can add a field to them.",
		Wrong: "#Off: power: \"off\"\nnodes: \"n1\": #Off",
		Right: "#Off: {\n\tpower: \"off\"\n\t...\n}\nnodes: \"n1\": #Off",
	},
	{
		Code: "missing-field", Severity: site.SeverityError, Firm: true,
		What:  "Every required field is set: of a node by itself or one of its profiles, of anything else where it is declared.",
		Why:   "Nothing can stand in for it.",
		Wrong: "images: extra: sha256: \"" + someDigest + "\"\nnodes: \"n1\": image: \"extra\"",
		Right: "images: extra: {url: \"https://images.example.org/extra.iso\", sha256: \"" + someDigest + "\"}\nnodes: \"n1\": image: \"extra\"",
	},
	{
		Code: "invalid-value", Severity: site.SeverityError, Firm: true,
		What:  "Every value is one that the schema allows.",
		Why:   "The value does not exist, or Slipway cannot apply it.",
		Wrong: `nodes: "n1": power: "onn"`,
		Right: `nodes: "n1": power: "off"`,
	},
	{
		Code: "conflicting-values", Severity: site.SeverityError, Firm: true,
		What:  "Within one layer a field has one value.",
		Why:   "Within one layer nothing overrides, and both values cannot hold.",
		Wrong: "nodes: \"n1\": power: \"on\"\nnodes: \"n1\": power: \"off\"",
		Right: "profiles: base: power: \"on\"\nnodes: \"n1\": power: \"off\"",
	},
	{
		Code: "incomplete-value", Severity: site.SeverityError, Firm: true,
		What:  "A field is set to a value, not to a type, a range or a choice.",
		Why:   "A design needs a definite value; anything wider leaves it open.",
		Wrong: `racks: r1: location: string`,
		Right: `racks: r1: location: "row A"`,
	},
	{
		Code: "no-value", Severity: site.SeverityError, Firm: true,
		What:  "CUE finds a value that fits all that is said about a field.",
		Why:   "The values that are set for the field contradict each other.",
		Wrong: `#weights: {light: 1, heavy: light & 2}`,
		Right: `#weights: {light: 1, heavy: light + 1}`,
	},
	{
		Code: "undecodable", Severity: site.SeverityError, Firm: true,
		What: "A value that passes the schema can be used.",
		Why:  "Slipway does not apply a design that it does not understand in full. This is a fault of Slipway; report it with the value.",
	},
}

// layers: in which order do profiles override each other?
var layers = []Rule{
	{
		Code: "node-without-profile", Severity: site.SeverityError, Firm: true,
		What:  "Every node has a profile.",
		Why:   "Profiles hold what the nodes of a site have in common; a node without a profile has none of it.",
		Wrong: `nodes: "n5": {role: "compute", rack: "r2", endpoints: manager: url: "redfish+https://10.9.0.15/redfish/v1/Systems/1"}`,
		Right: `nodes: "n5": {profiles: ["base"], role: "compute", rack: "r2", endpoints: manager: url: "redfish+https://10.9.0.15/redfish/v1/Systems/1"}`,
	},
	{
		Code: "unknown-profile", Severity: site.SeverityError, Firm: true,
		What:  "The profiles of a node, and the parents of a profile, are entries in `profiles`.",
		Why:   "What the profile would set is missing, so Slipway does nothing with the nodes that name it.",
		Wrong: `profiles: base: parents: ["hardend"]`,
		Right: "profiles: hardened: boot: order: [\"Hdd\"]\nprofiles: base: parents: [\"hardened\"]",
	},
	{
		Code: "duplicate-profile", Severity: site.SeverityError, Firm: true,
		What:  "A profile is named once in a list.",
		Why:   "A profile has one place in the order.",
		Wrong: "profiles: hardened: boot: order: [\"Hdd\"]\nprofiles: base: parents: [\"hardened\", \"hardened\"]",
		Right: "profiles: hardened: boot: order: [\"Hdd\"]\nprofiles: base: parents: [\"hardened\"]",
	},
	{
		Code: "profile-order", Severity: site.SeverityError, Firm: true,
		What:  "A list of profiles names a profile only after the profiles that it inherits from.",
		Why:   "What comes later wins, so lists must not contradict each other.",
		Wrong: "profiles: hardened: {}\nprofiles: kiosk: parents: [\"hardened\"]\nprofiles: base: parents: [\"kiosk\", \"hardened\"]",
		Right: "profiles: hardened: {}\nprofiles: kiosk: parents: [\"hardened\"]\nprofiles: base: parents: [\"hardened\", \"kiosk\"]",
	},
	{
		Code: "profile-cycle", Severity: site.SeverityError, Firm: true,
		What:  "No profile is its own parent, directly or through other profiles.",
		Why:   "Slipway cannot tell which one is laid over the other.",
		Wrong: "profiles: base: parents: [\"hardened\"]\nprofiles: hardened: parents: [\"base\"]",
		Right: "profiles: base: parents: [\"hardened\"]\nprofiles: hardened: boot: order: [\"Hdd\"]",
	},
	{
		Code: "profiles-in-profile", Severity: site.SeverityError, Firm: true,
		What:  "A profile names the profiles that it inherits under `parents`; `profiles` is a field of nodes.",
		Why:   "In a profile, `profiles` would change nothing.",
		Wrong: "profiles: machine4: profiles: [\"base\"]",
		Right: "profiles: hardened: boot: order: [\"Hdd\"]\nprofiles: base: parents: [\"hardened\"]",
	},
	{
		Code: "unset-outside-layer", Severity: site.SeverityError, Firm: true,
		What:  "Only profiles and nodes remove fields with @unset().",
		Why:   "Only layers are laid over one another; elsewhere there is nothing to remove.",
		Wrong: `racks: r1: location: "row A" @unset()`,
		Right: `nodes: "n1": power: _ @unset()`,
	},
	{
		Code: "unset-with-value", Severity: site.SeverityError, Firm: true,
		What:  "A field that is removed with @unset() has no value.",
		Why:   "Slipway cannot tell which of the two you mean.",
		Wrong: `nodes: "n1": power: "on" @unset()`,
		Right: `nodes: "n1": power: _ @unset()`,
	},
	{
		Code: "unset-nothing", Severity: site.SeverityWarning,
		What:  "A node or a profile removes with @unset() only what a layer below sets; for a profile it is enough if that is so for one of its nodes.",
		Why:   "The line has no effect: the field may have another name, or a layer above may set it.",
		Wrong: `nodes: "n1": window: _ @unset()`,
		Right: `nodes: "n1": power: _ @unset()`,
	},
	{
		Code: "default-over-layer", Severity: site.SeverityWarning,
		What: "A default (`*`) that a node or a profile writes does not override another value of a layer below.",
		Why:  "CUE resolves a default within its own layer, so it overrides every layer below, although it looks weaker.",
		Wrong: `profiles: base: inspect: "daily"
nodes: "n1": inspect: *"never" | "daily"`,
		Right: `profiles: base: inspect: "daily"
nodes: "n1": inspect: "never"`,
	},
	{
		Code: "kind-changed", Severity: site.SeverityError, Firm: true,
		What: "A layer overrides a value only with the same kind of value: a single value, a list, or fields in braces.",
		Why:  "A layer changes a value, but not its kind: what the layers below set would be lost.",
		Wrong: `extensions: vm: item: {...}
profiles: base: extensions: vm: web: disks: {root: "20GiB", data: "1TiB"}
nodes: "n1": extensions: vm: web: disks: "40GiB"`,
		Right: `extensions: vm: item: {...}
profiles: base: extensions: vm: web: disks: {root: "20GiB", data: "1TiB"}
nodes: "n1": extensions: vm: web: disks: root: "40GiB"`,
	},
}

// bounds: can the evaluation finish?
var bounds = []Rule{
	{
		Code: "file-too-large", Severity: site.SeverityError, Firm: true,
		What: "A CUE file, and a data file that the design names, is at most 1 MiB.",
		Why:  "The size of files is limited so that no commit can stop the daemon.",
	},
	{
		Code: "too-large", Severity: site.SeverityError, Firm: true,
		What: "A site's CUE files are at most 20,000 and 32 MiB, their evaluation takes at most 4 GiB of memory, and no section but `nodes` and `profiles` has more than 5,000 entries.",
		Why:  "The size of a design is limited so that no commit can stop the daemon.",
	},
	{
		Code: "too-slow", Severity: site.SeverityError, Firm: true,
		What: "A design is evaluated within a minute.",
		Why:  "Evaluation is limited so that no commit can stop the daemon.",
	},
	{
		Code: "too-deep", Severity: site.SeverityError, Firm: true,
		What: "No file nests fields, brackets or parentheses more than 200 levels deep, and no definition contains itself.",
		Why:  "Evaluation is limited so that no commit can stop the daemon.",
	},
	{
		Code: "too-many-operators", Severity: site.SeverityError, Firm: true,
		What: "No expression has more than 1,000 operators, calls and selectors.",
		Why:  "Evaluation is limited so that no commit can stop the daemon.",
	},
	{
		Code: "more-findings", Severity: site.SeverityError, Firm: true,
		What: "At most 1,000 findings are shown.",
		Why:  "Nobody reads more, and many have one cause: repair those that are shown first.",
	},
	{
		Code: "panic", Severity: site.SeverityError, Firm: true,
		What: "Every rule and every evaluation runs to its end.",
		Why:  "It is a fault of Slipway; a design that cannot be checked in full is not applied. Report it with the design that shows it.",
	},
}
