package design

import "github.com/slipway-gitops/slipway/engine/site"

// style is what a node's machine is, which says what the node must have.
type style int

const (
	physical style = iota
	virtual
	// unclear is the style of a node of which that is wrong.
	unclear
	styles
)

// styleOf is the style of a node whose layers are merged.
func styleOf(merged *tree) style {
	said := merged.get("style")
	switch {
	case said == nil, said.value == "physical":
		return physical
	case said.value == site.StyleVirtual:
		return virtual
	}
	return unclear
}

// shape is that of an effective node.
func (s style) shape() *shape {
	return shapes()[[styles]string{"#Node", "#VirtualNode", "#Effective"}[s]]
}

// derivedLayer is the layer of what follows from the names of a site and of a
// node. It is below all others.
const derivedLayer = "derived"

// derived is the layer of what follows from the names of a site and of a
// virtual node, at the place of the node; nil for a physical one.
func (n *node) derived(siteName string) *tree {
	if styleOf(n.merged) != virtual {
		return nil
	}
	at := n.place
	from := site.At(at.File.Value(), at.Line, at.Col, derivedLayer)
	var l *tree
	derive := func(value string, path ...string) {
		l = l.set(path, &tree{value: value, origin: from})
	}
	derive(site.MachineUUID(siteName, n.name), "identity", "uuid")
	for name := range n.merged.get("virtual", "interfaces").orEmpty().fields {
		derive(site.MachineMAC(siteName, n.name, name), "virtual", "interfaces", name, "mac")
	}
	return l
}
