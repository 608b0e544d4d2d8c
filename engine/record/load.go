package record

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Load reads all records of the site, once at the start and before any write.
// It deletes removals that are older than 24 hours, and files that no record
// uses. The maps of observations are shared with the records and must not be
// changed.
func (s *Site) Load(ctx context.Context) (Snapshot, error) {
	l := loader{ctx: ctx, Site: s, files: map[string]bool{}, snap: Snapshot{Nodes: map[string]site.Memory{}, Accounts: map[string]site.Account{}, History: site.History{}, Sessions: map[string]Sessions{}},
		library: bios.Library{Terms: map[string]bios.Entry{}, Registries: map[string]bios.Registry{}}}
	for _, part := range []struct {
		below string
		take  func(rest string, value []byte) error
	}{
		{"accepted", l.accepted},
		{"nodes/", l.node},
		{"observed/", l.observation},
		{termsBelow, l.terms},
		{registriesBelow, l.registry},
		{"seen/", l.seenTimes},
		{"inventories/", l.inventory},
		{bookKey, l.ledger},
		{"proposals/", l.proposal},
		{"messages/", l.message},
		{"removals/", l.removal},
		{"paused", l.paused},
		{incidentsBelow, l.incident},
		{deliveredBelow, l.delivered},
		{revokedBelow, l.revoked},
		{grantedKey, l.granted},
		{watchedKey, l.watched},
		{"rollout", l.rollout},
		{"forecast", l.forecast},
		{"took/", l.took},
		{"events", l.events},
		{"said/", l.said},
		{"sessions/", l.sessions},
	} {
		if err := s.each(ctx, part.below, part.take); err != nil {
			return Snapshot{}, fmt.Errorf("read %s of site %s: %w", strings.TrimSuffix(part.below, "/"), s.name, err)
		}
	}
	l.attach()
	for _, key := range l.stale {
		if err := s.commit(ctx, clientv3.OpDelete(s.prefix+key)); err != nil {
			return Snapshot{}, fmt.Errorf("forget what is stale: %w", err)
		}
	}
	if err := s.sweepFiles(ctx, l.files); err != nil {
		return Snapshot{}, fmt.Errorf("remove unused files: %w", err)
	}
	return l.snap, nil
}

// loader collects a snapshot.
type loader struct {
	ctx context.Context
	*Site
	snap    Snapshot
	files   map[string]bool // digests of files in use
	stale   []string        // keys that nothing needs
	library bios.Library
}

// read returns the value itself and notes its file if it has one.
func (l *loader) read(value []byte) ([]byte, error) {
	l.use(value)
	return l.Site.read(l.ctx, value)
}

// use notes the file of a value, if it has one.
func (l *loader) use(value []byte) {
	if digest, large := strings.CutPrefix(string(value), "@"); large {
		l.files[digest] = true
	}
}

// decode reads a JSON value.
func (l *loader) decode(value []byte, into any) error {
	value, err := l.read(value)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return damaged(err)
	}
	return nil
}

func (l *loader) accepted(_ string, value []byte) error {
	var a acceptance
	if err := l.decode(value, &a); err != nil {
		return err
	}
	design, err := l.readDesign(l.ctx, a.Design)
	if err != nil {
		return err
	}
	l.files[a.Design] = true
	l.used = a.Design
	l.snap.Accepted = &Accepted{Revision: a.Revision, SchemaVersion: a.SchemaVersion, Design: design, When: a.When}
	return nil
}

func (l *loader) node(rest string, value []byte) error {
	name, err := nameOf(rest)
	if err != nil {
		return err
	}
	if value, err = l.read(value); err != nil {
		return err
	}
	var recorded site.Recorded
	if err := json.Unmarshal(value, &recorded); err != nil {
		return damaged(err)
	}
	l.snap.Nodes[name] = site.Memory{Recorded: recorded}
	l.sums[name] = sha256.Sum256(value)
	return nil
}

func (l *loader) observation(rest string, value []byte) error {
	name, err := nameOf(rest)
	if err != nil {
		return err
	}
	m, recorded := l.snap.Nodes[name]
	if !recorded && !l.designed(name) {
		l.stale = append(l.stale, observedKey(name)) // written while the node was removed
		return nil
	}
	if value, err = l.read(value); err != nil {
		return err
	}
	var observed site.Observed
	if err := json.Unmarshal(value, &observed); err != nil {
		return damaged(err)
	}
	m.Observed = observed
	l.snap.Nodes[name] = m
	l.seen[name] = look{observed: observed, content: sha256.Sum256(value)}
	return nil
}

// inventory is read only on request.
func (l *loader) inventory(rest string, value []byte) error {
	name, err := nameOf(rest)
	if err != nil {
		return err
	}
	if _, recorded := l.snap.Nodes[name]; !recorded && !l.designed(name) {
		l.stale = append(l.stale, inventoryKey(name)) // nothing uses its file
		return nil
	}
	l.use(value)
	return nil
}

func (l *loader) designed(node string) bool {
	a := l.snap.Accepted
	return a != nil && a.Design.Nodes[node] != nil
}

// seenTimes sets when the facets were last seen.
func (l *loader) seenTimes(_ string, value []byte) error {
	l.ages = append(l.ages, sum{})
	value, err := l.read(value)
	if err != nil {
		return err
	}
	var some ages
	if err := decodeCompressed(value, &some); err != nil {
		return err
	}
	for node, facets := range some {
		known := l.snap.Nodes[node].Observed.Facets
		for name, f := range known {
			if at, ok := facets[name]; ok {
				f.Seen = time.Unix(at, 0).UTC()
				known[name] = f
			}
		}
	}
	return nil
}

func (l *loader) removal(rest string, value []byte) error {
	var r Removal
	if err := l.decode(value, &r); err != nil {
		return err
	}
	if time.Since(r.When) > removalWindow {
		l.stale = append(l.stale, "removals/"+rest)
		return nil
	}
	l.snap.Removals = append(l.snap.Removals, r)
	return nil
}

func (l *loader) paused(_ string, value []byte) error {
	l.snap.Paused = &site.Hold{}
	return l.decode(value, l.snap.Paused)
}

// rollout reads the rollout, and its nodes, which have their own key.
func (l *loader) rollout(rest string, value []byte) error {
	if l.snap.Rollout == nil {
		l.snap.Rollout = &site.RolloutStatus{}
	}
	if rest == "" {
		return l.decode(value, l.snap.Rollout)
	}
	value, err := l.read(value)
	if err != nil {
		return err
	}
	return decodeCompressed(value, &l.snap.Rollout.Nodes)
}

// forecast reads what was expected of the nodes of a rollout. It is only shown, so one that
// cannot be decoded, or whose file an older program has removed, is forgotten. A wrong checksum ends the
// load, as for every key.
func (l *loader) forecast(_ string, value []byte) error {
	var f site.ForecastAtStart
	text, err := l.read(value)
	if err == nil {
		err = decodeCompressed(text, &f)
	}
	if err != nil {
		l.stale = append(l.stale, "forecast")
		return nil
	}
	l.snap.Forecast = &f
	return nil
}

func (l *loader) took(rest string, value []byte) error {
	like, err := nameOf(rest)
	if err != nil {
		return err
	}
	var took []site.Duration
	if err := l.decode(value, &took); err != nil {
		return err
	}
	l.snap.History[like] = took
	return nil
}

// events are read only on request. Those written while their node was removed
// are stale.
func (l *loader) events(rest string, value []byte) error {
	l.use(value)
	node, err := nameOf(strings.TrimPrefix(rest, "/"))
	if err != nil {
		return err
	}
	if _, known := l.snap.Nodes[node]; node != "" && !known && !l.designed(node) {
		l.stale = append(l.stale, eventsKey(node))
	}
	return nil
}

// said is read only on request, too.
func (l *loader) said(rest string, value []byte) error {
	l.use(value)
	node, err := nameOf(rest)
	if err != nil {
		return err
	}
	if _, known := l.snap.Nodes[node]; !known && !l.designed(node) {
		l.stale = append(l.stale, saidKey(node))
	}
	return nil
}

func (l *loader) sessions(rest string, value []byte) error {
	node, err := nameOf(rest)
	if err != nil {
		return err
	}
	var all Sessions
	if err := l.decode(value, &all); err != nil {
		return err
	}
	l.snap.Sessions[node] = all
	return nil
}
