package engine

import (
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// proves reports whether a marker's signature proves that the site installed this
// very machine.
func (e *Engine) proves(seen site.Identity, m *site.Marker) bool {
	if m == nil || m.Token == "" {
		return false
	}
	e.mu.Lock()
	keys := e.keysLocked()
	e.mu.Unlock()
	return sitekey.Proves(keys, e.Site, seen, *m)
}

// ProvenInstallation returns the installation that the system on a node's machine
// proves by a signature of one of the site's keys; nil if it proves nothing.
func ProvenInstallation(keys []string, siteName string, n *site.Node, o site.Observed) *site.Installation {
	m := o.Marker
	if m == nil || !speaksOf(n, m) || !sitekey.Proves(keys, siteName, o.Identity, *m) {
		return nil
	}
	return installedBy(m)
}

// speaksOf reports whether a marker belongs to an installation of the node.
func speaksOf(n *site.Node, m *site.Marker) bool {
	return m.Node == n.Name && m.Generation >= 1 && m.Generation <= site.MaxGeneration
}

// installedBy returns the installation that a marker with a valid signature
// describes.
func installedBy(m *site.Marker) *site.Installation {
	return &site.Installation{Generation: m.Generation, Image: m.Image, Since: time.Now(), Attempt: m.Attempt, Proven: true, Reported: true, Signed: true}
}

// keyTroubleLocked returns why signatures of this daemon would not count; empty
// if they do, or if the design names no keys.
func (e *Engine) keyTroubleLocked() string {
	keys := e.keysLocked()
	switch {
	case e.design == nil || len(e.design.Keys) == 0:
		return ""
	case e.Key == nil:
		return "the design names site keys, and this daemon has none: put the copy of the key back with `slipway site import-key`"
	case !slices.Contains(keys, e.Key.Public()):
		return "the design names other site keys than this daemon's, " + e.Key.Public() + ": correct site.keys, or replace the key by the right one"
	}
	return ""
}

// keysLocked returns the public keys that count: those that the design names, or
// the daemon's own if it names none.
func (e *Engine) keysLocked() []string {
	if e.design != nil && len(e.design.Keys) > 0 {
		return e.design.Keys
	}
	if e.Key == nil {
		return nil
	}
	return []string{e.Key.Public()}
}
