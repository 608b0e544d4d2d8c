package design

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// memory is what is kept of a site from one evaluation to the next, so that
// unchanged parts are not evaluated again. It is only an optimization:
// evaluations without it have the same results. An interrupted evaluation
// leaves it valid, because uncertain parts are stale until they are remade.
type memory struct {
	// busy is held by the evaluation that uses the memory.
	busy sync.Mutex
	// texts are those of the repository's files, by name; digests are those of
	// some of the texts.
	texts   map[string]text
	digests map[string]digest
	// outlines are by the digest of a text.
	outlines map[digest]*outline
	// division is the last division.
	division *division
	// digest is that of the design that shared was made from.
	digest digest
	shared *shared
	// own are the nodes' own layers. Those of stale nodes may come from an
	// older text.
	own   map[string]ownLayer
	stale names
	// nodes are the results of nodes under shared; unmade are the nodes of own
	// without a result.
	nodes  map[string]*node
	unmade names
	// effective are the nodes as the site has them, spoken the nodes with
	// findings, paused the paused nodes. broken counts the nodes without a
	// value, size the values of all nodes together.
	effective map[string]*site.Node
	spoken    names
	paused    map[string]*site.Node
	broken    int
	size      int64
	fleet     *rule.Fleet
}

// ownLayer is a node's own layer and what it was made from: its declarations,
// and the digest of what they can see. The layer stays encoded, which takes a
// tenth of the memory. It is needed again when a profile changes.
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

// layer decodes the layer, which this process encoded.
func (o ownLayer) layer() layer { return newDecoder(o.code).layer() }

func newMemory() *memory {
	m := &memory{
		texts: map[string]text{}, digests: map[string]digest{}, outlines: map[digest]*outline{},
		own: map[string]ownLayer{}, stale: names{},
	}
	m.forget()
	return m
}

// occupy takes the memory for one evaluation. It returns false while another
// evaluation has it.
func (m *memory) occupy() bool { return m.busy.TryLock() }

// leave gives the memory back.
func (m *memory) leave() { m.busy.Unlock() }

// read replaces the texts by those of a pack.
func (m *memory) read(p pack) {
	for name, last := range m.texts {
		if fresh := p.text(name); !bytes.Equal(fresh, last.src) || fresh == nil {
			delete(m.digests, name)
		}
	}
	m.texts = make(map[string]text, len(p.files)+len(p.data))
	for _, files := range []map[string][]byte{p.files, p.data} {
		for name, src := range files {
			m.texts[name] = text{src, p.ids[name]}
		}
	}
}

// digestOf returns the digest of a file's text.
func (m *memory) digestOf(name string) digest {
	d, known := m.digests[name]
	if !known {
		d = digestOf(m.texts[name].src)
		m.digests[name] = d
	}
	return d
}

func digestOf(text []byte) digest { return sha256.Sum256(text) }

// keepOutlines drops the outlines of texts that no longer exist.
func (m *memory) keepOutlines(present map[digest]bool) {
	maps.DeleteFunc(m.outlines, func(d digest, _ *outline) bool { return !present[d] })
}

// take replaces the last division.
func (m *memory) take(d *division) {
	if m.division == nil || m.division.seen != d.seen {
		for name := range d.nodes {
			m.stale[name] = true
		}
	}
	for name := range d.touched {
		m.stale[name] = true
	}
	d.touched = nil
	m.division = d
}

// put replaces a node's own layer.
func (m *memory) put(name string, l ownLayer) {
	m.own[name] = l
	delete(m.stale, name)
	m.remake(name)
}

// drop forgets a node.
func (m *memory) drop(name string) {
	m.remake(name)
	delete(m.own, name)
	delete(m.stale, name)
	delete(m.unmade, name)
}

// forget drops the results of all nodes.
func (m *memory) forget() {
	m.nodes, m.effective, m.fleet = map[string]*node{}, map[string]*site.Node{}, rule.NewFleet()
	m.spoken, m.unmade, m.paused, m.broken, m.size = names{}, names{}, map[string]*site.Node{}, 0, 0
	for name := range m.own {
		m.unmade[name] = true
	}
}

// remakeSpoken drops the results of nodes with findings.
func (m *memory) remakeSpoken() {
	for name := range m.spoken {
		m.remake(name)
	}
}

// remake drops the result of a node.
func (m *memory) remake(name string) {
	m.unmade[name] = true
	n := m.nodes[name]
	if n == nil {
		return
	}
	m.size -= n.size
	if n.broken {
		m.broken--
	}
	delete(m.spoken, name)
	delete(m.paused, name)
	delete(m.nodes, name)
	delete(m.effective, name)
	m.fleet.Drop(name)
}

// made records the result of a node.
func (m *memory) made(n *node) {
	m.nodes[n.name], m.effective[n.name] = n, n.effective
	delete(m.unmade, n.name)
	m.size += n.size
	if n.broken {
		m.broken++
	}
	if len(n.findings) > 0 {
		m.spoken[n.name] = true
	}
	if n.effective.Paused != nil {
		m.paused[n.name] = n.effective
	}
	if n.facts != nil {
		m.fleet.Put(n.name, n.facts)
	}
}
