package redfish

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tap measures the requests of a handle, and lets none through that would
// write: not by a mistake in what is asked, and not by one in how it is.
type tap struct {
	next     http.RoundTripper
	client   *client
	took     map[string][]time.Duration // by what was asked for
	requests int
	bytes    int64
	tags     map[string]int // answers by the form of their ETag
}

// tapped puts a tap before a handle's wire, until it is taken off.
func (m *machine) tapped() (t *tap, off func()) {
	t = &tap{next: m.client.http.Transport, client: m.client.client, took: map[string][]time.Duration{}, tags: map[string]int{}}
	m.client.http.Transport = t
	return t, func() { m.client.http.Transport = t.next }
}

func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	login := r.Method == http.MethodPost && r.URL.Path == t.client.sessions
	if r.Method != http.MethodGet && !login {
		return nil, refused("%s %s: Slipway writes nothing while it only looks at a BMC", r.Method, r.URL.Path)
	}
	began := time.Now()
	resp, err := t.next.RoundTrip(r)
	took := time.Since(began)
	t.requests++
	if err != nil {
		t.took["refused"] = append(t.took["refused"], took)
		return nil, err
	}
	body, err := io.ReadAll(resp.Body) // is in memory
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	t.bytes += int64(len(body))
	kind := "login"
	if !login {
		kind = resourceKind(body)
		t.tags[tagForm(resp.Header.Get("ETag"))]++
	}
	t.took[kind] = append(t.took[kind], took)
	return resp, nil
}

// CloseIdleConnections lets http.Client close them through the tap.
func (t *tap) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// resourceKind is the kind of a resource, from a type like
// "#ComputerSystem.v1_5_0.ComputerSystem" (DSP0266 section 9.6).
func resourceKind(body []byte) string {
	var o object
	json.Unmarshal(body, &o) // what is no object has no type
	name, _, _ := strings.Cut(strings.TrimPrefix(at[string](o, "@odata.type"), "#"), ".")
	if strings.HasSuffix(name, "Collection") {
		return "collection"
	}
	return cmp.Or(printable(name), "other")
}

// tagForm is how an ETag is written.
func tagForm(tag string) string {
	switch {
	case tag == "" || tag == `""`:
		return "none"
	case strings.HasPrefix(tag, "W/"):
		return "weak"
	}
	return "strong"
}

// latency is how long everything took, what was asked for most often first.
func (t *tap) latency() []driver.Latency {
	all := []driver.Latency{}
	for kind, took := range t.took {
		slices.Sort(took)
		all = append(all, driver.Latency{
			Kind: kind, Requests: len(took), Median: site.Duration(took[(len(took)-1)/2]), Worst: site.Duration(took[len(took)-1]),
		})
	}
	slices.SortFunc(all, func(a, b driver.Latency) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Kind, b.Kind))
	})
	return all
}
