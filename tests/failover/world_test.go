package main

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	memberlist "github.com/slipway-gitops/slipway/engine/member"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/failover/judge"
	"github.com/slipway-gitops/slipway/tests/lab"
)

const (
	password     = "failover"
	statusBranch = "slipway/status/town"
	// patience is longer than a machine is waited for whose installer lost the daemon that served its image.
	patience = 6 * time.Minute
	// keep is the variable that names a folder for the history and the logs of a test.
	keep = "SLIPWAY_KEEP"
)

// names are the machines: those that are installed again and again, and those of which other things change.
var names = []string{"new-1", "new-2", "old-1", "old-2"}

func isNew(name string) bool { return strings.HasPrefix(name, "new") }

// world is a site on three hosts: two daemons and a witness, each in a network of its own, and machines behind
// a router.
type world struct {
	t       *testing.T
	dir     string
	program string
	fleet   *lab.Fleet
	key     string // private, opens the systems
	members []*member
	anchors anchors

	generation int
	order      []string // the boot order of old-1
	power      string   // of old-2

	writes map[place]judge.Write
	stamps *stamps
	told   notes
}

// place is where a write is in the history of the records.
type place struct{ revision, sub int64 }

// notes are what the people of the test did and were told.
type notes struct {
	mu  sync.Mutex
	all []judge.Event
}

func (w *world) note(e judge.Event) {
	w.told.mu.Lock()
	defer w.told.mu.Unlock()
	w.told.all = append(w.told.all, e)
}

func (w *world) events() []judge.Event {
	w.told.mu.Lock()
	defer w.told.mu.Unlock()
	return slices.Clone(w.told.all)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	check(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *world) git(args ...string) string {
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

// newWorld has three members that keep the records and vote, and all nodes in-sync. The disk of the first
// daemon is small.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), program: os.Getenv(insideNetwork), generation: 1, order: []string{"Hdd", "Pxe"}, power: "on", writes: map[place]judge.Write{}, stamps: &stamps{all: map[[32]byte]time.Time{}}}
	w.anchors = findAnchors(t, w.program)
	if dir := os.Getenv(keep); dir != "" {
		t.Cleanup(func() { check(t, run("cp "+w.path("a.log")+" "+w.path("b.log")+" "+w.path("c.log")+" "+dir)) })
	}
	layNetwork(t)
	w.startFleet()
	w.write("cred/bmc", "hosts: "+machines+"\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	w.write("cred/os", "hosts: "+machines+"\nuse: ssh\nports: 1024-65535\nusername: admin\n\n"+w.key)
	w.write("site/cue.mod/module.cue", "module: \"e2e.example/site\"\nlanguage: version: \"v0.17.0\"\n")
	w.write("site/site.cue", w.design())
	w.git("init", "-q", "-b", "main", "site")
	w.git("-C", "site", "add", "-A")
	w.git("-C", "site", "commit", "-q", "-m", "the site")
	w.git("clone", "-q", "--bare", "site", "site.git")
	w.git("-C", "site.git", "config", "core.logAllRefUpdates", "always")
	w.git("-C", "site", "remote", "add", "origin", "../site.git")
	a, b, c := w.newMember("a", 2, false), w.newMember("b", 3, false), w.newMember("c", 4, true)
	w.members = []*member{a, b, c}
	for _, m := range w.members {
		go w.stamps.follows(t.Context(), m)
	}
	does(t, "mount -t tmpfs -o size=800m,mode=700 tmpfs "+a.state())
	t.Cleanup(func() { _ = run("umount -l " + a.state()) })
	a.tool("member", "init", a.address(), "--join", a.folder())
	a.start()
	t.Cleanup(func() {
		for _, m := range w.members {
			if m.cmd != nil && !m.dead() {
				_ = m.cmd.Process.Kill()
				<-m.ended
			}
		}
	})
	w.until("the first daemon leads", func() bool { _, leads := a.status(); return leads })
	a.tool("member", "add", b.address(), "--folder", b.folder(), "--join", a.folder())
	b.start()
	a.tool("member", "add", c.address(), "--folder", c.folder(), "--join", a.folder(), "--witness")
	c.start()
	return w
}

func (w *world) startFleet() {
	w.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(w.t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	check(w.t, err)
	signer, err := ssh.NewSignerFromKey(private)
	check(w.t, err)
	w.key = string(pem.EncodeToMemory(block))
	config := lab.Config{Seed: "failover", OwnNetwork: true, ImageAddr: images, Latency: lab.Latency{GET: 8 * time.Millisecond, Write: 25 * time.Millisecond,
		PowerOn: 200 * time.Millisecond, PowerOff: 200 * time.Millisecond, Boot: 400 * time.Millisecond, Install: time.Second}}
	for i, name := range names {
		config.Machines = append(config.Machines, lab.MachineConfig{
			Name: name, BMCAddr: fmt.Sprintf("10.95.1.%d", i+1), OSAddr: fmt.Sprintf("10.95.2.%d", i+1), Identity: identity(i), Username: "admin", Password: password,
			AuthorizedKeys: []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}, Power: "off", Blank: isNew(name), BootOrder: []string{"Hdd", "Pxe"},
		})
	}
	w.fleet, err = lab.Start(config)
	check(w.t, err)
	w.t.Cleanup(func() { check(w.t, w.fleet.Close()) })
}

func identity(i int) site.Identity {
	return site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i+1), Serial: fmt.Sprintf("HA%d", i+1)}
}

// design is what the machines are to be now.
func (w *world) design() string {
	var b strings.Builder
	var digests []string
	for _, name := range names {
		digests = append(digests, fmt.Sprintf("%q: %q", name, w.fleet.ImageSHA256("debian12", name, w.generation)))
	}
	fmt.Fprintf(&b, `package town

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", maxFailures: "100%%", firstContact: "repair", pollEvery: "300ms", observeEvery: "1s", reportEvery: "500ms"}}
roles: worker: {}
racks: r1: {}
credentials: {bmc: {}, os: {}}
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
`, w.fleet.ImageURL("debian12"), strings.Join(digests, "\n"), strings.ReplaceAll(strings.TrimSpace(string(w.fleet.CA())), "\n", "\n\t\t"))
	for i, name := range names {
		id := identity(i)
		fmt.Fprintf(&b, "nodes: %q: {\n\tidentity: {uuid: %q, serial: %q}\n\tendpoints: manager: url: %q\n\tendpoints: os: {url: %q, trust: hostKeys: [%q]}\n",
			name, id.UUID, id.Serial, w.fleet.BMCURL(name), w.fleet.OSURL(name), w.fleet.HostKey(name))
		switch {
		case isNew(name):
			fmt.Fprintf(&b, "\tprofiles: [\"worker\"]\n\tgeneration: %d\n", w.generation)
		case name == "old-1":
			fmt.Fprintf(&b, "\tprofiles: [\"worker\"]\n\tboot: order: [%q, %q]\n", w.order[0], w.order[1])
		default:
			fmt.Fprintf(&b, "\tprofiles: [\"worker\"]\n\tpower: %q\n", w.power)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// commit pushes the design of now.
func (w *world) commit(message string) {
	w.t.Helper()
	w.write("site/site.cue", w.design())
	w.git("-C", "site", "commit", "-qam", message)
	w.git("-C", "site", "push", "-q", "origin", "main")
}

func (w *world) head() string { return w.git("-C", "site.git", "rev-parse", "main") }

// until waits for a condition. Members that end meanwhile are started again.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		for _, m := range w.members {
			if m.cmd != nil {
				m.restart()
			}
		}
		if time.Now().After(end) {
			var text []string
			for _, m := range w.members {
				s, leads := m.status()
				text = append(text, fmt.Sprintf("%s leads: %t, %+v, problems %+v\n%s", m.name, leads, s.Nodes, s.Problems, m.logEnd()))
			}
			w.t.Fatalf("never: %s\n%s", what, strings.Join(text, "\n"))
		}
	}
}

// leader is the daemon that leads by the latest term, with its status; nil if none says that it does. One that was cut off
// does not know yet that its term is over.
func (w *world) leader() (last *member, of site.Status) {
	for _, m := range w.members {
		if s, leads := m.status(); leads && (last == nil || s.Term > of.Term) {
			last, of = m, s
		}
	}
	return last, of
}

// settle waits until all members run, the newest design is in force, and all machines are as it says.
func (w *world) settle() {
	w.t.Helper()
	head := w.head()
	w.until("all members run, and all machines are as designed", func() bool {
		l, s := w.leader()
		if l == nil || s.Applied.ID != head || s.Counts()[site.InSync] != len(names) {
			return false
		}
		all, err := memberlist.NewClient(l.state()).List(w.t.Context())
		for _, m := range all {
			if !m.Votes || m.Trouble != "" {
				return false
			}
		}
		return err == nil && len(all) == len(w.members) && !slices.ContainsFunc(w.members, (*member).dead)
	})
}

// history is all that the judge is given. The members have stopped.
func (w *world) history() judge.History {
	w.t.Helper()
	h := judge.History{Events: w.events(), Branch: judge.Branch{Parents: map[string][]string{}}}
	for _, c := range w.fleet.Calls() {
		h.Calls = append(h.Calls, judge.Call(c))
	}
	if len(h.Calls) != w.fleet.CallCount() {
		w.t.Errorf("the laboratory has the last %d of %d calls", len(h.Calls), w.fleet.CallCount())
	}
	for _, at := range slices.SortedFunc(maps.Keys(w.writes), func(a, b place) int { return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.sub, b.sub)) }) {
		x := w.writes[at]
		x.At = w.stamps.of(x.Key, x.Value)
		h.Writes = append(h.Writes, x)
	}
	text, err := os.ReadFile(w.path("site.git/logs/refs/heads/" + statusBranch))
	check(w.t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if strings.Trim(f[0], "0") == "" {
			f[0] = ""
		}
		h.Branch.Updates = append(h.Branch.Updates, [2]string{f[0], f[1]})
	}
	for line := range strings.Lines(w.git("-C", "site.git", "log", "--reflog", "--all", "--format=%H %P")) {
		if f := strings.Fields(line); len(f) > 0 {
			h.Branch.Parents[f[0]] = f[1:]
		}
	}
	return h
}
