package libvirt

import (
	"cmp"
	"context"
	"encoding/xml"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// poolOf is the storage pool of a disk.
func poolOf(d site.VirtualDisk) string { return cmp.Or(d.Pool, "default") }

// formatOf is the format of a disk.
func formatOf(d site.VirtualDisk) string { return cmp.Or(d.Format, "qcow2") }

// busOf is the bus of a disk.
func busOf(d site.VirtualDisk) string { return cmp.Or(d.Bus, "virtio") }

// content is the state of a volume.
type content struct {
	ref  golibvirt.StorageVol
	size site.Size // as the machine sees it
}

// pool is a storage pool of the hypervisor, which must exist.
func (m *machine) pool(ctx context.Context, c *connection, name string) (golibvirt.StoragePool, error) {
	p, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (golibvirt.StoragePool, error) { return rpc.StoragePoolLookupByName(name) })
	if says(err, golibvirt.ErrNoStoragePool) {
		err = refused("%s has no storage pool %q for the disks of %s; make it there, or name another one in virtual.disks", m.where(), name, m.name)
	}
	return p, err
}

// folder is the folder of a pool, if the pool is a folder.
func (m *machine) folder(ctx context.Context, c *connection, name string) (string, error) {
	p, err := m.pool(ctx, c, name)
	if err != nil {
		return "", err
	}
	text, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.StoragePoolGetXMLDesc(p, 0) })
	if err != nil {
		return "", err
	}
	if len(text) > maxXML {
		return "", refused("the description of the pool %q has %d bytes", name, len(text))
	}
	var described struct {
		Type string `xml:"type,attr"`
		Path string `xml:"target>path"`
	}
	if err := xml.Unmarshal([]byte(text), &described); err != nil {
		return "", refused("the description of the pool %q cannot be understood: %v", name, err)
	}
	if described.Type != "dir" && described.Type != "fs" && described.Type != "netfs" {
		return "", nil
	}
	return described.Path, nil
}

// find finds a volume by its name; nil if there is no such volume or pool.
func find(ctx context.Context, c *connection, pool, name string) (*content, error) {
	v, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (*content, error) {
		p, err := rpc.StoragePoolLookupByName(pool)
		if err != nil {
			return nil, err
		}
		ref, err := rpc.StorageVolLookupByName(p, name)
		if err != nil {
			return nil, err
		}
		_, capacity, _, err := rpc.StorageVolGetInfo(ref)
		return &content{ref, site.Size(capacity)}, err
	})
	if says(err, golibvirt.ErrNoStoragePool, golibvirt.ErrNoStorageVol) {
		return nil, nil
	}
	return v, err
}

// contents are the volumes that a domain lists as its disks.
func contents(ctx context.Context, c *connection, o owner) (map[volume]*content, error) {
	all := map[volume]*content{}
	for _, v := range o.Volumes {
		found, err := find(ctx, c, v.Pool, v.Name)
		if err != nil {
			return nil, err
		}
		all[v] = found
	}
	return all, nil
}
