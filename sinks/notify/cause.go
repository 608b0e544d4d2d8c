package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Kind is the kind of a cause for which a person is needed.
type Kind string

// These are the kinds.
const (
	Stalled  Kind = "stalled"  // nodes that need a new commit or a person
	Held     Kind = "held"     // nodes that wait for a person
	Approval Kind = "approval" // destructions that wait for an approval
	Halted   Kind = "halted"   // a rollout that starts no further node
	Problem  Kind = "problem"  // the site as a whole
)

// These are the bounds of messages.
const (
	maxCauses = 50  // of nodes at once; the rest is reported as one per kind
	maxWhat   = 600 // bytes of a sentence
)

// longProblem is how long a problem of the site lasts before people are told, because repositories are sometimes
// away. A broken design is reported sooner: somebody has just pushed it. So are records and terms that cannot be
// written, because they stop the work.
const longProblem = 15 * time.Minute

// cause is one reason why a person is needed, with the affected nodes.
type cause struct {
	kind  Kind
	what  string // in the words of the first node
	do    string
	since time.Time     // of the earliest node
	wait  time.Duration // how long it lasts before it is sent
	nodes []string      // in order; none for the site as a whole
}

// causes are the causes in a report, by key.
func causes(r *site.Report) map[string]cause {
	all := nodeCauses(r)
	add := func(steady string, c cause) {
		c.what = printable(c.what)
		all[key(c.kind, steady)] = c
	}
	if w := r.Status.Waiting; len(w) > 0 {
		add("", approval(w, r.Status.Approve))
	}
	if ro := r.Status.Rollout; ro != nil && ro.Halted != "" && ro.Ended.IsZero() {
		add(ro.Revision.ID, cause{kind: Halted, what: ro.Halted, do: "slipway status", since: ro.Since, nodes: slices.Sorted(maps.Keys(ro.Failed))})
	}
	for _, p := range r.Status.Problems {
		c := cause{kind: Problem, what: p.What, do: "slipway status", since: p.Since}
		switch p.About {
		case "design": // another broken revision is another cause
			add(p.About+steady("", p.What), c)
			continue
		case "records", "term":
		default:
			c.wait = longProblem
		}
		add(p.About, c)
	}
	return all
}

func approval(waiting site.Losses, digest string) cause {
	var nodes []string
	for _, l := range waiting {
		nodes = append(nodes, l.Node)
	}
	slices.Sort(nodes)
	first := waiting[0]
	return cause{kind: Approval, do: "slipway plan, then slipway approve " + digest, nodes: slices.Compact(nodes),
		what: fmt.Sprintf("%s of %s, where %s would be lost", first.Action, first.Node, first.Lost)}
}

// nodeCauses are the causes of nodes. If there are more than maxCauses, the rarest are reported as one per kind.
func nodeCauses(r *site.Report) map[string]cause {
	waiting, halted := map[string]bool{}, ""
	for _, l := range r.Status.Waiting {
		waiting[l.Node] = true
	}
	if r.Status.Rollout != nil {
		halted = r.Status.Rollout.Halted
	}
	all := map[string]cause{}
	for i := range r.Status.Nodes {
		n := &r.Status.Nodes[i]
		kind, needed := needs(n, waiting[n.Name] || halted != "" && strings.Contains(n.Reason, halted))
		if !needed {
			continue
		}
		k := key(kind, steady(n.Name, n.Reason))
		if n.Release != "" { // nodes that ask for different actions have different causes
			k = key(kind, steady(n.Name, n.Reason)+"\x00"+steady(n.Name, n.Release))
		}
		all[k] = all[k].with(n, kind)
	}
	all = fewer(all)
	for _, c := range all {
		slices.Sort(c.nodes)
	}
	return all
}

// needs reports whether a node needs a person, and for what. told says that what holds the node is reported anyway:
// destruction that waits for approval, or a halted rollout.
func needs(n *site.NodeStatus, told bool) (Kind, bool) {
	switch {
	case n.State == site.Stalled:
		return Stalled, true
	case n.Person && !told && n.State != site.Paused:
		return Held, true
	}
	return "", false
}

// with adds a node to a cause. The first node sets its text.
func (c cause) with(n *site.NodeStatus, kind Kind) cause {
	if len(c.nodes) == 0 {
		c = cause{kind: kind, what: printable(n.Reason), do: cmp.Or(printable(n.Release), "slipway why "+n.Name), since: n.Since}
	}
	if n.Since.Before(c.since) {
		c.since = n.Since
	}
	c.nodes = append(c.nodes, n.Name)
	return c
}

// fewer merges the causes with the fewest nodes into one per kind.
func fewer(all map[string]cause) map[string]cause {
	if len(all) <= maxCauses {
		return all
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(len(all[b].nodes)-len(all[a].nodes), strings.Compare(a, b))
	})
	kept := map[string]cause{}
	for i, k := range keys {
		c := all[k]
		if i < maxCauses {
			kept[k] = c
			continue
		}
		rest, ok := kept[key(c.kind, "others")]
		if !ok {
			rest = cause{kind: c.kind, what: "other causes, each of few nodes", do: "slipway status", since: c.since}
		}
		rest.nodes = append(rest.nodes, c.nodes...)
		kept[key(c.kind, "others")] = rest
	}
	return kept
}

// key identifies a cause in accounts and messages.
func key(k Kind, steady string) string {
	sum := sha256.Sum256([]byte(string(k) + "\x00" + steady))
	return hex.EncodeToString(sum[:8])
}

// steady removes from a sentence what differs between nodes or over time although the cause is the same: the node's
// name, addresses, mixed letters and digits such as serial numbers, times and long numbers.
func steady(node, text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`()<>,;=", r) })
	for i, word := range words {
		words[i] = kindOf(node, strings.Trim(word, ".:!?"))
	}
	return strings.Join(words, " ")
}

// kindOf is a word, or a placeholder for its kind.
func kindOf(node, word string) string {
	if node != "" && (word == node || len(node) > 3 && strings.Contains(word, node)) {
		return "NODE"
	}
	if !strings.ContainsAny(word, "0123456789:") {
		return word
	}
	letters, digits := 0, 0
	for _, r := range word {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		}
	}
	switch {
	case isAddress(word):
		return "ADDRESS"
	case digits == 0:
		return word
	case isTime(word):
		return "TIME"
	case letters > 0 && letters+digits > 5, digits > 3:
		return "ID"
	}
	return word
}

func isAddress(word string) bool {
	if strings.Contains(word, "://") || hostPort.MatchString(word) {
		return true
	}
	_, noIP := netip.ParseAddr(strings.Trim(word, "[]"))
	_, noNetwork := netip.ParsePrefix(word)
	_, noMAC := net.ParseMAC(word)
	return noIP == nil || noNetwork == nil || noMAC == nil
}

var (
	hostPort = regexp.MustCompile(`^\S*[a-zA-Z.\]]\S*:\d+(->.*)?$|^\d+(\.\d+){3}:\d+(->.*)?$`)
	clock    = regexp.MustCompile(`^\d[\d:.TZ+-]*[:-]\d[\d:.TZ+-]*$`) // a date, a time of day, or both
)

func isTime(word string) bool {
	_, noDuration := time.ParseDuration(word)
	return noDuration == nil && word != "0" || clock.MatchString(word)
}

// userinfo matches what may precede the host in a URL, which must stay private.
var userinfo = regexp.MustCompile(`://[^/@\s]+@`)

// printable makes foreign text fit to show: one line of bounded length, without the user information of URLs.
func printable(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	return short(userinfo.ReplaceAllString(s, "://"), maxWhat)
}

// short cuts a text to so many bytes. A cut text ends with an ellipsis.
func short(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes-len("…")], "") + "…"
}
