package e2e

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// farm is a town whose machines are virtual: on one hypervisor, which has
// nothing simulated but its processor.
type farm struct {
	*town
	hypervisor *libvirt.Hypervisor
	image      string // its address
	sha256     string
	fetched    atomic.Int64 // how often the image was asked for
	public     string       // key that opens the systems
	ssh        map[string]string
	guests     []guest
	patience   string // of an installation; 10 minutes if empty
}

// guest is one virtual machine of a design.
type guest struct {
	name, role string
	address    string
	memory     string
	generation int
	more       string // lines of the design
}

// bootPatience is how long a guest may take to come up, on a processor that is
// simulated on a machine that does other things too.
const bootPatience = 10 * time.Minute

// newFarm has a hypervisor, the repository of a site with guests, and no daemon
// yet.
func newFarm(t *testing.T, guests ...guest) *farm {
	t.Helper()
	f := &farm{town: &town{t: t, dir: t.TempDir(), waits: bootPatience}, hypervisor: libvirt.Start(t), ssh: map[string]string{}, guests: guests}
	path, sum := libvirt.Image(t)
	f.sha256 = sum
	f.hypervisor.Pool("default")
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.fetched.Add(1)
		http.ServeFile(w, r, path)
	}))
	t.Cleanup(images.Close)
	f.image = images.URL + "/debian.qcow2"
	for _, g := range guests {
		f.ssh[g.name] = f.hypervisor.Forward(g.address + ":22")
	}
	f.flags = []string{"--agents", helperFolder}
	f.makeKey()
	f.write("cred/os", "hosts: 127.0.0.1\nuse: ssh\nports: 1024-65535\nusername: ops\n\n"+f.key)
	f.makeRepository(f.design())
	f.dial()
	t.Cleanup(f.tellConsoles)
	return f
}

// tellConsoles shows how the guests ended, for a failed test.
func (f *farm) tellConsoles() {
	if !f.t.Failed() || f.daemon == nil || f.daemon.dead() {
		return
	}
	for line := range strings.Lines(f.log()) {
		if strings.Contains(line, "msg=\"step ") {
			f.t.Log(strings.TrimSpace(line))
		}
	}
	for _, g := range f.guests {
		text, err := f.ask.Console(context.Background(), "", g.name)
		f.t.Logf("console of %s (%v):\n%s", g.name, err, text[max(0, len(text)-3000):])
	}
}

func (f *farm) makeKey() {
	f.t.Helper()
	text, signer := newKey(f.t)
	f.key, f.public = text, publicOf(signer)
}

// newKey is a key of SSH, also as the text of its file.
func newKey(t *testing.T) (text string, signer ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	check(t, err)
	signer, err = ssh.NewSignerFromKey(private)
	check(t, err)
	return string(pem.EncodeToMemory(block)), signer
}

func publicOf(key ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// design is the site's only CUE file.
func (f *farm) design() string {
	var b strings.Builder
	fmt.Fprintf(&b, `package town

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", pollEvery: "500ms", observeEvery: "1s", reportEvery: "500ms"}}
racks: r1: {}
credentials: os: {}
roles: {
	db: {}
	web: needs: base: db: phase: "configure"
}
hypervisors: "hv-1": {
	url:         "libvirt+unix:///system?socket=%s"
	rack:        "r1"
	accelerator: "emulation"
	memory:      "4GiB"
}
networks: guests: {
	cidr:    "10.77.0.0/24"
	gateway: "10.77.0.1"
	ranges: nodes: {from: "10.77.0.10", to: "10.77.0.99", use: "static"}
}
images: debian: {url: %q, sha256: %q, format: "qcow2", installTimeout: %q}
profiles: guest: {
	style: "virtual"
	power: "on"
	image: "debian"
	primaryNetwork: "guests"
	virtual: {
		cpus: 1
		disks: root: {size: "3GiB", image: "overlay"}
		interfaces: eth0: bridge: "br0"
	}
	interfaces: eth0: networks: ["guests"]
	system: users: ops: {keys: [%q], sudo: true}
}
`, f.hypervisor.Socket, f.image, f.sha256, cmp.Or(f.patience, "10m"), f.public)
	for _, g := range f.guests {
		fmt.Fprintf(&b, `nodes: %q: {
	profiles: ["guest"]
	role: %q
	addresses: guests: %q
	endpoints: os: url: "ssh://%s"
	virtual: memory: %q
	generation: %d
%s}
`, g.name, g.role, g.address, f.ssh[g.name], cmp.Or(g.memory, "384MiB"), cmp.Or(g.generation, 1), g.more)
	}
	return b.String()
}

// change commits the design with one guest changed.
func (f *farm) change(name, message string, change func(*guest)) {
	f.t.Helper()
	i := slices.IndexFunc(f.guests, func(g guest) bool { return g.name == name })
	change(&f.guests[i])
	f.commit(f.design(), message)
}

// without commits the design without a guest.
func (f *farm) without(name string) {
	f.t.Helper()
	f.guests = slices.DeleteFunc(f.guests, func(g guest) bool { return g.name == name })
	f.commit(f.design(), "remove "+name)
}

// known is what the daemon knows of a node.
func (f *farm) known(name string) site.Memory {
	f.t.Helper()
	k, err := f.ask.Known(context.Background(), "")
	check(f.t, err)
	return k.Nodes[name]
}

// boots are the boot IDs of all guests as they were last seen.
func (f *farm) boots() map[string]string {
	f.t.Helper()
	k, err := f.ask.Known(context.Background(), "")
	check(f.t, err)
	boots := map[string]string{}
	for name, m := range k.Nodes {
		boots[name] = m.Observed.Facets[site.FacetOS].Have["bootID"]
	}
	return boots
}

// settled waits until all nodes are in-sync with the newest commit.
func (f *farm) settled() {
	f.t.Helper()
	head := f.git("-C", "site.git", "rev-parse", "main")
	f.status("all nodes are in-sync with the newest commit", func(s site.Status) bool { return s.Applied.ID == head && allInSync(s) })
}

// approveWhat waits until a set of destruction waits for approval, and approves it.
func (f *farm) approveWhat(node string) {
	f.t.Helper()
	f.eventually("what happens to "+node+" waits for approval", func() bool {
		r, err := f.ask.Report(context.Background(), "")
		if err != nil || len(r.Status.Waiting) != 1 || r.Status.Waiting[0].Node != node {
			return false
		}
		_, err = f.ask.Do(context.Background(), "", site.Order{Verb: site.VerbApprove, Digest: r.Status.Approve, By: "e2e"})
		return err == nil
	})
}

// lookAgain has every machine looked at once more, inside too, and waits until
// that is done.
func (f *farm) lookAgain() {
	f.t.Helper()
	began := time.Now()
	_, err := f.ask.Do(context.Background(), "", site.Order{Verb: site.VerbRetry, By: "e2e"})
	check(f.t, err)
	f.eventually("everything is looked at again", func() bool {
		k, err := f.ask.Known(context.Background(), "")
		if err != nil {
			return false
		}
		for _, m := range k.Nodes {
			if m.Observed.Facets[site.FacetOS].Seen.Before(began) || m.Observed.Facets[site.FacetDefinition].Seen.Before(began) {
				return false
			}
		}
		return true
	})
}

// calls counts the calls of libvirt's functions with a name.
func (f *farm) calls(name string) int {
	n := 0
	for _, c := range f.hypervisor.Calls() {
		if strings.HasPrefix(c, name) {
			n++
		}
	}
	return n
}
