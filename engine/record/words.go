package record

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The machines' names for firmware settings are stored once for all machines with
// the same names, and each attribute registry once for all machines of a kind.
const (
	termsBelow      = "terms/"      // by digest
	registriesBelow = "registries/" // by sum
)

// writeWords writes what the observations refer to and is not written yet. It
// runs before the observations are written.
func (s *Site) writeWords(ctx context.Context, fresh map[string]look) error {
	b := batch{site: s}
	var written []string
	put := func(key string, v any) error {
		if s.words[key] {
			return nil
		}
		value, err := json.Marshal(v)
		if err != nil {
			return err
		}
		written = append(written, key)
		return b.put(ctx, key, value)
	}
	library := site.Words(observations(fresh))
	for sum, registry := range library.Registries {
		if err := put(registriesBelow+sum, registry); err != nil {
			return err
		}
	}
	for digest, entry := range library.Terms {
		if err := put(termsBelow+digest, entry); err != nil {
			return err
		}
	}
	if err := b.send(ctx); err != nil {
		return err
	}
	for _, key := range written {
		s.words[key] = true
	}
	return nil
}

// dropWords deletes what no observation refers to any more.
func (s *Site) dropWords(ctx context.Context) error {
	s.mu.Lock()
	used := map[string]bool{}
	for o := range observations(s.seen) {
		for _, f := range o.Facets {
			used[termsBelow+f.Terms] = true
			if f.Words != nil {
				used[registriesBelow+f.Words.Registry.Sum] = true
			}
		}
	}
	s.mu.Unlock()
	for _, key := range slices.Collect(maps.Keys(s.words)) {
		if used[key] {
			continue
		}
		if err := s.forget(ctx, key); err != nil {
			return err
		}
		delete(s.words, key)
	}
	return nil
}

// forget deletes a key and the file of its value.
func (s *Site) forget(ctx context.Context, key string) error {
	was, err := s.valueOf(ctx, key)
	if err != nil || was == nil {
		return err
	}
	if err := s.commit(ctx, clientv3.OpDelete(s.prefix+key)); err != nil {
		return err
	}
	return s.dropValue(ctx, was, "")
}

func observations(looks map[string]look) iter.Seq[site.Observed] {
	return func(yield func(site.Observed) bool) {
		for _, l := range looks {
			if !yield(l.observed) {
				return
			}
		}
	}
}

// terms reads terms that an observation refers to.
func (l *loader) terms(digest string, value []byte) error {
	for _, m := range l.snap.Nodes {
		for _, f := range m.Observed.Facets {
			if f.Terms != digest {
				continue
			}
			var e bios.Entry
			if err := l.decode(value, &e); err != nil {
				return err
			}
			l.library.Terms[digest], l.words[termsBelow+digest] = e, true
			return nil
		}
	}
	l.stale = append(l.stale, termsBelow+digest)
	return nil
}

// registry reads a registry that terms refer to.
func (l *loader) registry(sum string, value []byte) error {
	for _, e := range l.library.Terms {
		if e.Registry != sum {
			continue
		}
		var r bios.Registry
		if err := l.decode(value, &r); err != nil {
			return err
		}
		l.library.Registries[sum], l.words[registriesBelow+sum] = r, true
		return nil
	}
	l.stale = append(l.stale, registriesBelow+sum)
	return nil
}

// attach gives the observations the terms that they refer to.
func (l *loader) attach() {
	all := l.library.All()
	for name, m := range l.snap.Nodes {
		m.Observed.Attach(all)
		l.snap.Nodes[name] = m
	}
}

// withoutWish is the migration to observations without designed values. Firmware
// settings that do not refer to the machine's names for them count as never seen.
var withoutWish = migration{"observations name what machines call their settings", func(ctx context.Context, s *Store, key string, value []byte) ([]clientv3.Op, error) {
	b, rest, err := s.siteOf(key)
	if err != nil || !strings.HasPrefix(rest, "observed/") {
		return nil, err
	}
	if value, err = unseal(key, value); err != nil {
		return nil, err
	}
	if value, err = b.read(ctx, value); err != nil {
		return nil, err
	}
	var o site.Observed
	if err := json.Unmarshal(value, &o); err != nil {
		return nil, damaged(err)
	}
	if f, seen := o.Facets[site.FacetBIOS]; !seen || f.Terms != "" {
		return nil, nil
	}
	delete(o.Facets, site.FacetBIOS)
	if value, err = json.Marshal(o); err != nil {
		return nil, err
	}
	op, err := b.opPut(ctx, rest, value)
	return []clientv3.Op{op}, err
}}
