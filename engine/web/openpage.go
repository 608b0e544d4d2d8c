package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// openPage is a page that somebody has open.
type openPage struct {
	view
	site, node, address string
	rights              string // of those who see it, as rightsOf
}

// request is one for the page.
func (o *openPage) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.address, nil)
	if err == nil {
		r.SetPathValue("site", o.site)
		r.SetPathValue("node", o.node)
	}
	return r, err
}

func pageOf(r *http.Request) (*url.URL, error) {
	u, err := url.Parse(r.URL.Query().Get("page"))
	if err != nil || u.Scheme != "" || u.Host != "" || u.RawPath != "" || !strings.HasPrefix(u.Path, "/sites/") || len(u.String()) > 2000 {
		return nil, &answer{status: http.StatusBadRequest, Text: "no page of this site has this address"}
	}
	return u, nil
}

// find is the view of a path, with the names in it.
func find(path string) (v *view, name, node string) {
	parts := strings.Split(path, "/")
	for i := range views {
		pattern := strings.Split(views[i].path, "/")
		if len(pattern) != len(parts) {
			continue
		}
		fits := true
		name, node = "", ""
		for j, p := range pattern {
			switch p {
			case "{site}":
				name = parts[j]
			case "{node}":
				node = parts[j]
			default:
				fits = fits && p == parts[j]
			}
		}
		if fits {
			return &views[i], name, node
		}
	}
	return nil, "", ""
}

// named is the name of a site that is meant by a path: "-" means the only one, as in the API.
func named(name string, sites []string) string {
	if name == "-" && len(sites) == 1 {
		return sites[0]
	}
	return name
}
