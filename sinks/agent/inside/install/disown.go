package install

import (
	"os"
	"path"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/boot"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// mdadmFiles are the paths of mdadm.conf(5): on Debian, and on others.
var mdadmFiles = []string{"/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"}

// basics writes what is known of the disks, and removes what belongs to the image's original system.
func (w *work) basics() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	l := w.asked.Layout
	if err := t.Put("/etc/fstab", []byte(l.Fstab), 0o644, 0, 0); err != nil {
		return err
	}
	// One of the image's original system would have the new one wait for disks that it does not have.
	if l.Crypttab == "" {
		err = t.Remove(crypttabFile)
	} else {
		err = t.Put(crypttabFile, []byte(l.Crypttab), 0o644, 0, 0)
	}
	if err != nil {
		return err
	}
	if l.Mdadm != "" {
		file := mdadmFiles[0]
		if !t.Exists(path.Dir(file)) {
			file = mdadmFiles[1]
		}
		text := "# Written by Slipway when it laid out the disks.\nHOMEHOST <system>\n" + l.Mdadm
		if err := t.Put(file, []byte(text), 0o644, 0, 0); err != nil {
			return err
		}
	}
	if err := disown(t, w.target.Root); err != nil {
		return err
	}
	return boot.Prepare(w.target)
}

// disown removes what is unique to each system and may come from the system that the image was made from.
func disown(t *tree.Tree, root string) error {
	// An empty file gets its content at the first boot (machine-id(5)).
	if e, err := t.Look("/etc/machine-id"); err != nil {
		return err
	} else if e.Kind == tree.File {
		if err := t.Put("/etc/machine-id", nil, e.Mode, 0, 0); err != nil {
			return err
		}
	}
	for _, own := range []string{"/var/lib/systemd/random-seed", "/var/lib/systemd/credential.secret", markerFile} {
		if err := t.Remove(own); err != nil {
			return err
		}
	}
	if e, err := t.Look("/var/lib/dbus/machine-id"); err == nil && e.Kind == tree.File {
		if err := t.Remove("/var/lib/dbus/machine-id"); err != nil {
			return err
		}
	}
	// By the list in this folder, Slipway would own and remove files of the image. Its terms belong to another
	// site.
	if err := removeAll(t, root, inside.Folder); err != nil {
		return err
	}
	names, err := hostKeyFiles(t)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a path with all its contents. It follows links in the path's folders only below the root, and
// removes other links.
func removeAll(t *tree.Tree, root, name string) error {
	at, err := t.Resolve(name, false)
	if err != nil {
		return err
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.RemoveAll(at)
}
