// Package libvirt is a hypervisor for tests and for a demo: Debian's libvirtd and
// QEMU, with nothing simulated but the processor, and a small Debian for its
// guests.
//
//	h := libvirt.Start(t)
//	connection := slipway("libvirt+unix:///system?socket=" + h.Socket)
//	guest, err := h.Dial(ctx, "tcp", "10.77.0.11:22")
//
// Each hypervisor has its own /etc, /run and /var, its own processes and its own
// network with a bridge for the guests, in namespaces. So a test has as many as
// it wants, beside a libvirt that this host may have, and all of it ends with the
// test, even one that is killed. It wants root.
package libvirt
