package redfish

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// writerKey is where a context has the path of the system that its writes are for.
type writerKey struct{}

// writesFor is a context whose writes are for the system at a path. A write
// without such a context must not go to any system.
func writesFor(ctx context.Context, system string) context.Context {
	return context.WithValue(ctx, writerKey{}, system)
}

// ownOnly refuses a write to a system other than the one that it is for. The
// driver verifies one system and then writes to where that system's answers
// lead. A BMC that mixes up its systems may let them lead to another machine.
func (w *wire) ownOnly(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	own, _ := r.Context().Value(writerKey{}).(string)
	other := otherSystem(own, r.URL.Path)
	switch {
	case other == "":
		return nil
	case own == "":
		return refused("a request to %s of the BMC at %s was not sent: only a step writes to a system", printable(r.URL.Path), w.host)
	}
	other = (&url.URL{Path: other}).EscapedPath()
	return &neighbourError{host: w.host, own: own, target: r.URL.Path, other: other}
}

// otherSystem is the path of the system that a target belongs to, empty when that
// is the own system or none. Systems are the members of the collection that the
// own system is in, and those of the standard one. A target with ".." is judged
// both as it is and resolved: BMCs differ in whether they resolve it.
func otherSystem(own, target string) string {
	own = plainPath(own)
	collections := []string{strings.ToLower(systemsPath)}
	if parent := path.Dir(own); !slices.Contains(noCollections, parent) {
		collections = append(collections, parent)
	}
	for _, t := range []string{target, path.Clean(target)} {
		for _, c := range collections {
			if member := memberOf(c, t); member != "" && strings.ToLower(member) != own {
				return member
			}
		}
	}
	return ""
}

// plainPath is a path of a URL without its query, its escapes, and what else BMCs
// spell in several ways.
func plainPath(p string) string {
	p, _, _ = strings.Cut(p, "?")
	if unescaped, err := url.PathUnescape(p); err == nil {
		p = unescaped
	}
	return strings.ToLower(path.Clean(p))
}

// noCollections are the parents of paths that are in no collection.
var noCollections = []string{".", "/", "/redfish", "/redfish/v1"}

// memberOf is the path of the member of a collection that a target is, or lies
// under; empty for a target elsewhere. A host may come before it: what a BMC makes
// of a link like //HOST/redfish/v1/Systems/2 is its own affair.
func memberOf(collection, target string) string {
	parts := strings.FieldsFunc(target, func(r rune) bool { return r == '/' })
	depth := strings.Count(collection, "/")
	for end := depth; end < len(parts); end++ {
		if strings.EqualFold("/"+strings.Join(parts[end-depth:end], "/"), collection) {
			return "/" + strings.Join(parts[:end+1], "/")
		}
	}
	return ""
}

// neighbourError is a write that was not sent because it would have gone to
// another system of the same BMC.
type neighbourError struct{ host, own, target, other string }

func (e *neighbourError) Error() string {
	return fmt.Sprintf("%v: the BMC's answer for %s links to %s, which belongs to another system of the BMC at %s; "+
		"a write there would change that machine, and was not sent; if both paths are one machine, "+
		"end the endpoint's URL with %s; if not, the BMC mixes up its systems: restart it or update its firmware",
		driver.ErrRefused, printable(e.own), printable(e.target), e.host, printable(e.other))
}

func (e *neighbourError) Unwrap() error { return driver.ErrRefused }
