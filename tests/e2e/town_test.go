// Package e2e runs the built daemon against simulated machines: killed at any
// moment, cut off from its repository, and searched for secrets.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

const (
	// patience bounds every wait for a condition.
	patience = 90 * time.Second
	// password opens every BMC; like the private key of the systems it is to
	// be found nowhere but in the credentials.
	password = "canary-bmc-5f1d0c2a"
	// statusBranch is where the daemon reports to.
	statusBranch = "slipway/status/town"
)

// names are the machines: two with a system on their disks, two blank ones
// that the design wants installed. All are off and are to be on.
var names = []string{"old-1", "old-2", "new-1", "new-2"}

func isNew(name string) bool { return strings.HasPrefix(name, "new") }

// quick is a model in which a rollout takes a few seconds, and each request
// long enough to be killed in.
var quick = lab.Latency{GET: 8 * time.Millisecond, Write: 25 * time.Millisecond, PowerOn: 100 * time.Millisecond,
	PowerOff: 100 * time.Millisecond, Boot: 200 * time.Millisecond, Install: 300 * time.Millisecond}

// town is a fleet, the repository of its site, and a daemon that keeps it.
type town struct {
	t      *testing.T
	dir    string
	names  []string // of the machines
	rules  rules
	fleet  *lab.Fleet
	key    string // private, opens the systems
	daemon *daemon
	flags  []string // of the daemon, beside the usual
	images string   // where the daemon serves images, the same at each start
	ask    *control.Client
	waits  time.Duration // for a condition at most; patience if zero
}

// rules are what a town's design says beside its machines.
type rules struct{ cue string }

// atOnce has everything done at the same time.
var atOnce = rules{cue: `
site: schema.#Site & {rollout: {maxUnavailable: "100%", pollEvery: "200ms", observeEvery: "500ms", reportEvery: "300ms"}}
roles: worker: {}
`}

func newTown(t *testing.T) *town {
	t.Helper()
	return foundTown(t, names, atOnce)
}

func foundTown(t *testing.T, names []string, r rules) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir(), names: names, rules: r}
	w.startFleet()
	w.write("cred/bmc", "hosts: 127.95.1.0/24\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	w.write("cred/os", "hosts: 127.95.2.0/24\nuse: ssh\nports: 1024-65535\nusername: admin\n\n"+w.key)
	w.makeRepository(w.design())
	w.dial()
	return w
}

// dial reaches for the daemon, which does not outlive the test.
func (w *town) dial() {
	w.ask = control.Dial(control.Socket(w.path("state")))
	w.t.Cleanup(w.ask.Close)
	w.t.Cleanup(func() {
		if w.daemon != nil && !w.daemon.dead() {
			w.stop() // and what it started, which a kill would leave behind
		}
	})
}

func (w *town) startFleet() {
	w.t.Helper()
	var signer ssh.Signer
	w.key, signer = newKey(w.t)
	config := lab.Config{Seed: "e2e", Latency: quick}
	for i, name := range w.names {
		config.Machines = append(config.Machines, lab.MachineConfig{
			Name: name, BMCAddr: fmt.Sprintf("127.95.1.%d", i+1), OSAddr: fmt.Sprintf("127.95.2.%d", i+1), Identity: identity(i),
			Username: "admin", Password: password, AuthorizedKeys: []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))},
			Power: "off", Blank: isNew(name), BootOrder: []string{"Hdd", "Pxe"},
		})
	}
	var err error
	w.fleet, err = lab.Start(config)
	check(w.t, err)
	w.t.Cleanup(func() { check(w.t, w.fleet.Close()) })
}

func identity(i int) site.Identity {
	return site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i+1), Serial: fmt.Sprintf("E2E%d", i+1)}
}

// makeRepository makes the site's repository, site.git, and the clone that it
// is edited in, site. Nobody can force anything into it.
func (w *town) makeRepository(design string) {
	w.t.Helper()
	w.write("site/cue.mod/module.cue", "module: \"e2e.example/site\"\nlanguage: version: \"v0.17.0\"\n")
	w.write("site/site.cue", design)
	w.git("init", "-q", "-b", "main", "site")
	w.git("-C", "site", "add", "-A")
	w.git("-C", "site", "commit", "-q", "-m", "the site")
	w.git("clone", "-q", "--bare", "site", "site.git")
	w.git("-C", "site.git", "config", "receive.denyNonFastForwards", "true")
	w.git("-C", "site.git", "config", "receive.denyDeletes", "true")
	w.git("-C", "site", "remote", "add", "origin", "../site.git")
}

// design is the site's only CUE file.
func (w *town) design() string {
	var b strings.Builder
	fmt.Fprintf(&b, `package town

import "github.com/slipway-gitops/slipway/schema"
%s
racks: r1: {}
credentials: {bmc: {}, os: {}, outdated: {}}
images: debian12: {url: %q, digests: {%s}}
profiles: worker: {
	role: "worker"
	rack: "r1"
	power: "on"
	boot: order: ["Hdd", "Pxe"]
	image: "debian12"
	endpoints: manager: trust: ca: """
		%s
		"""
}
`, w.rules.cue, w.fleet.ImageURL("debian12"), w.digests(1, w.names...), strings.ReplaceAll(strings.TrimSpace(string(w.fleet.CA())), "\n", "\n\t\t"))
	for i, name := range w.names {
		id := identity(i)
		fmt.Fprintf(&b, "nodes: %q: {\n\tprofiles: [\"worker\"]\n\tidentity: {uuid: %q, serial: %q}\n\tendpoints: manager: url: %q\n\tendpoints: os: {url: %q, trust: hostKeys: [%q]}\n",
			name, id.UUID, id.Serial, w.fleet.BMCURL(name), w.fleet.OSURL(name), w.fleet.HostKey(name))
		if isNew(name) {
			b.WriteString("\tgeneration: 1\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// digests are fields of CUE with the digests of nodes' images in a generation.
func (w *town) digests(generation int, names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%q: %q", name, w.fleet.ImageSHA256("debian12", name, generation)))
	}
	return strings.Join(all, "\n")
}

// designWith is the design in which a node has one more line.
func (w *town) designWith(node, line string) string {
	head := fmt.Sprintf("nodes: %q: {\n", node)
	return strings.Replace(w.design(), head, head+"\t"+line+"\n", 1)
}

// broken is a design that no machine may ever see.
func (w *town) broken() string {
	return strings.Replace(w.design(), `power: "on"`, `power: "onn"`, 1)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *town) path(name string) string { return filepath.Join(w.dir, name) }

func (w *town) write(name, text string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	check(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *town) rename(from, to string) {
	w.t.Helper()
	check(w.t, os.Rename(w.path(from), w.path(to)))
}

// git runs git in the town's folder and gives what it prints.
func (w *town) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=E2E", "-c", "user.email=e2e@example.org"}, args...)...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit pushes another design.
func (w *town) commit(text, message string) {
	w.t.Helper()
	w.write("site/site.cue", text)
	w.git("-C", "site", "commit", "-qam", message)
	w.git("-C", "site", "push", "-q", "origin", "main")
}

// reported waits until the newest commit of the status branch says so in its
// subject, and gives it.
func (w *town) reported(words string) (head string) {
	w.t.Helper()
	w.eventually("the status branch says "+words, func() bool {
		if w.git("-C", "site.git", "branch", "--list", statusBranch) == "" {
			return false
		}
		head = w.git("-C", "site.git", "rev-parse", statusBranch)
		return strings.Contains(w.git("-C", "site.git", "log", "-1", "--format=%s", head), words)
	})
	return head
}

// eventually waits for a condition.
func (w *town) eventually(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(cmp.Or(w.waits, patience)); !ok(); <-tick.C {
		if time.Now().After(end) {
			r, err := w.ask.Report(context.Background(), "")
			w.t.Fatalf("never: %s\n%+v %v\nproblems: %+v\n%s", what, r.Status.Nodes, err, r.Status.Problems, w.logEnd())
		}
	}
}

// status waits until the daemon's status is as asked.
func (w *town) status(what string, ok func(site.Status) bool) {
	w.t.Helper()
	w.eventually(what, func() bool {
		r, err := w.ask.Report(context.Background(), "")
		return err == nil && ok(r.Status)
	})
}

// stateOf is how a node is.
func stateOf(s site.Status, name string) site.NodeStatus {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n
		}
	}
	return site.NodeStatus{}
}

// approve approves the installations that wait. An error is that of a daemon that
// is not there at the moment.
func (w *town) approve() (site.Status, error) {
	r, err := w.ask.Report(context.Background(), "")
	if err != nil || len(r.Status.Waiting) == 0 {
		return r.Status, err
	}
	_, err = w.ask.Do(context.Background(), "", site.Order{Verb: site.VerbApprove, Digest: r.Status.Approve, By: "e2e"})
	return r.Status, err
}

func allInSync(s site.Status) bool {
	return len(s.Nodes) > 0 && s.Counts()[site.InSync] == len(s.Nodes)
}

// converge approves what waits and waits for all nodes.
func (w *town) converge() {
	w.t.Helper()
	w.eventually("all nodes are in-sync", func() bool {
		s, err := w.approve()
		return err == nil && allInSync(s)
	})
}

// intact holds every machine to as many resets and installations as the
// design asks for, and to a number of sessions left behind.
func (w *town) intact(sessions int) {
	w.t.Helper()
	for _, name := range w.names {
		s := w.fleet.Machine(name).State()
		resets, installs, digest := 1, 0, "factory"
		if isNew(name) {
			resets, installs, digest = 2, 1, w.fleet.ImageSHA256("debian12", name, 1)
		}
		switch m := s.Marker; {
		case s.Counts.Resets != resets || s.Counts.Installs != installs:
			w.t.Errorf("%s: %d resets and %d installations, want %d and %d", name, s.Counts.Resets, s.Counts.Installs, resets, installs)
		case s.Power != "On" || s.Media != "" || s.DiskDigest != digest:
			w.t.Errorf("%s is %s with medium %q and disk %s, want it on without a medium and with disk %s", name, s.Power, s.Media, s.DiskDigest, digest)
		case isNew(name) && (m == nil || *m != site.Marker{Node: name, Generation: 1, Image: digest}):
			w.t.Errorf("%s: the marker is %+v", name, m)
		case s.Sessions > sessions:
			w.t.Errorf("%s: %d sessions are left, want at most %d", name, s.Sessions, sessions)
		}
	}
	if w.t.Failed() {
		w.t.Log(w.writes())
	}
}

// writes tells of the requests that changed something, for a failed test.
func (w *town) writes() string {
	var b strings.Builder
	for _, c := range w.fleet.Calls() {
		if c.Write() {
			fmt.Fprintf(&b, "%s %s %s %s %d\n", c.When.Format("05.000"), c.Machine, c.Method, c.Path, c.Status)
		}
	}
	return b.String() + w.logEnd()
}
