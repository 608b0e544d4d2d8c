package site

// Lacks is what cannot be done to a machine, as its BMC shows in advance: an installation without a
// slot for its medium, a power-off without a reset type.
type Lacks struct {
	// Install says why the machine cannot be installed in a certain way: a value of Boot.InstallBy,
	// or "network" for starting the agent over the network.
	Install map[string]string `json:"install,omitempty"`
	// Steps says why a step cannot be taken, by action.
	Steps map[Action]string `json:"steps,omitempty"`
}

// Why says why a node's machine cannot take a step. It is empty if the machine can, or if nobody
// knows.
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
