package design

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/encoding/json"
	"cuelang.org/go/encoding/yaml"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Format is the format of a rendered design.
type Format string

// The formats of an effective design.
const (
	CUE  Format = "cue"
	YAML Format = "yaml"
	JSON Format = "json"
)

// document is an effective design in the form of a site's package. All layers
// are merged into the nodes, so the profiles are only names. The fields here
// hide the site's.
type document struct {
	*site.Site
	Settings      *settings               `json:"site,omitempty"`
	Name          string                  `json:"name,omitempty"`
	SchemaVersion string                  `json:"schemaVersion,omitempty"`
	Schema        string                  `json:"schema,omitempty"`
	Rollout       string                  `json:"rollout,omitempty"`
	Discovery     string                  `json:"discovery,omitempty"`
	Install       string                  `json:"install,omitempty"`
	Keys          string                  `json:"keys,omitempty"`
	SSH           string                  `json:"ssh,omitempty"`
	Access        string                  `json:"access,omitempty"`
	Origins       string                  `json:"origins,omitempty"`
	Sealed        string                  `json:"sealed,omitempty"`
	Extensions    map[string]anyItem      `json:"extensions,omitempty"`
	Policies      map[string]anyNode      `json:"policies,omitempty"`
	Profiles      map[string]struct{}     `json:"profiles,omitempty"`
	Nodes         map[string]renderedNode `json:"nodes,omitempty"`
}

type settings struct {
	Schema    string              `json:"schema,omitempty"`
	Rollout   site.Rollout        `json:"rollout"`
	Discovery *site.Discovery     `json:"discovery,omitempty"`
	Install   site.Install        `json:"install,omitzero"`
	Keys      []string            `json:"keys,omitempty"`
	SSH       site.SSHAuthorities `json:"ssh,omitzero"`
	Access    site.Access         `json:"access,omitzero"`
}

// anyItem and anyNode are a site's extensions and policies without their
// constraints, which the effective design already satisfies.
type anyItem struct {
	*site.Extension
	Item struct{} `json:"item"`
}

type anyNode struct {
	*site.Policy
	Require struct{} `json:"require"`
}

// renderedNode is a node without what its own layer does not set. The fields
// here hide the node's.
type renderedNode struct {
	*site.Node
	Name    string `json:"name,omitempty"`
	Origins string `json:"origins,omitempty"`
	Place   string `json:"place,omitempty"`
	// References follow from the rest of the site.
	References string `json:"references,omitempty"`
}

// Render writes the effective design of a whole site, or of the named nodes
// only. As a site's package, the text for a whole site gives the same design.
// Replacing nodes of a site by the text for them gives the same design too.
func Render(s *site.Site, nodes []string, f Format) ([]byte, error) {
	d := document{Nodes: map[string]renderedNode{}}
	if len(nodes) == 0 {
		d, nodes = whole(s), s.NodeNames()
	}
	for _, name := range nodes {
		d.Nodes[name] = renderedNode{Node: unplaced(s.Nodes[name])}
	}
	text, err := d.json()
	if err != nil || f == JSON {
		return text, err
	}
	expr, err := json.Extract("", text)
	if err != nil {
		return nil, fmt.Errorf("render as %s: %w", f, err)
	}
	if f == YAML {
		return yaml.Encode(cuecontext.New().BuildExpr(expr))
	}
	return asPackage(s.Name, expr.(*ast.StructLit))
}

// unplaced returns a node without its placement, which is not part of a design.
func unplaced(n *site.Node) *site.Node {
	if n == nil || !n.IsVirtual() {
		return n
	}
	u := *n
	u.Rack, u.Virtual.Host = "", site.Host{}
	u.Endpoints = maps.Clone(n.Endpoints)
	delete(u.Endpoints, site.Manager)
	return &u
}

// whole returns a site without its nodes.
func whole(s *site.Site) document {
	d := document{
		Site: s, Settings: &settings{s.Schema, s.Rollout, s.Discovery, s.Install, s.Keys, s.SSH, s.Access},
		Extensions: map[string]anyItem{}, Policies: map[string]anyNode{}, Profiles: map[string]struct{}{}, Nodes: map[string]renderedNode{},
	}
	for name, x := range s.Extensions {
		d.Extensions[name] = anyItem{Extension: x}
	}
	for name, p := range s.Policies {
		d.Policies[name] = anyNode{Policy: p}
	}
	for _, n := range s.Nodes {
		for _, p := range n.Profiles {
			d.Profiles[p] = struct{}{}
		}
	}
	return d
}

func (d document) json() ([]byte, error) {
	var text bytes.Buffer
	e := stdjson.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(d)
	return text.Bytes(), err
}

// asPackage writes a file of the site's package. The name of a site under
// sites/ may not be valid for a package.
func asPackage(name string, s *ast.StructLit) ([]byte, error) {
	if !ast.IsValidIdent(name) {
		name = "site"
	}
	f := &ast.File{Decls: append([]ast.Decl{&ast.Package{Name: ast.NewIdent(name)}}, s.Elts...)}
	text, err := format.Node(f, format.Simplify())
	if err != nil {
		return nil, fmt.Errorf("render as cue: %w", err)
	}
	return format.Source(text) // aligned, which it is not when fields come from JSON
}
