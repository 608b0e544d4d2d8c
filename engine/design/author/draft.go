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

// Takeover holds what was found inside the systems of a site's nodes, to be written
// into its design unchanged. It does not touch what the design already sets.
type Takeover struct {
	// Package is the package of the design's files.
	Package string
	// Site is the design before.
	Site *site.Site
	// Found is what was found, by node and facet. It lacks nodes that were not looked
	// into.
	Found map[string]map[site.Facet]item.Found
	// Pin writes the versions of packages too.
	Pin bool
	// Drop says why items are not written, by node, facet and key. The network of a
	// node is written as a whole, under the key "network".
	Drop map[string]map[site.Facet]map[string]string
}

// NotTaken is something on a machine that the design does not get, and why.
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

// draftLine says where an item was written.
type draftLine struct {
	node  string
	facet site.Facet
	key   string
	path  string // in the node's design
}

// line is an item's value in a layer of a node.
type line struct {
	facet site.Facet
	key   string
	path  []string
	value any // string, int64, bool, []string, or a branch
}

// branch is a struct.
type branch map[string]any

// Refer returns the items that a path in a node's design belongs to. Without a node it
// searches all nodes.
func (d Draft) Refer(node, path string) (all []Ref) {
	for _, l := range d.lines {
		within := path == l.path || strings.HasPrefix(path, l.path+".") || strings.HasPrefix(l.path, path+".")
		if path != "" && within && (node == "" || node == l.node) {
			all = append(all, Ref{l.node, l.facet, l.key})
		}
	}
	return all
}

// Has reports whether the draft has written an item of a node.
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

// put sets a value at a path that has no value yet, and merges structs at the same
// path.
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

// writeFields writes fields in the order of their names. It quotes names that a person
// chose.
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

// inJSON returns a text that is equal for equal values.
func inJSON(value any) string {
	b, _ := json.Marshal(value) // fields are texts, numbers and lists of them
	return string(b)
}
