package author

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// CUE writes the takeover. An item that all nodes of a profile share goes into that
// profile; if there are several, into the one with the most nodes. For single values
// that differ, the profile gets the most frequent one. Other items stay in their nodes.
// A profile with a node that was not looked into gets none.
func (t Takeover) CUE() Draft {
	d := Draft{Taken: map[string]int{}}
	lines, shared := map[string][]line{}, newNetwork(t)
	for _, name := range slices.Sorted(maps.Keys(t.Found)) {
		lines[name] = t.linesOf(name, shared, &d)
		for _, l := range lines[name] {
			d.lines = append(d.lines, draftLine{name, l.facet, l.key, strings.Join(l.path, ".")})
		}
	}
	top := shared.fields()
	for _, p := range t.layers(lines) {
		for _, l := range p.lines {
			put(top, append([]string{"profiles", p.name}, l.path...), l.value)
		}
	}
	for name, own := range lines {
		for _, l := range own {
			put(top, append([]string{"nodes", name}, l.path...), l.value)
		}
	}
	if len(d.lines) > 0 {
		d.Text = t.file(top, d.Left)
	}
	return d
}

// file returns the text of the design's file.
func (t Takeover) file(top branch, left []NotTaken) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// What people had set inside the systems when the design took them over. Move the\n// lines to where they belong.\n")
	if len(left) > 0 {
		b.WriteString("//\n// Not taken over:\n")
	}
	for _, l := range left {
		fmt.Fprintf(&b, "//\t%s: %s: %s\n", l.Node, site.Printable(l.What), site.Printable(l.Why))
	}
	fmt.Fprintf(&b, "package %s\n\n", t.Package)
	writeFields(&b, top, true)
	return inFormat(b.Bytes())
}

// Leave omits an item from now on.
func (t Takeover) Leave(r Ref, why string) {
	if t.Drop[r.Node] == nil {
		t.Drop[r.Node] = map[site.Facet]map[string]string{}
	}
	if t.Drop[r.Node][r.Facet] == nil {
		t.Drop[r.Node][r.Facet] = map[string]string{}
	}
	if _, known := t.Drop[r.Node][r.Facet][r.Key]; !known {
		t.Drop[r.Node][r.Facet][r.Key] = why
	}
}

// linesOf returns the items of a node as lines of its design.
func (t Takeover) linesOf(name string, shared *network, d *Draft) (lines []line) {
	n := t.Site.Nodes[name]
	leave := func(what, why string) { d.Left = append(d.Left, NotTaken{name, item.Left{What: what, Why: why}}) }
	for _, f := range site.InsideFacets {
		for _, l := range t.Found[name][f].Left {
			leave(l.What, l.Why)
		}
		if f == site.FacetNetwork {
			own, why := shared.add(n, t.Found[name][f].Items, t.Drop[name][f][NetworkKey])
			lines = append(lines, own...)
			if why != "" {
				leave(NetworkKey, why)
			}
			continue
		}
		designed := designedKeys(n, f)
		for _, i := range t.Found[name][f].Items {
			if designed[i.Key] {
				continue
			}
			if why := t.Drop[name][f][i.Key]; why != "" {
				leave(i.Key, why)
				continue
			}
			path, value, why := t.lineOf(name, i)
			if why == "" && hides(value) {
				why = "it has invisible or control characters"
			}
			if why != "" {
				leave(i.Key, why)
				continue
			}
			lines = append(lines, line{f, i.Key, path, value})
		}
	}
	d.Taken[name] = len(lines)
	slices.SortStableFunc(d.Left, func(a, b NotTaken) int { return strings.Compare(a.Node, b.Node) })
	return lines
}

var designHost = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// hides reports whether a text in a value has invisible characters.
func hides(value any) bool {
	switch v := value.(type) {
	case string:
		return site.PrintableLines(v) != v
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return hides(s) })
	case branch:
		for name, inner := range v {
			if hides(name) || hides(inner) {
				return true
			}
		}
	}
	return false
}

// designedKeys returns the items that the design of a node asks for, in a system of any
// family.
func designedKeys(n *site.Node, f site.Facet) map[string]bool {
	keys := map[string]bool{}
	for _, family := range append(slices.Collect(maps.Keys(n.Families)), n.References.Family) {
		for _, i := range n.ItemsIn(f, family) {
			keys[i.Key] = true
		}
	}
	return keys
}

// lineOf returns the path and value of an item in a node's design, or says why it has
// none.
func (t Takeover) lineOf(node string, i item.Item) (path []string, value any, why string) {
	id := item.ID(i.Key)
	switch kind := item.Kind(i.Key); kind {
	case item.KindHostname:
		return hostnameLine(node, i)
	case item.KindTime:
		return timeLine(i)
	case item.KindUsers:
		return userLine(id, i)
	case item.KindPackages:
		return packageLine(id, i, t.Pin)
	case item.KindSysctl:
		return []string{"system", "sysctl", id}, plainValue(i.Fields[""]), ""
	case item.KindModules:
		return moduleLine(id, i)
	case item.KindUnits:
		return unitLine(id, i)
	case item.KindParameters:
		return []string{"kernel", "parameters", id}, plainValue(i.Fields[""]), ""
	default:
		return nil, nil, fmt.Sprintf("Slipway takes over nothing of the kind %q", kind)
	}
}

// hostnameLine writes the node's name in a host name as {name}, so that a profile can
// have it.
func hostnameLine(node string, i item.Item) (path []string, value any, why string) {
	name := i.Fields[""]
	if !designHost.MatchString(name) {
		return nil, nil, fmt.Sprintf("%q is not a host name of lower-case letters, digits, dots and hyphens", name)
	}
	if rest, ok := strings.CutPrefix(name, node); ok && (rest == "" || rest[0] == '.') {
		name = "{name}" + rest
	}
	return []string{"system", "hostname"}, name, ""
}

func timeLine(i item.Item) (path []string, value any, why string) {
	var b item.Time
	if why := bodyOf(i, &b); why != "" {
		b = item.Time{Zone: i.Fields["zone"]}
	}
	clock := branch{}
	clock.set("zone", b.Zone)
	clock.list("servers", b.Servers)
	return []string{"system", "time"}, clock, ""
}

func userLine(id string, i item.Item) (path []string, value any, why string) {
	var u item.User
	if why := bodyOf(i, &u); why != "" {
		return nil, nil, why
	}
	user := branch{}
	if u.UID != nil {
		user["uid"] = *u.UID
	}
	user.list("groups", u.Groups)
	user.set("shell", u.Shell)
	user.list("keys", u.Keys)
	if u.Sudo {
		user["sudo"] = true
	}
	return []string{"system", "users", id}, user, ""
}

// packageLine has the version only where it is pinned or held, since a hold applies to a
// version.
func packageLine(id string, i item.Item, pin bool) (path []string, value any, why string) {
	pkg := branch{}
	isHeld := i.Fields["state"] == item.Held
	if pin || isHeld {
		pkg.set("version", i.Fields["version"])
	}
	if isHeld {
		pkg["state"] = item.Held
	}
	return []string{"system", "packages", id}, pkg, ""
}

func moduleLine(id string, i item.Item) (path []string, value any, why string) {
	module, parameters := branch{}, branch{}
	for _, p := range strings.Split(i.Fields["parameters"], ", ") {
		name, v, ok := strings.Cut(p, "=")
		if p != "" && !ok {
			return nil, nil, fmt.Sprintf("its parameter %q has no value", p)
		}
		if p != "" {
			parameters[name] = v
		}
	}
	if len(parameters) > 0 {
		module["parameters"] = parameters
	}
	return []string{"system", "modules", id}, module, ""
}

func unitLine(id string, i item.Item) (path []string, value any, why string) {
	var u item.Unit
	if len(i.Body) > 0 {
		if why := bodyOf(i, &u); why != "" {
			return nil, nil, why
		}
	}
	unit := branch{}
	if u.Content != nil {
		unit["content"] = *u.Content
	}
	switch i.Fields["enabled"] {
	case "true", "false":
		unit["enabled"] = i.Fields["enabled"] == "true"
	}
	unit.set("state", i.Fields["state"])
	if len(unit) == 0 {
		return nil, nil, "there is nothing to say of it"
	}
	return []string{"system", "units", id}, unit, ""
}

// bodyOf decodes what is needed to write an item, or says why it cannot.
func bodyOf(i item.Item, into any) (why string) {
	if len(i.Body) == 0 {
		return "the machine did not report all of it"
	}
	if err := json.Unmarshal(i.Body, into); err != nil {
		return "what the machine reported about it cannot be read"
	}
	return ""
}

// plainValue returns a setting as a design has it: a number where it gives the same
// text.
func plainValue(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	return text
}

// takenLayer is a profile with the lines that all its nodes share.
type takenLayer struct {
	name  string
	lines []line
}

// layers moves what all nodes of a profile share out of the nodes' lines.
func (t Takeover) layers(lines map[string][]line) (all []takenLayer) {
	members := map[string][]string{}
	for name, n := range t.Site.Nodes {
		for _, p := range n.Profiles {
			members[p] = append(members[p], name)
		}
	}
	profiles := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		if d := len(members[b]) - len(members[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, p := range profiles {
		of := members[p]
		if len(of) < 2 || slices.ContainsFunc(of, func(n string) bool { _, looked := t.Found[n]; return !looked }) {
			continue
		}
		l := takenLayer{name: p}
		for _, candidate := range slices.Clone(lines[of[0]]) {
			usual, ok := usualLine(lines, of, candidate)
			if !ok {
				continue
			}
			l.lines = append(l.lines, usual)
			for _, n := range of {
				lines[n] = slices.DeleteFunc(lines[n], func(o line) bool { return sameLine(o, usual) })
			}
		}
		if len(l.lines) > 0 {
			all = append(all, l)
		}
	}
	return all
}

// usualLine returns what nodes share at a place: the same value in all, or else the most
// frequent of single values. The other nodes override it.
func usualLine(lines map[string][]line, of []string, at line) (usual line, ok bool) {
	count, most := map[string]int{}, 0
	for _, n := range of {
		i := slices.IndexFunc(lines[n], func(o line) bool { return slices.Equal(o.path, at.path) })
		if i < 0 {
			return line{}, false
		}
		l := lines[n][i]
		if value := inJSON(l.value); count[value]+1 > most {
			usual, most = l, count[value]+1
		}
		count[inJSON(l.value)]++
	}
	_, isBranch := at.value.(branch)
	return usual, most == len(of) || most > 1 && !isBranch
}

func sameLine(a, b line) bool {
	return slices.Equal(a.path, b.path) && inJSON(a.value) == inJSON(b.value)
}
