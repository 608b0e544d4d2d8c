package design

import "github.com/slipway-gitops/slipway/engine/site"

// style is the kind of a node's machine. It decides which fields the node must
// have.
type style int

const (
	physical style = iota
	virtual
	// unclear is the style of a node with a wrong style.
	unclear
	styles
)

// styleOf returns the style of a node whose layers are merged.
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

// shape returns the shape of an effective node of this style.
func (s style) shape() *shape {
	return shapes()[[styles]string{"#Node", "#VirtualNode", "#Effective"}[s]]
}

// derivedLayer is the layer of values derived from the names of a site and a
// node. It is the weakest layer.
const derivedLayer = "derived"

// derived returns the layer of values derived from the names of a site and a
// virtual node, at the place of the node. It is nil for a physical node.
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
