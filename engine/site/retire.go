package site

// Retires says whether the disks of the node's machine are to be erased because it leaves the
// design. What becomes of the disks of a virtual machine is its own affair (Virtual.Erase).
func (n *Node) Retires() bool {
	return n.Decommission && n.DecommissionErase != "" && !n.IsVirtual()
}

// Retiring is the node as the erase of its disks takes it: each designed disk is found as designed,
// and used for nothing. Those that are kept stay kept.
func (n *Node) Retiring() *Node {
	own := *n
	own.Generation, own.References.WholeDisk = 0, false // no installation
	own.Storage = Storage{Erase: n.DecommissionErase, Disks: map[string]Disk{}}
	for name, d := range n.Storage.Disks {
		own.Storage.Disks[name] = Disk{Device: d.Device, Match: d.Match, Count: d.Count, Keep: d.Keep}
	}
	return &own
}

// Of is the node as a step takes it.
func (s Step) Of(n *Node) *Node {
	if s.Retires() {
		return n.Retiring()
	}
	return n
}
