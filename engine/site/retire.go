package site

// Retires reports whether the disks of the node's machine are to be erased because it leaves the
// design. The disks of virtual machines follow Virtual.Erase instead.
func (n *Node) Retires() bool {
	return n.Decommission && n.DecommissionErase != "" && !n.IsVirtual()
}

// Retiring returns the node for the step that erases its disks: each designed disk is found as
// designed and has no use. Kept disks stay kept.
func (n *Node) Retiring() *Node {
	own := *n
	own.Generation, own.References.WholeDisk = 0, false // no installation
	own.Storage = Storage{Erase: n.DecommissionErase, Disks: map[string]Disk{}}
	for name, d := range n.Storage.Disks {
		own.Storage.Disks[name] = Disk{Device: d.Device, Match: d.Match, Count: d.Count, Keep: d.Keep}
	}
	return &own
}

// Of returns the node as the step sees it.
func (s Step) Of(n *Node) *Node {
	if s.Retires() {
		return n.Retiring()
	}
	return n
}
