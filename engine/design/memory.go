package design

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// memory is what is kept of a site from one evaluation to the next, so that
// what did not change is not evaluated again. It is an optimization and nothing
// else: without it every evaluation says the same.
type memory struct {
	// busy is held by the evaluation that uses the memory.
	busy sync.Mutex
	// texts are those of the files of the package, by name; outlines are by the
	// digest of a text.
	texts    map[string]text
	outlines map[digest]*outline
	// digest is that of the design that shared was made of.
	digest digest
	shared *shared
	// own are the nodes' own layers, each with the digest of what it was made
	// of, nodes what they came to under shared.
	own   map[string]ownLayer
	nodes map[string]*node
	// effective are the nodes as the site has them.
	effective map[string]*site.Node
	fleet     *rule.Fleet
}

// ownLayer is a node's own layer and what it was made of: its declarations,
// and what they can see. The layer is kept as it travels, which takes a tenth of
// the memory; it is wanted again when a profile changes.
type ownLayer struct {
	seen digest
	from []declaration
	code []byte
}

func codeOf(l layer) []byte {
	e := newEncoder()
	e.layer(l)
	return slices.Clip(e.out)
}

// layer is the layer itself, as this process wrote it.
func (o ownLayer) layer() layer { return newDecoder(o.code).layer() }

// text is a file's text with its digest.
type text struct {
	src    []byte
	digest digest
}

// digestOf is the digest of a file's text, remembered from the last time: to
// compare texts takes a tenth of the time.
func (m *memory) digestOf(name string, src []byte) digest {
	t := m.texts[name]
	if t.src == nil || !bytes.Equal(t.src, src) {
		t = text{src, digestOf(src)}
		m.texts[name] = t
	}
	return t.digest
}

func newMemory() *memory {
	m := &memory{texts: map[string]text{}, outlines: map[digest]*outline{}, own: map[string]ownLayer{}}
	m.forget()
	return m
}

// forget drops what nodes came to.
func (m *memory) forget() {
	m.nodes, m.effective, m.fleet = map[string]*node{}, map[string]*site.Node{}, rule.NewFleet()
}

// drop forgets a node.
func (m *memory) drop(name string) {
	delete(m.own, name)
	m.remake(name)
}

// remake forgets what a node came to.
func (m *memory) remake(name string) {
	delete(m.nodes, name)
	delete(m.effective, name)
	m.fleet.Drop(name)
}

func digestOf(text []byte) digest { return sha256.Sum256(text) }

// keepOutlines drops the outlines of texts that are no more.
func (m *memory) keepOutlines(files map[string][]byte, present map[digest]bool) {
	for name := range m.texts {
		if files[name] == nil {
			delete(m.texts, name)
		}
	}
	for d := range m.outlines {
		if !present[d] {
			delete(m.outlines, d)
		}
	}
}
