// Package author writes CUE designs of existing machines and systems: the site
// of a discovered fleet, and the accounts, packages, files and networks of
// installed systems.
package author

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/format"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Adoption holds what is needed to write a site for discovered machines as they
// are.
type Adoption struct {
	// Package is the site's name.
	Package string
	// Ranges are those in which the machines were discovered; they become
	// networks.
	Ranges []netip.Prefix
	// Met are the discovered machines, each inspected.
	Met []site.Met
	// Silent are facets that the design of a node leaves out, by node.
	Silent map[string][]site.Facet
}

// The names that an adopted site gives.
const (
	adoptedRole    = "machine"
	adoptedRack    = "unplaced"
	adoptedProfile = "adopted"
	adoptedNetwork = "bmc"
)

// CUE writes the networks, profiles and nodes of the site as files of its
// package, by name. Values that machines share are in a profile of their model,
// and values that all machines share in a profile below.
func (a Adoption) CUE() map[string][]byte {
	networks := a.networks()
	groups := a.groups(networks)
	return map[string][]byte{
		"networks.cue": a.file("The networks in which the management controllers were found.", networksCUE(networks)),
		"profiles.cue": a.file("What machines have in common, by model, as it was seen of them.", profilesCUE(groups)),
		"machines.cue": a.file("The machines, as they were found. Rename them as you like: a name is bound to its\n// machine by identity.", nodesCUE(groups)),
	}
}

// Names returns the names of the nodes, in the order of Met.
func (a Adoption) Names() []string {
	names, taken := make([]string, len(a.Met)), map[string]bool{}
	for i, m := range a.Met {
		names[i] = spare(nodeName(m), taken)
	}
	return names
}

// Declaration returns a node's declaration of a discovered machine, for people
// to complete. It has all that is known of the machine, and its parts as
// comments.
func Declaration(m site.Met) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "nodes: %s: {\n", quote(nodeName(m)))
	for _, line := range inventoryLines(m.Observed.Inventory) {
		fmt.Fprintf(&b, "// %s\n", line)
	}
	fmt.Fprintf(&b, "profiles: [] // and its role and rack, here or in a profile\n")
	leaves := append(ownLeaves(m), append(seenLeaves(m, nil), leaf{"endpoints.manager.url", m.Endpoint.URL})...)
	writeLeaves(&b, leaves)
	b.WriteString("}\n")
	return string(inFormat(b.Bytes()))
}

func (a Adoption) file(about string, body []byte) []byte {
	return inFormat(fmt.Appendf(nil, "package %s\n\n// %s\n%s", a.Package, about, body))
}

// inFormat formats a text that this package wrote.
func inFormat(text []byte) []byte {
	text, err := format.Source(text)
	if err != nil {
		panic(err) // all texts are quoted
	}
	return text
}

// leaf is one value of a layer, by its path.
type leaf struct {
	path  string
	value any // string, int or []string
}

// adoptee is one machine that is being written into the site.
type adoptee struct {
	name string
	// own is unique to the machine; others may share seen.
	own, seen []leaf
}

// adoptees are machines of one model.
type adoptees struct {
	profile string
	common  []leaf
	members []adoptee
}

// groups sorts the machines by model and moves shared values into the groups.
// The first group is the profile below all others and has no members.
func (a Adoption) groups(networks []adoptedNet) []adoptees {
	byModel := map[string][]adoptee{}
	names := a.Names()
	for i, m := range a.Met {
		model := modelName(m.Observed.Inventory)
		byModel[model] = append(byModel[model], a.adopt(names[i], m, networks))
	}
	groups := []adoptees{{profile: adoptedProfile}}
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		g := adoptees{profile: model, members: byModel[model]}
		g.common = usualLeaves(g.members)
		for i := range g.members {
			g.members[i].seen = without(g.members[i].seen, g.common)
		}
		groups = append(groups, g)
	}
	if len(groups) > 1 {
		groups[0].common = slices.Clone(groups[1].common)
		for _, g := range groups[2:] {
			groups[0].common = slices.DeleteFunc(groups[0].common, func(l leaf) bool { return !has(g.common, l) })
		}
		for i := range groups[1:] {
			groups[1+i].common = without(groups[1+i].common, groups[0].common)
		}
	}
	return groups
}

// usualLeaves returns the values that machines share: for each place where all
// have a value, the most frequent one. The others override it.
func usualLeaves(members []adoptee) []leaf {
	var usual []leaf
	for _, l := range members[0].seen {
		best, most := l, 0
		for _, m := range members {
			x, ok := leafAt(m.seen, l.path)
			if !ok {
				most = 0
				break
			}
			if n := holders(members, x); n > most {
				best, most = x, n
			}
		}
		if most > 0 {
			usual = append(usual, best)
		}
	}
	return usual
}

func leafAt(leaves []leaf, path string) (leaf, bool) {
	i := slices.IndexFunc(leaves, func(l leaf) bool { return l.path == path })
	if i < 0 {
		return leaf{}, false
	}
	return leaves[i], true
}

// holders counts the machines that have a value.
func holders(members []adoptee, l leaf) (n int) {
	for _, m := range members {
		if has(m.seen, l) {
			n++
		}
	}
	return n
}

func has(leaves []leaf, l leaf) bool {
	return slices.ContainsFunc(leaves, func(o leaf) bool { return reflect.DeepEqual(o, l) })
}

func without(leaves, those []leaf) []leaf {
	return slices.DeleteFunc(slices.Clone(leaves), func(l leaf) bool { return has(those, l) })
}

// adopt returns the design of a machine exactly as it was seen.
func (a Adoption) adopt(name string, m site.Met, networks []adoptedNet) adoptee {
	x := adoptee{name: name, own: ownLeaves(m), seen: seenLeaves(m, a.Silent[name])}
	if ca := m.Endpoint.Trust.CA; ca != "" {
		x.seen = append(x.seen, leaf{"endpoints.manager.trust.ca", strings.TrimSpace(ca)})
	}
	if a.behind(m.Address) > 1 { // only one node can have the address
		x.own = append(x.own, leaf{"endpoints.manager.url", m.Endpoint.URL})
		return x
	}
	network := networkOf(networks, m.Address)
	x.own = append(x.own, leaf{"addresses." + network, m.Address})
	if u, err := url.Parse(m.Endpoint.URL); err == nil {
		at := u.Scheme + "://{addresses." + network + "}"
		if u.Port() != "" {
			at += ":" + u.Port()
		}
		x.seen = append(x.seen, leaf{"endpoints.manager.url", at + u.EscapedPath()})
	}
	return x
}

// behind counts the machines behind one controller.
func (a Adoption) behind(address string) (n int) {
	for _, m := range a.Met {
		if m.Address == address {
			n++
		}
	}
	return n
}

// ownLeaves returns the values that only this machine has.
func ownLeaves(m site.Met) []leaf {
	id := sayable(m.Observed.Identity.Own())
	leaves := []leaf{{"identity.uuid", id.UUID}, {"identity.serial", id.Serial}, {"identity.slot", id.Slot}, {"identity.mac", id.MAC}, {"endpoints.manager.trust.fingerprint", m.Endpoint.Trust.Fingerprint}}
	return slices.DeleteFunc(leaves, func(l leaf) bool { return l.value == "" })
}

// The formats that schema/layer.cue requires of an identity.
var (
	uuidForm   = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	serialForm = regexp.MustCompile(`^[!-~]+$`)
)

// sayable returns the part of an identity that a design can express.
func sayable(i site.Identity) site.Identity {
	if !uuidForm.MatchString(i.UUID) {
		i.UUID = ""
	}
	if !serialForm.MatchString(i.Serial) {
		i.Serial = ""
	}
	if !serialForm.MatchString(i.Slot) {
		i.Slot = ""
	}
	return i
}

// seenLeaves returns what was seen of the machine, except silent facets and
// values that a design cannot express. It omits the power of a machine that is
// off, so that Slipway does not manage it.
func seenLeaves(m site.Met, silent []site.Facet) []leaf {
	var leaves []leaf
	say := func(path string, value any, is bool) {
		if is {
			leaves = append(leaves, leaf{path, value})
		}
	}
	if c := m.Endpoint.Credential; c != "bmc" {
		say("endpoints.manager.credential", c, c != "")
	}
	if i := m.Observed.Inventory; i != nil {
		say("hardware.manufacturer", i.Manufacturer, i.Manufacturer != "")
		say("hardware.model", i.Model, i.Model != "")
		say("hardware.memory", strconv.Itoa(int(i.MemoryGiB))+"GiB", i.MemoryGiB >= 1)
		say("hardware.sockets", i.Processors, i.Processors > 0)
		arch := architecture(i)
		say("hardware.architecture", arch, arch != "")
	}
	power := m.Observed.Facets[site.FacetPower]
	say("power", "on", power.Have["state"] == "on" && power.Pending["state"] == "" && !slices.Contains(silent, site.FacetPower))
	order := bootTargets(m.Observed.Facets[site.FacetBoot].Have["order"])
	say("boot.order", order, len(order) > 0 && !slices.Contains(silent, site.FacetBoot))
	return leaves
}

func architecture(i *site.Inventory) string {
	for _, p := range i.CPUs {
		if p.Architecture == "amd64" || p.Architecture == "arm64" {
			return p.Architecture
		}
	}
	return ""
}

// bootTargets returns the sources of a boot order that a design can name, up to
// the first that it cannot. For an order that begins with the network it
// returns none: nobody knows whether a server answers there, and such a design
// would have to name the server.
func bootTargets(order string) []string {
	var targets []string
	for _, t := range strings.Split(order, ",") {
		if !slices.Contains([]string{"Hdd", "Pxe", "Cd", "UefiHttp", "Usb"}, t) || slices.Contains(targets, t) {
			break
		}
		targets = append(targets, t)
	}
	if len(targets) > 0 && (targets[0] == "Pxe" || targets[0] == "UefiHttp") {
		return nil
	}
	return targets
}

// adoptedNet is a network of management controllers.
type adoptedNet struct {
	name string
	cidr netip.Prefix
}

// networks turns the ranges into networks in which the machines' addresses are
// host addresses. A range that begins or ends with such an address becomes part
// of a larger network.
func (a Adoption) networks() []adoptedNet {
	var cidrs []netip.Prefix
	for _, r := range a.Ranges {
		cidrs = append(cidrs, a.widened(r.Masked()))
	}
	slices.SortFunc(cidrs, func(x, y netip.Prefix) int { return cmp.Or(x.Bits()-y.Bits(), x.Addr().Compare(y.Addr())) })
	var all []adoptedNet
	for _, c := range cidrs {
		covered := slices.ContainsFunc(all, func(n adoptedNet) bool { return n.cidr.Overlaps(c) })
		empty := !slices.ContainsFunc(a.Met, func(m site.Met) bool { return c.Contains(addressOf(m)) })
		if covered || empty {
			continue
		}
		n := adoptedNet{adoptedNetwork, c}
		if len(all) > 0 {
			n.name += "-" + strconv.Itoa(len(all)+1)
		}
		all = append(all, n)
	}
	return all
}

func (a Adoption) widened(r netip.Prefix) netip.Prefix {
	for r.Bits() > 1 && slices.ContainsFunc(a.Met, func(m site.Met) bool { return slices.Contains(site.Unusable(r), addressOf(m)) }) {
		r = netip.PrefixFrom(r.Addr(), r.Bits()-1).Masked()
	}
	return r
}

func addressOf(m site.Met) netip.Addr {
	a, err := netip.ParseAddr(m.Address)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

func networkOf(networks []adoptedNet, address string) string {
	a := addressOf(site.Met{Address: address})
	for _, n := range networks {
		if n.cidr.Contains(a) {
			return n.name
		}
	}
	return adoptedNetwork
}

func networksCUE(networks []adoptedNet) []byte {
	var b bytes.Buffer
	for _, n := range networks {
		fmt.Fprintf(&b, "networks: %s: {\ndescription: \"management controllers\"\ncidr: %s\n}\n", label(n.name), quote(n.cidr.String()))
	}
	return b.Bytes()
}

func profilesCUE(groups []adoptees) []byte {
	var b bytes.Buffer
	for i, g := range groups {
		fmt.Fprintf(&b, "profiles: %s: {\n", label(g.profile))
		if i == 0 {
			fmt.Fprintf(&b, "role: %s\nrack: %s\n", quote(adoptedRole), quote(adoptedRack))
		} else {
			fmt.Fprintf(&b, "parents: [%s]\n", quote(adoptedProfile))
		}
		writeLeaves(&b, g.common)
		b.WriteString("}\n\n")
	}
	return b.Bytes()
}

func nodesCUE(groups []adoptees) []byte {
	var b bytes.Buffer
	for _, g := range groups {
		for _, m := range g.members {
			fmt.Fprintf(&b, "nodes: %s: {\nprofiles: [%s]\n", quote(m.name), quote(g.profile))
			writeLeaves(&b, append(slices.Clone(m.own), m.seen...))
			b.WriteString("}\n\n")
		}
	}
	return b.Bytes()
}

// writeLeaves writes values as fields, and groups those of the same struct.
func writeLeaves(b *bytes.Buffer, leaves []leaf) {
	slices.SortStableFunc(leaves, func(x, y leaf) int { return strings.Compare(x.path, y.path) })
	for len(leaves) > 0 {
		head, _, deep := strings.Cut(leaves[0].path, ".")
		n := slices.IndexFunc(leaves, func(l leaf) bool { return l.path != head && !strings.HasPrefix(l.path, head+".") })
		if n < 0 {
			n = len(leaves)
		}
		fmt.Fprintf(b, "%s: ", label(head))
		switch inner := inside(leaves[:n], head); {
		case !deep:
			b.WriteString(cueValue(leaves[0].value) + "\n")
		case oneHead(inner):
			writeLeaves(b, inner) // on the same line
		default:
			b.WriteString("{\n")
			writeLeaves(b, inner)
			b.WriteString("}\n")
		}
		leaves = leaves[n:]
	}
}

func inside(leaves []leaf, head string) []leaf {
	inner := make([]leaf, len(leaves))
	for i, l := range leaves {
		inner[i] = leaf{strings.TrimPrefix(l.path, head+"."), l.value}
	}
	return inner
}

func oneHead(leaves []leaf) bool {
	first, _, _ := strings.Cut(leaves[0].path, ".")
	last, _, _ := strings.Cut(leaves[len(leaves)-1].path, ".")
	return first == last
}
