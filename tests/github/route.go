package github

import (
	"net/http"
	"net/url"
	"strings"
)

// route is an operation of GitHub's API, under the path that GitHub's
// description has it under, and what it takes to use it.
type route struct {
	method, path string
	handle       func(*call) answer
	as           as
	needs        []string // permissions of an App or a fine-grained token; one is enough
	role         Role     // of a user, at least
	denied       string   // what is said to a user of a lower role; empty for "Not Found"
	appOnly      bool
	free         bool // of the primary limit
}

// as is as whom a route is used.
type as int

const (
	anyone         as = iota
	onRepo            // whoever has rights on the repository of the path
	appItself         // an App, by JWT
	anInstallation    // an installation, by its token
	somebody          // a user
)

func (r *route) writes() bool { return r.method != http.MethodGet }

// match finds the route of a path, and its parameters.
func match(method, path string) (*route, map[string]string) {
	parts := strings.Split(path, "/")
	for i := range routes {
		r := &routes[i]
		if params, ok := r.fits(parts); ok && r.method == method {
			return r, params
		}
	}
	return nil, nil
}

func (r *route) fits(parts []string) (map[string]string, bool) {
	want := strings.Split(r.path, "/")
	if len(want) != len(parts) {
		return nil, false
	}
	params := map[string]string{}
	for i, w := range want {
		v, err := url.PathUnescape(parts[i])
		if err != nil {
			return nil, false
		}
		name, isParam := strings.CutPrefix(w, "{")
		if !isParam && v != w {
			return nil, false
		}
		if isParam {
			params[strings.TrimSuffix(name, "}")] = v
		}
	}
	return params, true
}
