package inside_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What was there before, and what Slipway notes of it, is root's alone, whatever the umask of the
// session is: it has what files had that not everybody may read.
func TestWhatWasBeforeIsForRootAlone(t *testing.T) {
	n := startInNetwork(t)
	n.Does(`sed -i '1a umask 000' /root/wrap; mkdir -p /etc/slipway; echo ` + quoted(marker) + ` > /etc/slipway/marker.json; echo "the secret of before" > /etc/before.conf`)
	d := &site.Node{
		Name: "n1",
		System: site.System{
			Hostname: "other", Hosts: map[string][]string{"10.9.0.1": {"a"}}, Time: site.Time{Zone: "Asia/Tokyo"}, Sysctl: site.Scalars{"net.ipv4.ip_forward": int64(1)},
			Users:        map[string]site.User{"people": {Keys: []string{firstKey}, Groups: []string{"adm"}}, "ada": {Password: "console"}},
			Repositories: map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: made.signs}},
			Packages:     map[string]site.Package{"one": {State: item.Held, Version: "1.0"}, "serving": {}},
			Files:        map[string]site.File{"/etc/before.conf": {Content: ref("designed\n")}, "/etc/folder/before.conf": {State: item.Absent}},
			Units:        map[string]site.Unit{"before.service": {Content: ref(service("ours", "multi-user.target"))}},
		},
		Kernel: site.Kernel{Parameters: site.Scalars{"iommu": "off"}},
		References: site.References{Family: "debian",
			Links:   map[string]item.Link{"eth1": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}}},
			Actions: map[string]site.BootAction{"first": {Timeout: site.Duration(time.Minute), Run: []string{"/bin/true"}, Files: map[string]site.File{"/srv/first": {Content: ref("x")}}}},
		},
	}
	n.converges(d)
	n.Says("grep -c 'before.conf' /var/lib/slipway-inside/owned.json", "2")
	n.keepsToItself()
	n.Does("rm /etc/before.conf; systemctl mask --quiet before.service 2>/dev/null || true") // and people change what is Slipway's
	n.converges(d)
	n.keepsToItself()
	n.converges(&site.Node{Name: "n1", References: site.References{Family: "debian"}})
	n.keepsToItself()
	n.Says("cat /etc/before.conf", "the secret of before")
}

// keepsToItself holds that nobody but root can read what Slipway keeps on a system.
func (n *node) keepsToItself() {
	n.t.Helper()
	const folder = "/var/lib/slipway-inside"
	n.Says("stat -c '%a %U:%G' "+folder+"; stat -c '%a %U:%G' "+folder+"/owned.json", "700 root:root\n600 root:root")
	// What apt has fetched of a snapshot is public, and the helper is a program.
	n.Says("find "+folder+" -path "+folder+"/snapshot -prune -o \\( ! -user root -o ! -group root -o -type d ! -perm 700 -o -type f ! -name 'helper-*' ! -perm 600 -o -perm /022 -o ! -type d ! -type f \\) -printf '%p %m %u:%g\\n'", "")
	n.Says("setpriv --reuid=daemon --regid=daemon --clear-groups cat "+folder+"/owned.json 2>&1 | grep -o 'Permission denied'", "Permission denied")
}
