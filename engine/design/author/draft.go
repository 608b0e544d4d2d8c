package author

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Takeover is what was found inside the systems of a site's nodes, to be written into
// its design as it is. What the design speaks of already is not touched.
type Takeover struct {
	// Package is the one of the design's files.
	Package string
	// Site is the design before.
	Site *site.Site
	// Found is what was found, by node and facet. A node that was not looked into is
	// not in it.
	Found map[string]map[site.Facet]item.Found
	// Pin writes the versions of packages too.
	Pin bool
	// Drop says of items why they are not written, by node, facet and key. The network
	// of a node is written as a whole, under the key "network".
	Drop map[string]map[site.Facet]map[string]string
}

// NotTaken is one thing that is there and not in the design, and why.
type NotTaken struct {
	Node string `json:"node"`
	item.Left
}

// Draft is a takeover as a file of the design.
type Draft struct {
	Text []byte
	// Taken is how many items were written, by node.
	Taken map[string]int
	Left  []NotTaken
	lines []draftLine
}

// draftLine is one item where it was written.
type draftLine struct {
	node  string
	facet site.Facet
	key   string
	path  string // in the node's design
}

// line is what one item becomes in a layer of a node.
type line struct {
	facet site.Facet
	key   string
	path  []string
	value any // string, int64, bool, []string, or a branch
}

// branch is a struct.
type branch map[string]any

// Refer gives the items that a place in a node's design belongs to; without a node, in
// the design of any.
func (d Draft) Refer(node, path string) (all []Ref) {
	for _, l := range d.lines {
		within := path == l.path || strings.HasPrefix(path, l.path+".") || strings.HasPrefix(l.path, path+".")
		if path != "" && within && (node == "" || node == l.node) {
			all = append(all, Ref{l.node, l.facet, l.key})
		}
	}
	return all
}

// Has says whether the draft has written an item of a node.
func (d Draft) Has(r Ref) bool {
	return slices.ContainsFunc(d.lines, func(l draftLine) bool { return r == Ref{l.node, l.facet, l.key} })
}

// Ref names an item of a node.
type Ref struct {
	Node  string
	Facet site.Facet
	Key   string
}

func (f branch) set(name, value string) {
	if value != "" {
		f[name] = value
	}
}

func (f branch) list(name string, value []string) {
	if len(value) > 0 {
		f[name] = value
	}
}

// put puts a value at a place, over which nothing is yet; fields at one place are put
// together.
func put(top branch, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := top[name].(branch)
		if !ok {
			inner = branch{}
			top[name] = inner
		}
		top = inner
	}
	last := path[len(path)-1]
	if more, ok := value.(branch); ok {
		inner, there := top[last].(branch)
		if !there {
			inner = branch{}
			top[last] = inner
		}
		maps.Copy(inner, more)
		return
	}
	top[last] = value
}

// writeFields writes fields in the order of their names. Names that a person gave are
// quoted.
func writeFields(b *bytes.Buffer, f branch, top bool) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(b, "%s: ", label(name))
		switch v := f[name].(type) {
		case branch:
			if len(v) == 1 {
				writeFields(b, v, false) // on the same line
				break
			}
			b.WriteString("{\n")
			writeFields(b, v, false)
			b.WriteString("}\n")
		case bool:
			fmt.Fprintf(b, "%t\n", v)
		case int64:
			fmt.Fprintf(b, "%d\n", v)
		default:
			b.WriteString(cueValue(v) + "\n")
		}
		if top {
			b.WriteString("\n") // a line between sections
		}
	}
}

// inJSON tells values apart.
func inJSON(value any) string {
	b, _ := json.Marshal(value) // fields are texts, numbers and lists of them
	return string(b)
}
