// Package rule holds what a design must satisfy beyond the types of the schema:
// references, and everything that spans several fields or nodes. A rule has one
// code and one entry in docs/rules.md. A check is a pure function and stops no
// other. The site lacks values that already have a finding, but their origins
// are there, see states.
package rule

import (
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Rule is one rule. It has Site, Node or both, or Fleet. A rule without any is
// checked while the design is evaluated, and is listed here for docs/rules.md.
//
// A check returns findings with Path, Message and Fix. The rest is filled in:
// the place from the origin of the path; the code, severity and reason from the
// rule.
type Rule struct {
	// Code names the rule, constant over releases ("unknown-field").
	Code     string
	Severity site.Severity
	// Firm says that the finding cannot be suppressed: the design would have no
	// meaning, or acting on it could lose data.
	Firm bool
	// What is the rule in one sentence, Why the consequence of breaking it.
	What, Why string
	// Wrong and Right are a few lines of CUE each, added to the clean site of
	// the tests (engine/design/testdata/rules/clean). Wrong breaks only this
	// rule, Right breaks none. If a patch cannot show it, the text is an
	// archive of files (-- NAME --). engine/design/rules_test.go checks this.
	Wrong, Right string

	// Site checks everything outside the nodes; it gets a site without nodes.
	Site func(*site.Site) []site.Finding
	// Node checks one node; it gets a site without nodes.
	Node func(*site.Site, *site.Node) []site.Finding
	// Partial says that Site and Node judge only what is there. They also run
	// where a part has no value, so that what is urgent does not wait for it.
	Partial bool
	// Facts lists what Fleet needs to know of a node, and Fleet checks all
	// nodes together. Fleet runs again after every change of a node. So it
	// never visits all nodes, only keys with several holders or parts of the
	// site that are few.
	Facts func(*site.Site, *site.Node) []Fact
	Fleet func(*site.Site, *Index) []site.Finding
	// Whole says that Fleet counts or misses nodes. It is then skipped while
	// too little is known of a node, which has the fact with the key "".
	Whole bool
}

// Area is a part of a design, and the rules about it.
type Area struct {
	Name  string
	Rules []Rule
}

// Areas lists the rules by area; each area's rules have their own file.
func Areas() []Area {
	return []Area{
		{"repository", repositories},
		{"modules", modules},
		{"text", texts},
		{"values", values},
		{"layers", layers},
		{"bounds", bounds},
		{"schema", version},
		{"names", naming},
		{"references", references},
		{"identity", identities},
		{"networks", networks},
		{"ranges", ranges},
		{"routes", routes},
		{"links", links},
		{"bonding", bonds},
		{"interfaces", interfaces},
		{"packet sizes", mtus},
		{"addresses", addresses},
		{"allocations", allocations},
		{"switches", switches},
		{"positions in racks", positions},
		{"endpoints", endpoints},
		{"virtual machines", virtuals},
		{"hypervisors", hypervisors},
		{"images", images},
		{"hardware", hardwares},
		{"firmware settings", bioses},
		{"BMC accounts", bmcAccounts},
		{"derived passwords", derivedPasswords},
		{"artifacts", artifacts},
		{"drivers", drivers},
		{"booting", booting},
		{"starting", starting},
		{"kernel", kernels},
		{"storage", storages},
		{"RAID", raids},
		{"encryption", encryptions},
		{"sizes", spaces},
		{"file systems", mounts},
		{"holds", holds},
		{"incidents", incidents},
		{"roles", roleRules},
		{"health", healthRules},
		{"placement", placements},
		{"selectors", selectorRules},
		{"windows and drift", windowRules},
		{"rollout", rollouts},
		{"discovery", discoveries},
		{"boot actions", actions},
		{"labels", labelRules},
		{"operating system", systems},
		{"accounts", userRules},
		{"SSH certificates", sshRules},
		{"TLS certificates", tlsRules},
		{"access", accessRules},
		{"families", families},
		{"trust", trusting},
		{"secrets", secrets},
		{"unused", unusing},
		{"data", datafiles},
		{"extensions", extensions},
		{"suppressions", suppressing},
		{"what is acted on", acting},
	}
}

// All lists the rules, by area.
func All() []Rule {
	var all []Rule
	for _, a := range Areas() {
		all = append(all, a.Rules...)
	}
	return all
}

// wrong returns a finding about a path.
func wrong(path, message, fix string) site.Finding {
	return site.Finding{Path: path, Message: message, Fix: fix}
}

// states reports whether the design sets a node's value, valid or not.
func states(n *site.Node, path string) bool {
	return n.Origins.Has(path)
}

// lost reports whether the design sets an entry of the map at a path that the
// map lacks.
func lost[V any](origins *site.Origins, path string, in map[string]V) bool {
	for at := range origins.Within(path) {
		if _, ok := in[at[len(path)+1:]]; !ok {
			return true
		}
	}
	return false
}

// keys returns the keys of a map in order.
func keys[K ~string, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	all := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.Sort(all)
	return all
}

// nearest returns the origin of a path or, if it has none, of the first thing
// in it, or in what contains it. It returns the origin of a default only if
// there is no other.
func nearest(origins *site.Origins, path string) (site.Origin, bool) {
	for at := path; at != ""; at = at[:max(0, strings.LastIndexByte(at, '.'))] {
		if o, ok := within(origins, at); ok {
			return o, true
		}
	}
	o := origins.Of(path)
	return o, !o.IsZero()
}

// within returns the origin of a path, or else the first origin within it,
// ignoring defaults. With several files, the first file by name counts.
func within(origins *site.Origins, path string) (first site.Origin, found bool) {
	if o := origins.Of(path); !o.IsZero() && !isDefault(o) {
		return o, true
	}
	for _, o := range origins.Within(path) {
		if !isDefault(o) && (!found || o.Before(first)) {
			first, found = o, true
		}
	}
	return first, found
}

// paths returns the paths of origins.
func paths(origins *site.Origins) []string {
	var all []string
	for path := range origins.All() {
		all = append(all, path)
	}
	return all
}

func isDefault(o site.Origin) bool { return o.LayerName() == "schema" }
