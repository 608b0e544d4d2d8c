package design

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// longestURL limits the length of a URL with its values filled in. One line of
// a profile becomes a separate text in every node.
const longestURL = 2000

var (
	// braced matches braces with their content in a URL, or a single brace. RFC
	// 3986 allows no braces in a URL.
	braced = regexp.MustCompile(`\{[^{}]*\}|[{}]`)
	// word matches text that stays one part of a URL: only characters that RFC
	// 3986, section 2.3, leaves unreserved, and at most as many as a domain
	// name has.
	word = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,253}$`)
)

// urls returns the layer of endpoint URLs that refer to values of the node as
// {PATH}, with these values filled in. It overrides the URLs as written, and is
// nil without any.
func (n *node) urls(found *findings) *tree {
	var l *tree
	endpoints := n.merged.get("endpoints").orEmpty()
	for _, kind := range endpoints.keys() {
		u := endpoints.get(kind, "url")
		if u == nil || u.broken {
			continue
		}
		if text, _ := u.value.(string); strings.ContainsAny(text, "{}") {
			l = l.set([]string{"endpoints", kind, "url"}, n.url(found, "endpoints."+kind+".url", u, text))
		}
	}
	return l
}

// url returns a URL with its references replaced by values. The result is
// broken if a reference has no value.
func (n *node) url(found *findings, path string, u *tree, text string) *tree {
	to, fault := n.resolve(text)
	if fault == nil {
		return &tree{value: to, origin: u.origin}
	}
	if fault.Message != "" && n.complete {
		fault.Code, fault.Path = "endpoint-reference", path
		fault.Why = "Slipway reaches the machine by this URL, and cannot tell from it where the machine is."
		found.of(n.name, u.origin, *fault)
	}
	return &tree{value: u.value, origin: u.origin, broken: true}
}

// resolve replaces the references in a text by values. It returns the first
// fault. The fault has no message if another finding already reports it.
func (n *node) resolve(text string) (string, *site.Finding) {
	var fault *site.Finding
	if len(text) <= longestURL {
		text = braced.ReplaceAllStringFunc(text, func(ref string) string {
			if fault != nil {
				return ref
			}
			var value string
			value, fault = n.refer(ref)
			return value
		})
	}
	if fault == nil && len(text) > longestURL {
		fault = &site.Finding{
			Message: fmt.Sprintf("the URL has more than %d letters", longestURL), Fix: "Write a shorter one.",
		}
	}
	return text, fault
}

// refer returns the value of a reference.
func (n *node) refer(ref string) (string, *site.Finding) {
	path := strings.Trim(ref, "{}")
	if path == "" || ref != "{"+path+"}" {
		return "", &site.Finding{
			Message: fmt.Sprintf("%s in the URL refers to nothing", ref),
			Fix:     "Write {PATH} for a value of the node, such as {addresses.bmc}; braces stand for nothing else in a URL.",
		}
	}
	if path == "name" {
		return n.name, nil
	}
	t := n.merged.at(path)
	switch wish := strings.HasPrefix(path, "addresses."); {
	case t == nil:
		return "", &site.Finding{
			Message: fmt.Sprintf("%s stands for nothing: the node %s has no %s%s", ref, n.name, path, rule.DidYouMean(path, n.paths())),
			Fix:     "Set it in the node or a profile, or write the path of a value that the node has.", Related: places(n.place),
		}
	case t.broken, t.open, wish && t.value == site.AddressAllocate: // other findings report these
		return "", &site.Finding{}
	case wish && t.value == site.AddressDHCP:
		return "", &site.Finding{
			Message: fmt.Sprintf("%s stands for no address: the node %s gets it by DHCP", ref, n.name),
			Fix:     "Give the node an address in this network, or \"allocate\"; or write a host name in the URL.", Related: places(t.origin),
		}
	}
	value, ok := inURL(t.value)
	if !ok {
		return "", &site.Finding{
			Message: fmt.Sprintf("%s of the node %s cannot be part of a URL", ref, n.name),
			Fix:     "Refer to an address, a whole number, or a text of letters, digits, '.', '_', '~' and '-'.", Related: places(t.origin),
		}
	}
	return value, nil
}

// inURL returns a value as it is written in a URL, if possible. An IPv6 address
// gets brackets (RFC 3986, section 3.2.2).
func inURL(value any) (string, bool) {
	switch x := value.(type) {
	case int64:
		return strconv.FormatInt(x, 10), true
	case string:
		if a, err := netip.ParseAddr(x); err == nil && a.Is6() && a.Zone() == "" {
			return "[" + x + "]", true
		}
		return x, word.MatchString(x)
	}
	return "", false
}

// paths lists the paths of the node's values, and other names that can be
// referred to.
func (n *node) paths() []string {
	all := map[string][]string{"name": nil}
	n.merged.leaves(nil, all)
	return slices.Sorted(maps.Keys(all))
}

func places(o site.Origin) []string {
	if o.IsZero() {
		return nil
	}
	return []string{o.String()}
}
