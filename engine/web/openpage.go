package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
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
		for _, name := range []string{"number", "commit"} {
			if strings.HasSuffix(o.path, "/{"+name+"}") {
				r.SetPathValue(name, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
			}
		}
	}
	return r, err
}

// news are what an open page was told of.
type news struct {
	woken chan struct{} // has a place for one
	last  atomic.Pointer[time.Time]
}

func (n *news) tell() {
	now := time.Now()
	n.last.Store(&now)
	select {
	case n.woken <- struct{}{}:
	default:
	}
}

// wait waits until something has happened or it is time to look anyway, and says since when a report has all of it. Pages
// that wait for the same wait for the same time, and so are made of one report.
func (n *news) wait(ctx context.Context) (since time.Time) {
	anyway := time.Now().Truncate(lookAnyway).Add(lookAnyway)
	select {
	case <-ctx.Done():
		return since
	case <-time.After(time.Until(anyway)):
		return anyway
	case <-n.woken:
	}
	select {
	case <-ctx.Done():
	case <-time.After(gatherFor):
	}
	return *n.last.Load()
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
			case "{number}", "{commit}": // of the last part, see openPage.request
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
