package redfish

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/slipway-gitops/slipway/engine/site"
)

// glance is what the system showed when it was looked at last. It is shown
// again as long as the resource is as it was: by its ETag (RFC 9110 section
// 13.1.2, DSP0266 section 6.5), or by its body where that says nothing. The body
// itself is not kept: thousands of machines are looked at.
//
// Only looks go by it, and none after a write. What writes, or proves a write,
// reads all there is.
type glance struct {
	asked  question
	writes int64 // to the BMC, before the system was read
	tag    string
	sum    uint64 // of the body
	spared int    // how often in a row the body was not sent
	seen   site.Observed
}

// question is all that what is seen depends on beside the machine.
type question struct {
	machine            site.Identity
	power, order, mode string
	facets             string
}

// shownBySystem are the facets that the system itself shows.
var shownBySystem = []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth, site.FacetInventory}

// mostSpared is how many looks in a row go by an ETag. The next one reads the
// body and shows whether the ETag was right: one that stays when the machine
// does not misleads for so many looks once, and then no more.
const mostSpared = 9

var sumSeed = maphash.MakeSeed()

// glance looks at what the system itself shows.
func (m *machine) glance(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	if err := m.client.enter(ctx); err != nil { // logging in is a write too
		return site.Observed{}, err
	}
	now := glance{asked: questionOf(n, facets), writes: m.client.wire.writes.Load()}
	last := m.last
	if last.asked != now.asked || last.writes != now.writes {
		last = glance{}
	}
	resp, err := m.getUnless(ctx, m.path, last.condition())
	if err != nil {
		return site.Observed{}, m.missed(err)
	}
	if resp.StatusCode == http.StatusNotModified {
		m.last.spared++
		return last.again(), nil
	}
	body, err := io.ReadAll(resp.Body) // is in memory
	if err != nil {
		return site.Observed{}, err
	}
	now.tag, now.sum = resp.Header.Get("ETag"), maphash.Bytes(sumSeed, body)
	if last.sum == now.sum && last.seen.Facets != nil {
		now.seen = last.seen
		m.keep(now)
		return now.again(), nil
	}
	if last.tag != "" && last.tag == now.tag {
		m.distrustTags()
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	o, err := decode(m.path, resp)
	if err != nil {
		return site.Observed{}, err
	}
	m.learn(system{o})
	seen, whole, err := m.shows(ctx, system{o}, n, facets)
	m.last = glance{}
	if now.seen = seen; err == nil && whole {
		m.keep(now)
	}
	return now.again(), err
}

func questionOf(n *site.Node, facets []site.Facet) question {
	q := question{machine: n.Machine(), power: n.Power, order: strings.Join(n.Boot.Order, ","), mode: n.Boot.Mode}
	for _, f := range facets {
		q.facets += string(f) + " "
	}
	return q
}

// keep keeps what was seen, without an ETag that tells nothing.
func (m *machine) keep(g glance) {
	if g.tag == `""` || g.tag != "" && (m.tagsStay || m.has(stayingETags)) {
		g.tag = ""
	}
	m.last = g
}

// condition is the ETag that the system must still have for its body not to be
// sent, empty when it is to be sent.
func (g glance) condition() string {
	if g.spared >= mostSpared {
		return ""
	}
	return g.tag
}

// again is what was seen, as it is seen now.
func (g glance) again() site.Observed {
	seen := g.seen
	if seen.Inventory != nil {
		inventory := *seen.Inventory
		seen.Inventory = &inventory
	}
	seen.Facets = maps.Clone(seen.Facets)
	for f, state := range seen.Facets {
		state.Have, state.Pending = maps.Clone(state.Have), maps.Clone(state.Pending)
		state.Seen = time.Now()
		seen.Facets[f] = state
	}
	return seen
}

// getUnless reads a resource, unless it still has the ETag. A BMC that takes
// offence at the question is not asked so again.
func (m *machine) getUnless(ctx context.Context, path, tag string) (*http.Response, error) {
	if err := m.client.here(path); err != nil {
		return nil, err
	}
	headers := map[string]string{}
	if tag != "" {
		headers["If-None-Match"] = tag
	}
	resp, err := m.client.do(ctx, func(api *gofish.APIClient) (*http.Response, error) {
		resp, err := api.GetWithHeaders(path, headers)
		if tag != "" && errors.Is(err, schemas.ErrNotModified) {
			return resp, nil
		}
		return resp, err
	})
	if tag != "" && hasStatus(err, http.StatusBadRequest, http.StatusPreconditionFailed) {
		m.distrustTags()
		return m.getUnless(ctx, path, "")
	}
	return resp, err
}

// distrustTags has what is seen no more depend on ETags.
func (m *machine) distrustTags() {
	m.tagsStay = true
	m.habits.met(stayingETags)
}

// inSystem says whether the system itself shows all of the facets.
func inSystem(facets []site.Facet) bool {
	return !slices.ContainsFunc(facets, func(f site.Facet) bool { return !slices.Contains(shownBySystem, f) })
}
