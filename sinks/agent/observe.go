package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// pushTimeout bounds bringing the helper to a machine.
const pushTimeout = 2 * time.Minute

// Observe looks inside once: one connection, one command. SSH says nothing about the machine's identity, because an
// installed system can move to another machine with its disk. Observe brings the helper only to machines where the
// design asks for something, including health, or where Slipway has made something.
func (m *machine) Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error) {
	wanted := slices.DeleteFunc(slices.Clone(facets), func(f site.Facet) bool { return !slices.Contains(byHelper, f) })
	isOS := slices.Contains(facets, site.FacetOS)
	probes, probed := n.Probes()
	probed = probed && slices.Contains(facets, site.FacetProbes)
	links, linked := m.linkProbes(n)
	linked = linked && slices.Contains(facets, site.FacetLinks)
	if !isOS && len(wanted) == 0 && !probed && !linked {
		return site.Observed{}, nil
	}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	conn, err := connect(ctx, m.client)
	if err != nil {
		return site.Observed{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(looking, func() { conn.Close() })()
	x := exchange{script: reportScript}
	request := m.named(m.observeRequest(n, wanted), conn.entry)
	if probed {
		request.Health = &probes
	}
	if linked {
		request.Links = &links
	}
	if len(wanted) > 0 || probed || linked {
		x.script += helperScript(m.helpers.known())
		x.request = &request
	}
	report, a, err := conn.look(looking, x, m.helpers.known())
	r, ok := parse(report)
	if err != nil && (!ok || !a.begun || ctx.Err() != nil) {
		return site.Observed{}, err
	}
	if !ok {
		return site.Observed{}, refused("the system at %s did not answer as a Linux shell does; it begins with %.80q, and its errors say %s", m.client.Address(), report, brief(a.said))
	}
	seen := site.Observed{Facets: map[site.Facet]site.FacetState{}, Marker: r.marker, MarkerUnread: r.markerUnread, Inside: r.inside}
	seen.Login = conn.howLoggedIn(looking)
	if isOS {
		have := site.Values{"bootID": r.bootID, "release": r.release, "kernel": r.kernel}
		seen.Facets[site.FacetOS] = site.FacetState{Have: have, Seen: time.Now(), Driver: Scheme}
	}
	if len(wanted) > 0 || probed || linked {
		if err == nil && a.needsHelper() {
			err = m.isNode(n, report) // never bring the helper to another machine
		}
		m.inside(ctx, n, wanted, request, a, err, &seen)
		if asks(request, site.FacetBase, item.KindSSHHost) {
			m.compareHost(n, &seen, conn.entry.HostKeys)
		}
		if asks(request, site.FacetConfig, item.KindCertificates) {
			m.compareTLS(n, &seen)
		}
	}
	for _, f := range []site.Facet{site.FacetProbes, site.FacetLinks} {
		if _, told := seen.Facets[f]; !told && slices.Contains(facets, f) {
			seen.Facets[f] = site.FacetState{Seen: time.Now(), Driver: Scheme} // nothing was asked
		}
	}
	return seen, nil
}

// look asks an existing helper to report on the system, which costs far less than the script's programs. If no
// helper starts, the script reports everything.
func (c *connection) look(ctx context.Context, x exchange, known []string) (report []byte, a answer, err error) {
	if x.request != nil && len(known) > 0 {
		quick := x
		quick.script = reportingScript(known) + x.script
		if report, a, err = c.run(ctx, quick); err != nil || a.begun {
			return report, a, err
		}
	}
	return c.run(ctx, x)
}

// inside adds the state of the helper's facets. It brings a missing helper first.
func (m *machine) inside(ctx context.Context, n *site.Node, wanted []site.Facet, request wire.Request, a answer, why error, seen *site.Observed) {
	_, isOwned := a.says(saysOwned)
	_, isAbsent := a.says(saysAbsent)
	if why == nil && a.needsHelper() && (isOwned || m.asksAny(n, wanted) || request.Health != nil || request.Links != nil) {
		a, why = m.bring(ctx, request, a)
	}
	if why == nil {
		why = m.trouble(a)
	}
	states := seen.Facets
	if request.Links != nil {
		states[site.FacetLinks], seen.Links = linked(a.result, why)
	}
	if request.Health != nil {
		states[site.FacetProbes] = probed(request.Health.Probes, a.result, why)
	}
	if why == nil {
		m.learn(a.result)
	}
	for _, f := range wanted {
		s := site.FacetState{Seen: time.Now(), Driver: Scheme}
		switch {
		case why == nil:
			fill(&s, a.result, a.result.Facets[string(f)], request.Observe[string(f)])
			withHardware(&s, f, a.result.System.PCI)
			s.Unconfirmed = f == site.FacetNetwork && (a.result.Unconfirmed != "" || a.result.CutShort) && a.result.Busy == ""
			m.compareSecrets(&s, m.items(n, f), a.result.Facets[string(f)], request.Keys)
		case isOwned || !isAbsent || m.asksAny(n, wanted):
			s.Seen, s.Cannot = time.Time{}, site.Values{} // not seen, so that nobody concludes that Slipway owns nothing here
			for _, key := range m.keysOf(n, f) {
				s.Cannot[key] = why.Error()
			}
		}
		states[f] = s
	}
}

// probed is the observed health of a system. If a probe was not answered, Unread says why.
func probed(asked []item.Probe, r *wire.Result, why error) site.FacetState {
	s := site.FacetState{Seen: time.Now(), Driver: Scheme, Have: site.Values{}, Unread: site.Values{}}
	var health wire.Facet
	if why == nil && r != nil && r.Health != nil {
		health = *r.Health
	}
	for _, p := range asked {
		said, told := health.Have[p.Key]
		switch {
		case told:
			if what, output, _ := strings.Cut(said, ": "); item.HoldsSecret([]byte(output)) {
				said = what + ": [redacted]" // the status shows this text
			}
			s.Have[p.Key] = brief(said)
		case why != nil:
			s.Unread[p.Key] = brief(why.Error())
		default:
			s.Unread[p.Key] = brief(cmp.Or(health.Unread[p.Key], "the helper does not report "+p.Key))
		}
	}
	return s
}

// asksAny reports whether the design asks for anything in the facets.
func (m *machine) asksAny(n *site.Node, facets []site.Facet) bool {
	return slices.ContainsFunc(facets, func(f site.Facet) bool { return len(m.keysOf(n, f)) > 0 })
}

// keysOf lists the keys to ask about in a facet: the design's items and, if wanted, the units that the design does
// not name.
func (m *machine) keysOf(n *site.Node, f site.Facet) []string {
	return askedKeys(n, f, m.mayItems(n, f))
}

// askedKeys are the keys to ask about, by the items of the design.
func askedKeys(n *site.Node, f site.Facet, items []item.Item) []string {
	keys := item.Keys(items)
	if f == site.FacetConfig && n.AsksForUnits() {
		keys = append(keys, item.KindUnlisted)
	}
	return keys
}

// These are the bounds on what is kept of a facet.
const (
	maxValues = 50_000
	maxValue  = 16 << 10
	maxFields = 16 // of one item
	// maxUpgrade bounds the name and the versions of one upgrade, in bytes.
	maxUpgrade = 600
)

// fill puts the helper's report on the asked keys and the owned keys into a facet's state.
func fill(s *site.FacetState, r *wire.Result, f wire.Facet, asked []string) {
	s.Have, s.Pending, s.Cannot, s.Unread = bounded(f.Have), bounded(f.Pending), bounded(f.Cannot), bounded(f.Unread)
	s.Absent = slices.DeleteFunc(item.Missing(append(slices.Clone(asked), f.Owned...), s.Have), func(key string) bool { return s.Unread[key] != "" })
	if f.Waits == site.WaitsReboot || f.Waits == site.WaitsLibraries {
		s.Waits = f.Waits
	}
	s.Upgrades = upgrades(f.Upgrades)
	s.System = platform(r.System)
	for _, key := range f.Owned[:min(len(f.Owned), maxValues)] {
		if isKey(key) {
			s.Owned = append(s.Owned, key)
		}
	}
	s.Asked = lastAsked(f.Asked)
	s.OwnedDigest = site.Printable(r.Owned)
	s.Contents = contents(f.Contents, asked)
	s.Busy = site.Printable(r.Busy)
	switch {
	case s.Busy != "":
	case r.Unconfirmed != "":
		s.Busy = fmt.Sprintf("a change of the network is reverted in %d s unless it is confirmed", r.Deadline)
	case r.CutShort: // whatever it has already reached
		s.Busy = fmt.Sprintf("a change of the network was interrupted, and is reverted in %d s", r.Deadline)
	}
}

// upgrades are those that the helper reported, within bounds.
func upgrades(told *item.Upgrades) *item.Upgrades {
	if told == nil {
		return nil
	}
	u := &item.Upgrades{More: max(0, told.More)}
	if told.Doubt != "" {
		u.Doubt = brief(told.Doubt)
	}
	for _, p := range told.Packages {
		if len(u.Packages) == item.MaxUpgrades || len(p.Name)+len(p.From)+len(p.To) > maxUpgrade {
			u.More++
			continue
		}
		p.Name, p.From, p.To = site.Printable(p.Name), site.Printable(p.From), site.Printable(p.To)
		if !slices.Contains([]string{"", item.RestartNeeded, item.RestartPossible, item.RestartLibraries}, p.Restart) {
			p.Restart = item.RestartPossible
		}
		u.Packages = append(u.Packages, p)
	}
	return u
}

// isKey reports whether a text may be the key of an item. The key is kept unchanged, because Slipway sends it back
// to the machine. It is made printable where it is shown.
func isKey(key string) bool { return len(key) <= maxValue && utf8.ValidString(key) }

// lastAsked lists the fields that were last asked for, within bounds.
func lastAsked(told map[string][]string) map[string][]string {
	all := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(told))[:min(len(told), maxValues)] {
		for _, field := range told[key][:min(len(told[key]), maxFields)] {
			if isKey(key) && isKey(field) {
				all[key] = append(all[key], field)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// contents are the asked file contents, within bounds.
func contents(told map[string]item.Content, asked []string) map[string]item.Content {
	all, size := map[string]item.Content{}, 0
	for _, key := range asked {
		c, ok := told[key]
		if size += len(c.Text); !ok || size > item.MaxShownAll || len(c.Text) > item.MaxShown || !item.IsText([]byte(c.Text)) {
			continue
		}
		c.Withheld = site.Printable(c.Withheld[:min(len(c.Withheld), maxValue)])
		all[key] = c
	}
	return all
}

func bounded(all map[string]string) site.Values {
	if len(all) == 0 {
		return nil
	}
	values := site.Values{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if v := all[name]; len(v) <= maxValue && len(name) <= maxValue && len(values) < maxValues {
			values[site.Printable(name)] = site.Printable(v)
		}
	}
	return values
}

// observeRequest asks for the items of a node's design.
func (m *machine) observeRequest(n *site.Node, facets []site.Facet) wire.Request {
	r := wire.Request{Op: wire.OpObserve, Node: n.Name, Observe: map[string][]string{}}
	var all []item.Item
	for _, f := range facets {
		items := m.mayItems(n, f)
		all = append(all, items...)
		r.Observe[string(f)] = askedKeys(n, f, items)
		if f == site.FacetConfig {
			r.Show, r.Keys = shown(items), digestKeys(items)
		}
		if f == site.FacetBase {
			r.Hashes = withCredential(item.KindUsers, items)
		}
	}
	r.PCI, r.Wants = asksHardware(n), item.Needing(all)
	return r
}

// asks reports whether a request asks about an item of a kind.
func asks(r wire.Request, f site.Facet, kind string) bool {
	return slices.ContainsFunc(r.Observe[string(f)], func(key string) bool { return item.Kind(key) == kind })
}

// shown lists the digests of the files whose differences people may see.
func shown(items []item.Item) map[string]string {
	all := map[string]string{}
	for _, i := range items {
		if c, isFile := i.Content(); isFile && c.Withheld == "" {
			all[i.Key] = i.Fields["content"]
		}
	}
	return all
}

// needsHelper reports whether root got no answer from a helper: the helper is missing, damaged or blocked.
func (a answer) needsHelper() bool { return a.begun && !a.denied && a.result == nil }

// bring brings the helper and asks again, on a new connection. The first connection may be about to time out.
func (m *machine) bring(ctx context.Context, request wire.Request, first answer) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	conn, err := connect(ctx, m.client)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	use := helperScript(m.helpers.known())
	if m.observeOnly {
		use, err = m.lend(ctx, conn, first)
	} else {
		err = m.push(ctx, conn, first)
	}
	if err != nil {
		return a, err
	}
	_, a, err = conn.run(ctx, exchange{script: use, request: &request})
	return a, err
}

// lend puts the helper into memory for one look, on a machine where Slipway may write nothing. It returns the
// script that starts it.
func (m *machine) lend(ctx context.Context, conn *connection, first answer) (use string, err error) {
	arch, absent := first.says(saysAbsent)
	if !absent {
		return "", m.trouble(first)
	}
	content, sum, err := m.helpers.program(arch)
	if err != nil {
		return "", err
	}
	folder := "/dev/shm/slipway-" + rand.Text()
	return lentScript(folder, sum, wire.Checksum(content)), m.send(ctx, conn, folder, lendScript(folder, sum, len(content)), content)
}

// push brings the helper for the machine that answered. It does not repeat this for an intact helper that did not
// answer.
func (m *machine) push(ctx context.Context, conn *connection, first answer) error {
	arch, absent := first.says(saysAbsent)
	var is answer
	if !absent {
		var err error
		if _, is, err = conn.run(ctx, exchange{script: sumScript(m.helpers.known())}); err != nil {
			return err
		}
		if arch, _ = is.says(saysMachine); arch == "" {
			return m.trouble(first)
		}
	}
	content, sum, err := m.helpers.program(arch)
	if err != nil {
		return err
	}
	if _, whole := is.says(sum); whole {
		return m.trouble(first)
	}
	return m.send(ctx, conn, inside.Folder, pushScript(sum, len(content)), content)
}

// send runs a script that stores the helper in a folder.
func (m *machine) send(ctx context.Context, conn *connection, folder, script string, content []byte) error {
	_, a, err := conn.run(ctx, exchange{script: script, input: bytes.NewReader(content)})
	if err != nil {
		return err
	}
	if _, ok := a.says(saysPushed); ok {
		return nil
	}
	if a.denied {
		return m.noRoot(a)
	}
	return fmt.Errorf("the helper cannot be brought to %s in %s: %s", m.client.Address(), folder, brief(a.said))
}

// trouble says why no result came, or returns the helper's error.
func (m *machine) trouble(a answer) error {
	if a.result != nil {
		if a.result.Error != nil {
			return fmt.Errorf("the helper on %s: %s", m.client.Address(), site.PrintableLines(a.result.Error.Text))
		}
		return nil
	}
	if a.denied {
		return m.noRoot(a)
	}
	if machine, absent := a.says(saysAbsent); absent {
		if _, _, err := m.helpers.program(machine); err != nil {
			return err
		}
		return fmt.Errorf("the helper is not on %s", m.client.Address())
	}
	return fmt.Errorf("the helper on %s did not answer: %s", m.client.Address(), brief(a.said))
}

// noRoot says what an account lacks.
func (m *machine) noRoot(a answer) error {
	return refused("the account %s of %s is not root and may not use sudo without a password, so nothing is seen or set inside the system: log in as root, "+
		"or write the line `%s ALL=(root) NOPASSWD: ALL` into /etc/sudoers.d/slipway there (sudo says: %s)", m.client.User(), m.client.Address(), m.client.User(), brief(a.said))
}

// brief makes foreign text one line of bounded length.
func brief(text string) string {
	text = site.Shorten(site.Printable(strings.TrimSpace(text)), 400)
	if text == "" {
		return "nothing"
	}
	return text
}
