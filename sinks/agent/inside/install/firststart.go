package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// This is the configuration of cloud-init in an installed system (docs.cloud-init.io, "NoCloud"). Accounts, keys,
// host name and network are already set, by the same code that changes them later. The configuration keeps
// cloud-init from undoing that, and from asking servers for the machine's identity. cloud-init still does the
// image's other tasks, such as growing the root file system.
const (
	cloudFolder = "/etc/cloud/cloud.cfg.d"
	cloudConfig = `# Written by Slipway when it installed this system.
datasource_list: [NoCloud, None]
preserve_hostname: true
manage_etc_hosts: false
users: []
disable_root: false
ssh_deletekeys: false
ssh_genkeytypes: []
`
	seedFolder = "/var/lib/cloud/seed/nocloud"
)

// mustBeInRoot are folders that are written before the first boot. If one were on its own file system, that would
// hide the files at boot.
var mustBeInRoot = []string{"/etc", "/home", "/root", "/usr", "/var"}

// hasAll checks that the root file system contains the folders that are written.
func hasAll(t *tree.Tree) error {
	text, err := t.Read("/etc/fstab", maxMarker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 1 && !strings.HasPrefix(words[0], "#") && slices.Contains(mustBeInRoot, path.Clean(words[1])) {
			return refused("the image has %s on a file system of its own (/etc/fstab), and Slipway prepares the root file system alone: use another image", words[1])
		}
	}
	return err
}

// firstStart removes what the image has from its original system, and prepares the first boot of a whole-disk
// image.
func (w *work) firstStart() error {
	t, err := tree.Open(w.target.Root)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := hasAll(t); err != nil {
		return err
	}
	if err := disown(t, w.target.Root); err != nil {
		return err
	}
	files := map[string]string{}
	if t.Exists(cloudFolder) {
		// Each installation has its own first boot.
		sum := sha256.Sum256([]byte(w.asked.Marker))
		files[cloudFolder+"/99-slipway.cfg"] = cloudConfig
		files[seedFolder+"/meta-data"] = "instance-id: slipway-" + hex.EncodeToString(sum[:8]) + "\n"
		files[seedFolder+"/user-data"] = "#cloud-config\n{}\n"
	}
	for name, text := range files {
		if err := t.Put(name, []byte(text), 0o644, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
