package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// fault is what one machine of a site suffers from.
type fault struct {
	installs bool // it is to run from an image
	state    site.State
	// says are the parts of the sentence that tell what is wrong, where, and what
	// to do.
	says []string
}

// faults are all that goes wrong at once, by the names of the nodes.
var faults = map[string]fault{
	"taken":   {state: site.Stalled, says: []string{"machine named taken with the UUID 11111111-", "hv-1", "Slipway did not make", "does not touch it: rename or remove it"}},
	"theirs":  {state: site.Stalled, says: []string{"machine named theirs", "hv-1", "belongs to the site elsewhere", "does not touch it: rename or remove it"}},
	"volume":  {state: site.Stalled, says: []string{"pool default of hv-1", "-data.qcow2", "not made for this machine", "does not touch it: rename or remove it"}},
	"swapped": {true, site.Stalled, []string{"the image has the SHA-256 " + digestOf("swapped"), "the design says " + wrongDigest, "check whether somebody replaced the image"}},
	"missing": {true, site.Stalled, []string{"the image server answers 404 Not Found for http://127.0.0.1:", "/missing", "check whether the image is there"}},
	"huge":    {true, site.Stalled, []string{"pool default of hv-1 has", "free, the image needs 1024 TiB", "make room there"}},
	"quiet":   {true, site.Retrying, []string{"the image server sent no byte of http://127.0.0.1:", "/quiet for 30s", "the next try goes on there"}},
	"deaf":    {true, site.Stalled, []string{"the first boot of generation 1 is running, for longer than 1m0s", "slipway logs deaf --console", "raise the generation"}},
}

var wrongDigest = strings.Repeat("ab", 32)

// diskOf is an image that nothing boots from; each node has its own.
func diskOf(node string) []byte { return slices.Repeat([]byte(fmt.Sprintf("%-16s", node)), 1<<16) }

func digestOf(node string) string {
	sum := sha256.Sum256(diskOf(node))
	return hex.EncodeToString(sum[:])
}

// faulty is a site on one hypervisor whose machines all have something in
// their way.
type faulty struct {
	*farm
	images *httptest.Server
	mended chan struct{} // closed when the images are as they should be
	mend   func()
	right  bool              // the design says the right digests
	before map[string]string // what is not ours, as it was
}

// What goes wrong with virtual machines ends in a state with a sentence that
// tells an operator what to do. Nothing is lost by it, nothing of somebody else's is
// written to, and once the cause is gone it goes on.
func TestVirtualMachinesInTrouble(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	f.start()
	f.sayWhy("deaf")
	f.loseHypervisor()
	f.sayWhy("deaf", "quiet") // which take their time
	f.leftAlone()
	f.takeAway()
	f.goOn()
	f.comeBack()
	f.neverBoots()
	f.stop()
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	f := &faulty{farm: &farm{town: &town{t: t, dir: t.TempDir(), waits: 90 * time.Second}, hypervisor: libvirt.Start(t)}, mended: make(chan struct{})}
	f.mend = sync.OnceFunc(func() { close(f.mended) })
	f.hypervisor.Pool("default")
	f.images = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.images.Close)
	t.Cleanup(f.mend)
	f.makeKey()
	f.write("cred/os", "hosts: 127.0.0.0/24\nuse: ssh\nports: 1024-65535\nusername: ops\n\n"+f.key)
	f.makeForeign()
	f.makeRepository(f.design())
	f.dial()
	return f
}

// serve sends the image of a node, or does not.
func (f *faulty) serve(w http.ResponseWriter, r *http.Request) {
	node := strings.TrimPrefix(r.URL.Path, "/")
	image := diskOf(node)
	select {
	case <-f.mended:
		http.ServeContent(w, r, node, time.Time{}, bytes.NewReader(image))
		return
	default:
	}
	switch node {
	case "missing":
		http.NotFound(w, r)
	case "huge":
		w.Header().Set("Content-Length", fmt.Sprint(1<<50))
		w.Write(image)
	case "quiet":
		w.Header().Set("Content-Length", fmt.Sprint(len(image)))
		w.Write(image[:len(image)/2])
		w.(http.Flusher).Flush()
		select {
		case <-f.mended:
			w.Write(image[len(image)/2:])
		case <-r.Context().Done():
		}
	default:
		http.ServeContent(w, r, node, time.Time{}, bytes.NewReader(image))
	}
}

// design is the site's only CUE file.
func (f *faulty) design() string {
	var b strings.Builder
	fmt.Fprintf(&b, `package town

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", maxFailures: "100%%", pollEvery: "500ms", observeEvery: "1s", reportEvery: "500ms"}}
racks: r1: {}
credentials: os: {}
roles: any: {}
hypervisors: "hv-1": {url: "libvirt+unix:///system?socket=%s", rack: "r1", accelerator: "emulation", memory: "4GiB"}
networks: guests: {cidr: "10.77.0.0/24", ranges: nodes: {from: "10.77.0.10", to: "10.77.0.99", use: "static"}}
profiles: blank: {
	style: "virtual"
	role: "any"
	power: "on"
	primaryNetwork: "guests"
	virtual: {
		cpus: 1
		memory: "64MiB"
		disks: data: size: "8MiB"
		interfaces: eth0: bridge: "br0"
	}
	interfaces: eth0: networks: ["guests"]
}
profiles: installed: {
	parents: ["blank"]
	generation: 1
	virtual: disks: root: {size: "16MiB", image: "overlay"}
	system: users: ops: {keys: [%q], sudo: true}
}
`, f.hypervisor.Socket, f.public)
	for i, name := range slices.Sorted(maps.Keys(faults)) {
		profile, more := "blank", ""
		if faults[name].installs {
			sum := digestOf(name)
			if name == "swapped" && !f.right {
				sum = wrongDigest
			}
			fmt.Fprintf(&b, "images: %q: {url: \"%s/%s\", sha256: %q, format: \"raw\", installTimeout: \"1m\"}\n", name, f.images.URL, name, sum)
			profile, more = "installed", fmt.Sprintf(", image: %q, endpoints: os: url: \"ssh://127.0.0.%d:9\"", name, 11+i)
		}
		fmt.Fprintf(&b, "nodes: %q: {profiles: [%q], addresses: guests: \"10.77.0.%d\"%s}\n", name, profile, 11+i, more)
	}
	return b.String()
}

// strangers are the machines of others.
var strangers = map[string]string{
	"taken":   "",
	"theirs":  `<metadata><slipway:machine xmlns:slipway="https://slipway-gitops.github.io/libvirt/1" site="elsewhere" node="theirs"/></metadata>`,
	"mysql-x": "",
}

// makeForeign makes what is not ours: machines, and a volume of a name that ours
// would have.
func (f *faulty) makeForeign() {
	f.t.Helper()
	rpc := f.connect()
	i := 0
	for _, name := range slices.Sorted(maps.Keys(strangers)) {
		i++
		_, err := rpc.DomainDefineXMLFlags(fmt.Sprintf(`<domain type='qemu'><name>%s</name><uuid>11111111-2222-4333-8444-%012d</uuid>%s<memory unit='MiB'>16</memory>
			<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>`, name, i, strangers[name]), 0)
		check(f.t, err)
	}
	check(f.t, os.WriteFile(f.foreignVolume(), []byte("dear"), 0o600))
	p, err := rpc.StoragePoolLookupByName("default")
	check(f.t, err)
	check(f.t, rpc.StoragePoolRefresh(p, 0))
	f.before = f.foreign(rpc)
}

func (f *faulty) connect() *golibvirt.Libvirt {
	f.t.Helper()
	c := golibvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(f.hypervisor.Socket)))
	check(f.t, c.ConnectToURI(golibvirt.QEMUSystem))
	f.t.Cleanup(func() { _ = c.Disconnect() }) // the hypervisor may be gone before
	return c
}

func (f *faulty) foreignVolume() string {
	return filepath.Join(f.hypervisor.Folder, "var/lib/libvirt/default", "slipway-volume-"+site.MachineUUID("town", "volume")[:8]+"-data.qcow2")
}

// foreign is what is not ours, by its names.
func (f *faulty) foreign(rpc *golibvirt.Libvirt) map[string]string {
	f.t.Helper()
	all := map[string]string{}
	for name := range strangers {
		d, err := rpc.DomainLookupByName(name)
		check(f.t, err)
		all[name], err = rpc.DomainGetXMLDesc(d, golibvirt.DomainXMLSecure|golibvirt.DomainXMLInactive)
		check(f.t, err)
	}
	text, err := os.ReadFile(f.foreignVolume())
	check(f.t, err)
	all["volume"] = string(text)
	return all
}

// sayWhy waits until all nodes say what is wrong with them, but for some.
func (f *faulty) sayWhy(but ...string) {
	f.t.Helper()
	f.status("all nodes say what is wrong", func(s site.Status) bool {
		for name := range faults {
			if !slices.Contains(but, name) && !saysWhy(s, name) {
				return false
			}
		}
		return len(s.Nodes) == len(faults)
	})
}

func saysWhy(s site.Status, name string) bool {
	n, fault := stateOf(s, name), faults[name]
	return n.State == fault.state && containsAll(n.Reason, fault.says)
}

// neverBoots waits until a first boot has had its time, and holds it to its seed
// being there yet.
func (f *faulty) neverBoots() {
	f.t.Helper()
	f.status("the first boot has had its time", func(s site.Status) bool { return saysWhy(s, "deaf") })
	if s := f.known("deaf").Observed.Facets[site.FacetSeed].Have["state"]; s != site.SeedAttached {
		f.t.Errorf("the seed of a machine that has not proven itself is %s", s)
	}
}

func containsAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// loseHypervisor ends libvirt, which all nodes tell of, and gives it back.
func (f *faulty) loseHypervisor() {
	f.t.Helper()
	f.hypervisor.Stop()
	f.status("all nodes miss their hypervisor", func(s site.Status) bool {
		return !slices.ContainsFunc(s.Nodes, func(n site.NodeStatus) bool {
			return n.State != site.Retrying || n.Reason != "the hypervisor hv-1 does not answer" ||
				!containsAll(n.Cause, []string{"libvirt does not listen", f.hypervisor.Socket, "check whether libvirtd"})
		})
	})
	f.hypervisor.Continue()
}

// leftAlone holds what is not ours to what it was.
func (f *faulty) leftAlone() {
	f.t.Helper()
	if now := f.foreign(f.connect()); !maps.Equal(now, f.before) {
		f.t.Errorf("of others there was\n%v\nand is\n%v", f.before, now)
	}
}

// takeAway removes every cause: what is in the way by hand, what the design says by
// a commit.
func (f *faulty) takeAway() {
	f.t.Helper()
	rpc := f.connect()
	for _, name := range []string{"taken", "theirs"} {
		d, err := rpc.DomainLookupByName(name)
		check(f.t, err)
		_, err = rpc.DomainRename(d, golibvirt.OptString{name + "-kept"}, 0)
		check(f.t, err)
	}
	check(f.t, os.Rename(f.foreignVolume(), f.foreignVolume()+".kept"))
	p, err := rpc.StoragePoolLookupByName("default")
	check(f.t, err)
	check(f.t, rpc.StoragePoolRefresh(p, 0))
	f.mend()
	f.right = true
	f.commit(f.design(), "the right digest")
}

// goOn waits until the machines without an image are in-sync, and the others run
// from theirs. What waits for its time is told to go on.
func (f *faulty) goOn() {
	f.t.Helper()
	_, err := f.ask.Do(f.t.Context(), "", site.Order{Verb: site.VerbRetry, By: "e2e"})
	check(f.t, err)
	f.status("all go on", func(s site.Status) bool {
		for name, fault := range faults {
			n := stateOf(s, name)
			if fault.installs && name != "deaf" && (n.State != site.Progressing || !strings.Contains(n.Reason, "first boot of generation 1 is running")) ||
				!fault.installs && n.State != site.InSync {
				return false
			}
		}
		return true
	})
}

// comeBack takes the power of the hypervisor away and gives it back: all machines
// run again, and nobody had to start them.
func (f *faulty) comeBack() {
	f.t.Helper()
	before := f.calls("DomainCreate")
	f.hypervisor.Reboot()
	rpc := f.connect()
	all, _, err := rpc.ConnectListAllDomains(1, golibvirt.ConnectListDomainsActive)
	check(f.t, err)
	var running []string
	for _, d := range all {
		running = append(running, d.Name)
	}
	slices.Sort(running)
	if want := slices.Sorted(maps.Keys(faults)); !slices.Equal(running, want) {
		f.t.Errorf("after the hypervisor had no power these run: %v, want %v", running, want)
	}
	f.status("the machines without an image are in-sync again", func(s site.Status) bool {
		return !slices.ContainsFunc(s.Nodes, func(n site.NodeStatus) bool { return !faults[n.Name].installs && n.State != site.InSync })
	})
	if n := f.calls("DomainCreate") - before; n > 0 {
		f.t.Errorf("%d machines were started by us", n)
	}
}
