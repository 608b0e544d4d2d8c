package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// inside is what is set in an installed system, and what Slipway's program has noted
// there. It is gone with the disk.
type inside struct {
	// have are the fields of items, by facet and key: a system's own and those that
	// were applied.
	have map[string]map[string]map[string]string
	// owned are what applied items were before, by facet and key; nil where nothing
	// was.
	owned map[string]map[string]map[string]string
	// pending are the fields of items that the next boot takes over.
	pending map[string]map[string]map[string]string
	// bodies are those of the items that were applied last, by key.
	bodies  map[string]json.RawMessage
	term    uint64
	program string // the digest of the program that was pushed
	lent    string // that of one which goes after its use
}

// furnished is a system in which something is set, none of it by Slipway.
func furnished(have map[string]map[string]map[string]string) inside {
	in := inside{have: map[string]map[string]map[string]string{}}
	for facet, items := range have {
		in.have[facet] = maps.Clone(items)
	}
	return in
}

// InsideFault is a way in which the program inside a system misbehaves.
type InsideFault string

// The ways.
const (
	// InsideRefuses: nothing is applied, as by a package that cannot be had.
	InsideRefuses InsideFault = "inside-refuses"
	// InsideLies: says that it was applied, and changes nothing.
	InsideLies InsideFault = "inside-lies"
	// InsideHalf: applies the first half of the items, and the connection is cut.
	InsideHalf InsideFault = "inside-half"
	// InsideGarbage: answers what no frame is.
	InsideGarbage InsideFault = "inside-garbage"
)

// staged are the facets that a system takes over when it boots.
var staged = []string{"kernel"}

// unlisted are the facets whose items are in no list: they are done once.
var unlisted = []string{"actions"}

// program answers one request as the program that was pushed would, by its contract:
// it knows nothing of how a system is set, only what is asked of it.
func (m *Machine) program(in io.Reader, out io.Writer) (status int) {
	var r wire.Request
	if err := wire.Read(in, &r); err != nil {
		return 2
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fault := m.insideFault
	if fault == InsideGarbage {
		fmt.Fprint(out, "bash: warning: setlocale: LC_ALL: cannot change locale\n")
		return 0
	}
	result := wire.Result{System: wire.System{Family: "debian", ID: "debian", Release: "12", Kernel: "6.1.0-lab", Network: "networkd", BootID: m.bootID}}
	switch {
	case r.Version != wire.Version:
		result.Error = &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("protocol %d is spoken here, not %d", wire.Version, r.Version)}
	case r.Op == wire.OpSurvey:
		result.Found, _ = json.Marshal(m.in.survey(r.Survey))
	case r.Op != wire.OpObserve && r.Term < m.in.term:
		result.Error = &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("term %d is over: term %d has written here", r.Term, m.in.term)}
	case r.Op == wire.OpApply && fault == InsideRefuses:
		result.Error = &wire.Error{Class: wire.Refused, Text: "E: Unable to locate package"}
	case r.Op == wire.OpApply:
		m.in.term = r.Term
		items := r.Apply.Items
		switch fault {
		case InsideLies:
		case InsideHalf:
			m.in.apply(r.Apply.Facet, items[:len(items)/2], nil)
			return 255
		default:
			if items, result.Error = m.in.certified(r.Apply.Facet, items, in, out); result.Error == nil {
				m.in.apply(r.Apply.Facet, items, m.in.removable(r.Apply))
			}
		}
		r.Observe = map[string][]string{r.Apply.Facet: item.Keys(items)}
	}
	result.Term, result.Owned = m.in.term, m.in.digest()
	for facet, keys := range r.Observe {
		if result.Facets == nil {
			result.Facets = map[string]wire.Facet{}
		}
		seen := m.in.observe(facet, keys)
		m.in.detail(&seen, facet, r)
		result.Facets[facet] = seen
	}
	if r.Health != nil {
		result.Health = &wire.Facet{Have: map[string]string{}}
		for i, p := range r.Health.Probes {
			result.Health.Have[p.Key] = item.Passed
			if i == 0 && m.unwell != "" {
				result.Health.Have[p.Key] = m.unwell
			}
		}
	}
	if r.Links != nil {
		result.Links = m.sees(*r.Links)
	}
	if wire.Write(out, wire.Frame{Result: &result}) != nil {
		return 1
	}
	return 0
}

// SetSystemHealth has the first probe of the system's health say what is wrong; empty
// is that all pass.
func (m *Machine) SetSystemHealth(said string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unwell = said
}

// SetLinks has the system see its links so, whatever it is asked for.
func (m *Machine) SetLinks(seen item.LinksSeen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links = &seen
}

// sees is what the system sees of its links: without other words all of them are up, and
// everybody answers.
func (m *Machine) sees(asked item.LinkProbes) *item.LinksSeen {
	if m.links != nil {
		return m.links
	}
	seen := &item.LinksSeen{BootID: m.bootID}
	for _, name := range asked.Ports {
		seen.Ports = append(seen.Ports, item.Port{Name: name, Carrier: "up", Changes: 1, Speed: 400_000, Duplex: "full", MTU: 9000})
	}
	for _, t := range asked.Targets {
		r := item.Reached{Target: t, Answers: item.Answered}
		if t.MTU > 0 {
			r.Sized = item.Answered
		}
		seen.Reached = append(seen.Reached, r)
	}
	return seen
}

func (in *inside) observe(facet string, keys []string) wire.Facet {
	seen := wire.Facet{Have: map[string]string{}, Pending: map[string]string{}, Owned: slices.Sorted(maps.Keys(in.owned[facet]))}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(keys), seen.Owned...)))) {
		for field, v := range in.have[facet][key] {
			seen.Have[item.Name(key, field)] = v
		}
		for field, v := range in.pending[facet][key] {
			seen.Pending[item.Name(key, field)] = v
			seen.Waits = "reboot"
		}
	}
	return seen
}

// survey lists what is set and Slipway did not make: items whose fields say all of them.
func (in *inside) survey(facets []string) map[string]item.Found {
	all := map[string]item.Found{}
	for _, facet := range facets {
		var found item.Found
		for _, key := range slices.Sorted(maps.Keys(in.have[facet])) {
			if _, ours := in.owned[facet][key]; !ours {
				found.Items = append(found.Items, item.New(key, maps.Clone(in.have[facet][key]), nil))
			}
		}
		all[facet] = found
	}
	return all
}

// detail tells what a request asks for beside the fields: of files that differ their
// contents, of those with secrets their digests, and of accounts how their passwords are hashed.
func (in *inside) detail(seen *wire.Facet, facet string, r wire.Request) {
	for key, designed := range r.Show {
		var f item.File
		have := in.have[facet][key]
		if json.Unmarshal(in.bodies[key], &f) != nil || have["content"] == designed || have["content"] != item.Digest(f.Content) {
			continue
		}
		if seen.Contents == nil {
			seen.Contents = map[string]item.Content{}
		}
		seen.Contents[key] = item.Show(have["mode"], f.Content)
	}
	for key, with := range r.Keys {
		var f item.File
		if have := in.have[facet][key]; have != nil && json.Unmarshal(in.bodies[key], &f) == nil {
			seen.Have[item.Name(key, "content")] = item.KeyedDigest(with, f.Content)
		}
	}
	for _, key := range r.Hashes {
		var u item.User
		if json.Unmarshal(in.bodies[key], &u) != nil || in.have[facet][key] == nil {
			continue
		}
		if h, is := item.HashOf(u.Password); is {
			if seen.Hashes == nil {
				seen.Hashes = map[string]item.Hash{}
			}
			seen.Hashes[key] = h
		}
	}
}

// removable are the keys that may be taken away: none where the lists disagree.
func (in *inside) removable(a *wire.Apply) []string {
	if a.Owned != in.digest() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.Remove), func(key string) bool { _, ours := in.owned[a.Facet][key]; return !ours })
}

func (in *inside) apply(facet string, items []item.Item, remove []string) {
	for _, m := range []*map[string]map[string]map[string]string{&in.have, &in.owned, &in.pending} {
		if *m == nil {
			*m = map[string]map[string]map[string]string{}
		}
		if (*m)[facet] == nil {
			(*m)[facet] = map[string]map[string]string{}
		}
	}
	if in.bodies == nil {
		in.bodies = map[string]json.RawMessage{}
	}
	for _, i := range items {
		in.bodies[i.Key] = i.Body
		if maps.Equal(in.have[facet][i.Key], i.Fields) {
			continue
		}
		if _, ours := in.owned[facet][i.Key]; !ours && !slices.Contains(unlisted, facet) {
			in.owned[facet][i.Key] = maps.Clone(in.have[facet][i.Key])
		}
		if slices.Contains(staged, facet) {
			in.pending[facet][i.Key] = maps.Clone(i.Fields)
		} else {
			in.have[facet][i.Key] = maps.Clone(i.Fields)
		}
	}
	for _, key := range remove {
		if before := in.owned[facet][key]; before != nil {
			in.have[facet][key] = before
		} else {
			delete(in.have[facet], key)
		}
		delete(in.pending[facet], key)
		delete(in.owned[facet], key)
	}
}

// boot takes over what waits for it.
func (in *inside) boot() {
	for facet, items := range in.pending {
		maps.Copy(in.have[facet], items)
	}
	in.pending = nil
}

// digest names what is owned.
func (in *inside) digest() string {
	all := map[string]map[string]map[string]string{}
	for facet, keys := range in.owned {
		if len(keys) > 0 {
			all[facet] = keys
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
