package libvirt

import golibvirt "github.com/digitalocean/go-libvirt"

// wrote takes in that a machine was written to.
func (h *hypervisor) wrote(uuid golibvirt.UUID) {}
