package libvirt

import (
	"os"
	"path/filepath"
)

// files are what a hypervisor has in its /etc. QEMU runs as root and libvirt
// leaves files their owners; there are no cgroups and no namespaces of libvirt's
// own; and libvirt logs each call of its API.
var files = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/bin/sh\nlibvirt-qemu:x:64055:64055::/:/usr/sbin/nologin\nsshd:x:64056:64056::/run/sshd:/usr/sbin/nologin\n",
	"group":         "root:x:0:\nkvm:x:64054:\nlibvirt-qemu:x:64055:\nsshd:x:64056:\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"hosts":         "127.0.0.1 localhost\n",
	"libvirt/qemu.conf": `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
`,
	"libvirt/libvirtd.conf": `unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
listen_addr = "10.77.0.1"
log_filters = "1:libvirt."
log_outputs = "1:file:/var/log/libvirt/libvirtd.log"
`,
}

// configure writes /etc.
func (h *Hypervisor) configure() {
	h.t.Helper()
	for name, text := range files {
		h.write(name, text)
	}
	h.certify()
}

// write makes a file in /etc.
func (h *Hypervisor) write(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.Folder, "etc", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}
