package site

// Lacks is what cannot be done to a machine, as its BMC tells before anything is
// tried: an installation without a slot for its medium, a power-off without a reset.
type Lacks struct {
	// Install says why a machine cannot be installed in a way: Boot.InstallBy, or "network" for
	// a start of the agent over the network.
	Install map[string]string `json:"install,omitempty"`
	// Steps says why each step cannot be taken.
	Steps map[Action]string `json:"steps,omitempty"`
}

// Why says why a node's machine cannot take a step; empty when it can, or when
// nobody knows.
func (l *Lacks) Why(n *Node, a Action) string {
	if l == nil {
		return ""
	}
	by := n.Boot.InstallBy
	if n.References.Start == StartNetwork {
		by = string(StartNetwork)
	}
	if why := l.Install[by]; (a == ActionInstall || a == ActionStartAgent) && why != "" {
		return why
	}
	return l.Steps[a]
}
