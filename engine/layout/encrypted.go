package layout

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// add adds a part. Of an encrypted one this is the inside, which is smaller.
func (b *builder) add(p part) {
	if p.use.Encrypt == "" {
		b.parts = append(b.parts, p)
		return
	}
	if p.use.Filesystem == nil && p.use.Group == "" || p.efi {
		b.object(p.path+".encrypt", fmt.Sprintf("%s is encrypted, and nothing that can be is on it", p.on),
			"Remove encrypt: only a file system that the firmware does not read and a member of a volume group can be encrypted.", whyHalf)
		return
	}
	id := b.identity("luks", b.idOf(p.on)).uuid()
	e := item.LayoutEncrypted{Name: "luks-" + id, On: p.on, UUID: id, Opens: p.use.Encrypt}
	b.layout.Encrypted = append(b.layout.Encrypted, e)
	device := p.bytes
	p.on, p.bytes = item.Place{Opened: e.Name}, OpenedBytes(device, p.use.Encrypt)
	if p.bytes < Align {
		b.object(p.path, fmt.Sprintf("%s has %s, and LUKS2 takes %d MiB of it", e.On, device, item.LUKSBytes>>20), "Make it larger.", whyHalf)
		return
	}
	b.parts = append(b.parts, p)
}

// crypttab returns the lines of crypttab(5). All volumes are opened in the initramfs, which is where
// clevis(1) answers for a person.
func crypttab(all []item.LayoutEncrypted) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Written by Slipway when it laid out the disks.\n")
	for _, e := range all {
		fmt.Fprintf(&b, "%s\tUUID=%s\tnone\tluks,initramfs\n", e.Name, e.UUID)
	}
	return b.String()
}
