package libvirt

import (
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"
)

// Pool makes a pool of volumes of that name in a folder of the hypervisor's own,
// and starts it.
func (h *Hypervisor) Pool(name string) {
	h.t.Helper()
	c := golibvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(h.Socket)))
	if err := c.ConnectToURI(golibvirt.QEMUSystem); err != nil {
		h.t.Fatal(err)
	}
	defer c.Disconnect()
	p, err := c.StoragePoolDefineXML(fmt.Sprintf(`<pool type='dir'><name>%s</name><target><path>/var/lib/libvirt/%[1]s</path></target></pool>`, name), 0)
	for _, do := range []func() error{
		func() error { return c.StoragePoolBuild(p, 0) },
		func() error { return c.StoragePoolCreate(p, 0) },
		func() error { return c.StoragePoolSetAutostart(p, 1) },
	} {
		if err == nil {
			err = do()
		}
	}
	if err != nil {
		h.t.Fatalf("pool %s: %v", name, err)
	}
}
