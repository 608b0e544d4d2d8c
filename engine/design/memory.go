package design

import (
	"crypto/sha256"
	"sync"

	"github.com/slipway-gitops/slipway/engine/design/rule"
)

// memory is what is kept of a site from one evaluation to the next, so that
// what did not change is not evaluated again. It is an optimization and nothing
// else: without it every evaluation says the same.
type memory struct {
	// busy is held by the evaluation that uses the memory.
	busy sync.Mutex
	// outlines are by the digest of a file's text.
	outlines map[digest]*outline
	// digest is that of the design that shared was made of.
	digest digest
	shared *shared
	// own are the nodes' own layers, each with the digest of what it was made
	// of, nodes what they came to under shared.
	own   map[string]ownLayer
	nodes map[string]*node
	fleet *rule.Fleet
}

type ownLayer struct {
	from digest
	layer
}

func newMemory() *memory {
	m := &memory{outlines: map[digest]*outline{}, own: map[string]ownLayer{}}
	m.forget()
	return m
}

// forget drops what nodes came to.
func (m *memory) forget() {
	m.nodes, m.fleet = map[string]*node{}, rule.NewFleet()
}

// drop forgets a node.
func (m *memory) drop(name string) {
	delete(m.own, name)
	delete(m.nodes, name)
	m.fleet.Drop(name)
}

func digestOf(text []byte) digest { return sha256.Sum256(text) }

// keepOutlines drops the outlines of texts that are no more.
func (m *memory) keepOutlines(present map[digest]bool) {
	for d := range m.outlines {
		if !present[d] {
			delete(m.outlines, d)
		}
	}
}
