package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// shelf has files as a test says, all of them by default, and notes what the
// engine asks of it. It outlives daemons, as the store does.
type shelf struct {
	changes chan struct{}

	mu      sync.Mutex
	states  map[string]artifact.State // by digest; those that are not in it are there
	off     error                     // why nothing is served
	moved   bool                      // earlier URLs do not lead here any more
	wanted  []artifact.File
	retries int
	urls    int
	grants  map[string]artifact.Grant
	reads   map[string]artifact.Reads
}

func newShelf() *shelf {
	return &shelf{changes: make(chan struct{}, 1), states: map[string]artifact.State{}, grants: map[string]artifact.Grant{}, reads: map[string]artifact.Reads{}}
}

func (s *shelf) Want(files []artifact.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = files
}

func (s *shelf) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries++
}

func (s *shelf) State(digest string) artifact.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.states[digest]; ok {
		return state
	}
	return artifact.State{Ready: true}
}

// Frames are there where the image is; their digest is told from its own.
func (s *shelf) Frames(digest, form string) (artifact.Info, bool) {
	return artifact.Info{SHA256: digest + "-" + form}, s.State(digest).Ready
}

func (s *shelf) Content(digest string) (io.ReadCloser, int64, error) {
	return io.NopCloser(strings.NewReader(digest)), int64(len(digest)), nil
}

func (s *shelf) Changes() <-chan struct{}       { return s.changes }
func (s *shelf) Use(string)                     {}
func (s *shelf) Towards(string) (string, error) { return "192.0.2.1", nil }
func (s *shelf) Authority() string              { return "" }

func (s *shelf) Serving() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}

func (s *shelf) URL(host, digest string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls++
	return fmt.Sprintf("http://daemon.test:9480/TOKEN%d-%s/%.8s.iso", s.urls, host, digest), s.off
}

func (s *shelf) Reaches(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.moved && url != ""
}

func (s *shelf) Grant(g artifact.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[g.Node] = g
}

func (s *shelf) Revoke(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.grants, node)
}

func (s *shelf) Reads(node string) (artifact.Reads, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.reads[node]
	return r, ok
}

// set says how it stands with a file, and tells of it.
func (s *shelf) set(digest string, state artifact.State) {
	s.mu.Lock()
	s.states[digest] = state
	s.mu.Unlock()
	s.tell()
}

func (s *shelf) tell() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// served are the grants, by node.
func (s *shelf) served() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for node, g := range s.grants {
		all[node] = g.URL
	}
	return all
}

// given are the URLs that a machine was given with its installations, and
// through which it was written to, each once.
func (w *world) given(machine string) (urls []string) {
	for _, c := range w.fleet.Calls() {
		if c.Machine == machine && c.Step.Action == site.ActionInstall && !slices.Contains(urls, c.Step.Image.URL) {
			urls = append(urls, c.Step.Image.URL)
		}
	}
	return urls
}

const debianURL = "http://images.example/debian.iso"

// slow is usual with an installer that takes its time.
var slow = drivertest.Config{Latency: 200 * time.Millisecond, PowerTime: 30 * time.Second, InstallTime: 25 * time.Minute, OSTime: 40 * time.Second}

// forgetServed has the records be those of a version that served nothing.
func (w *world) forgetServed(name string) {
	w.t.Helper()
	store, err := record.Open(w.t.Context(), w.dir, record.Options{NoSync: true, Tick: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	snap, err := store.Site("test").Load(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	r := snap.Nodes[name].Recorded
	if r.InFlight == nil || r.InFlight.Served == "" {
		w.t.Fatalf("no installation is recorded as in flight: %+v", r.InFlight)
	}
	r.InFlight.Served = ""
	if err := errors.Join(store.Site("test").PutNode(w.t.Context(), name, r), store.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// An installation waits until its image is in the store; it is fetched before
// the installation is approved, and goes on as soon as it is there.
func TestAnInstallationWaitsForItsImage(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.files.set("d1", artifact.State{})
		w.waitsForApproval("a")
		if want := []artifact.File{{SHA256: "d1", URL: debianURL, For: "image debian"}}; !slices.Equal(w.files.wanted, want) {
			t.Errorf("while it waits for approval %+v is wanted, want %+v", w.files.wanted, want)
		}
		w.approve()
		w.after(time.Minute)
		w.want("a", site.Progressing)
		if n := w.node("a"); n.Reason != "image debian is being fetched" || n.Detail != "others are fetched first" {
			t.Errorf("it says %q, %q", n.Reason, n.Detail)
		}
		w.files.set("d1", artifact.State{Fetching: true, Have: 310e6, Size: 740e6, From: debianURL})
		w.after(time.Second)
		if n := w.node("a"); n.Reason != "image debian is being fetched" || n.Detail != "41 %, 310 MB of 740 MB, from "+debianURL {
			t.Errorf("it says %q, %q", n.Reason, n.Detail)
		}
		writes := w.fleet.Machine("a").Counts().Writes
		w.after(10 * time.Minute)
		if now := w.fleet.Machine("a").Counts().Writes; now != writes {
			t.Errorf("%d requests changed the machine meanwhile", now-writes)
		}
		w.files.set("d1", artifact.State{Ready: true})
		w.after(time.Second)
		if len(w.given("a")) != 1 {
			t.Errorf("a second after the image is there nothing is done: %+v", w.node("a"))
		}
		w.until("in-sync", 20*time.Minute, w.is(site.InSync, "a"))
		w.files.mu.Lock()
		defer w.files.mu.Unlock()
		if len(w.files.wanted) > 0 {
			t.Errorf("afterwards %v is wanted", w.files.wanted)
		}
	}, "a")
}

// An image that cannot be had is told with what was expected and got, before the
// approval too, and is fetched again with the next commit and by order.
func TestAnImageThatCannotBeHadCallsAPerson(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		const why = "the file from h has the SHA-256 bad (1 kB), and d1 is expected"
		w.files.set("d1", artifact.State{Why: why, Retry: time.Now().Add(time.Hour), Person: true})
		w.waitsForApproval("a")
		if notes := w.node("a").Notes; !slices.Contains(notes, "image debian could not be fetched: "+why) {
			t.Errorf("before the approval the notes are %q", notes)
		}
		w.approve()
		w.after(time.Minute)
		n := w.node("a")
		if n.State != site.Blocked || n.Reason != "image debian could not be fetched: "+why || !n.Person || !strings.HasPrefix(n.Detail, "next try at ") {
			t.Errorf("it is %s: %q, %q", n.State, n.Reason, n.Detail)
		}
		before := w.files.retries
		d := w.design("a")
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
		w.commit(d)
		w.after(time.Minute)
		if w.files.retries != before+1 {
			t.Errorf("a commit has it fetched %d times", w.files.retries-before)
		}
		w.do(site.Order{Verb: site.VerbRetry, Node: "a"})
		if w.files.retries != before+2 {
			t.Error("an order does not have it fetched")
		}
		w.files.set("d1", artifact.State{Why: "the server broke off", Retry: time.Now().Add(5 * time.Second)})
		w.after(time.Second)
		if n := w.node("a"); n.State != site.Blocked || n.Person {
			t.Errorf("what may pass by itself: %+v", n)
		}
	}, "a")
}

// An image that is another one, does not fit into the store, or comes from a server that stalls
// keeps its machine as it is, and the node says why in the words of the store.
func TestNothingIsWrittenWithoutTheImage(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		person bool
	}{
		"another digest":       {"the file from h has the SHA-256 bad (1 kB), and d1 is expected", true},
		"a full store":         {"740 MB more do not fit into the artifact store, which holds 9.8 GB and may hold 10 GB; remove images from the design and run `slipway artifact gc`, or raise --artifact-space", true},
		"a mirror that stalls": {"the server sent less than 64 kB of http://images.example/debian.iso in 1m0s", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.files.set("d1", artifact.State{Why: c.why, Retry: time.Now().Add(3 * time.Hour), Person: c.person})
				w.waitsForApproval("a")
				before := w.fleet.Machine("a").Counts()
				w.approve()
				w.after(2 * time.Hour)
				n := w.node("a")
				if n.State != site.Blocked || n.Reason != "image debian could not be fetched: "+c.why || n.Person != c.person || !strings.HasPrefix(n.Detail, "next try at ") {
					t.Errorf("it is %s, person %t: %q, %q", n.State, n.Person, n.Reason, n.Detail)
				}
				if now := w.fleet.Machine("a").Counts(); now.Writes != before.Writes || now.Installs != 0 || len(w.given("a")) > 0 {
					t.Errorf("%d requests changed the machine, and it was erased %d times", now.Writes-before.Writes, now.Installs)
				}
			}, "a")
		})
	}
}

// Without a listener no physical machine is installed, and the way out is said.
func TestNothingIsInstalledWithoutTheServer(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.files.off = artifact.ErrOff
		w.waitsForApproval("a")
		w.approve()
		w.after(time.Minute)
		n := w.node("a")
		if n.State != site.Blocked || !n.Person || !strings.Contains(n.Reason, "--artifact-listen :9480") || len(w.given("a")) > 0 {
			t.Errorf("it is %s: %q", n.State, n.Reason)
		}
		w.files.mu.Lock()
		w.files.off = fmt.Errorf("images cannot be served: address already in use")
		w.files.mu.Unlock()
		w.files.tell()
		w.after(time.Second)
		if n := w.node("a"); n.State != site.Blocked || n.Person || !strings.Contains(n.Reason, "already in use") {
			t.Errorf("it is %s: %q", n.State, n.Reason)
		}
		w.files.mu.Lock()
		w.files.off = nil
		w.files.mu.Unlock()
		w.files.tell()
		w.until("in-sync", 20*time.Minute, w.is(site.InSync, "a"))
	}, "a")
}

func TestAnImageWithoutADigestIsNotInstalled(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := w.design("a")
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
		d.Images["debian"].URL = "http://images.example/{node}.iso"
		w.commit(d)
		w.up()
		w.after(time.Minute)
		w.approve()
		w.after(time.Minute)
		if n := w.node("a"); n.State != site.Blocked || !n.Person || !strings.Contains(n.Reason, "no digest of the file for a") || len(w.given("a")) > 0 {
			t.Errorf("it is %s: %q", n.State, n.Reason)
		}
		if len(w.files.wanted) > 0 {
			t.Errorf("wanted is %v", w.files.wanted)
		}
	}, "a")
}

// A machine is served its image from before its first request until its installer
// is done; it never gets the design's URL, and nobody reads the token.
func TestTheMachineGetsTheServedURL(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		early := 0
		w.fleet.Watch(func(c drivertest.Call) {
			if c.Step.Action == site.ActionInstall && w.files.served()["a"] != c.Step.Image.URL {
				early++
			}
		})
		w.waitsForApproval("a")
		if got := w.files.served(); len(got) > 0 {
			t.Errorf("before the approval %v is served", got)
		}
		w.approve()
		w.until("the installer runs", 5*time.Minute, func() bool { return strings.Contains(w.node("a").Reason, "installer of generation 1 is running") })
		given := w.given("a")
		if len(given) != 1 || !strings.HasPrefix(given[0], "http://daemon.test:9480/TOKEN1-") || early > 0 {
			t.Fatalf("it was given %v, %d times before that was served", given, early)
		}
		for range 2 { // also after a restart
			if got := w.files.served()["a"]; got != given[0] {
				t.Errorf("while the installer runs %q is served, want %q", got, given[0])
			}
			w.crash()
			w.files.grants = map[string]artifact.Grant{}
			w.up()
			<-w.engine.Ready()
			if got := w.files.served()["a"]; got != given[0] {
				t.Errorf("when the records are loaded %q is served, want %q", got, given[0])
			}
			w.after(5 * time.Second)
		}
		w.until("in-sync", 20*time.Minute, w.is(site.InSync, "a"))
		if got := w.files.served(); len(got) > 0 {
			t.Errorf("afterwards %v is served", got)
		}
		for _, e := range w.engine.Events(0) {
			if strings.Contains(e.Text, "TOKEN") {
				t.Errorf("the token is told: %s", e.Text)
			}
		}
		if said := fmt.Sprintf("%+v %+v", w.told.last, w.engine.Report()); strings.Contains(said, "TOKEN") {
			t.Errorf("the token is told: %s", said)
		}
	}, "a")
}

// stopping ends the daemon's steps at their nth request, as a crash does.
type stopping struct {
	driver.Driver
	mu   sync.Mutex
	got  []site.Step
	err  error
	asks bool // for permission, before it fails
}

func (d *stopping) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := d.Driver.Open(ctx, e, s)
	return stoppingMachine{m, d}, err
}

type stoppingMachine struct {
	driver.Machine
	d *stopping
}

func (m stoppingMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	m.d.mu.Lock()
	m.d.got = append(m.d.got, s)
	err, asks := m.d.err, m.d.asks
	m.d.mu.Unlock()
	if err != nil && s.Action == site.ActionInstall {
		if asks {
			err = errors.Join(err, may.Ask(ctx, s))
		}
		return fmt.Errorf("%w: the BMC does not take %s", err, s.Image.URL)
	}
	return m.Machine.Apply(ctx, s, n, may)
}

// The URL is durable before the first request, is the same for every try of one
// installation across restarts, and another one when the old one leads nowhere.
// What a BMC answers with the URL in it is told without the token.
func TestTheURLStaysTheSameAcrossRestarts(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := &stopping{Driver: w.fleet.Driver(), err: driver.ErrBusy}
		w.bmcs = d
		w.waitsForApproval("a")
		w.approve()
		w.after(time.Minute)
		for range 3 {
			if n := w.node("a"); !strings.Contains(n.Reason, "does not take http://daemon.test:9480/…/d1.iso") || strings.Contains(n.Reason, "TOKEN") {
				t.Errorf("it says %q", n.Reason)
			}
			w.crash()
			w.up()
			w.after(time.Minute)
		}
		urls := map[string]bool{}
		for _, s := range d.got {
			urls[s.Image.URL] = true
		}
		if len(d.got) < 8 || len(urls) != 1 {
			t.Fatalf("in %d tries it was given %v", len(d.got), urls)
		}
		if f := w.engine.Known().Nodes["a"].Recorded.InFlight; f == nil || !urls[f.Served] || f.Step.Image.URL != debianURL {
			t.Errorf("recorded is %+v, given was %v", f, urls)
		}
		w.files.moved = true
		d.got, d.err = nil, nil
		w.until("in-sync", 30*time.Minute, w.is(site.InSync, "a"))
		for _, s := range d.got {
			if s.Action == site.ActionInstall && urls[s.Image.URL] {
				t.Error("it was given a URL that leads nowhere")
			}
		}
		if n := w.fleet.Machine("a").Counts().Installs; n != 1 {
			t.Errorf("it was installed %d times", n)
		}
		if r := w.engine.Known().Nodes["a"].Recorded; r.InFlight != nil || r.Installed.Served != "" {
			t.Errorf("recorded is still %+v, %+v", r.InFlight, r.Installed)
		}
	}, "a")
}

// shuttingDown is a machine whose running system is shut down for an approved
// installation. Its approval is not used yet.
func (w *world) shuttingDown(name string) {
	w.t.Helper()
	w.fleet.Machine(name).SetDisk(&site.Marker{})
	w.fleet.Machine(name).SetPower("on")
	w.commit(w.service(name))
	w.up()
	w.after(5 * time.Minute)
	w.want(name, site.InSync)
	w.commit(w.reinstall(nil, name))
	w.after(time.Minute)
	w.approve()
	w.until("the system shuts down", time.Minute, func() bool { return !w.begun(name, site.ActionInstall, time.Time{}).IsZero() })
	if w.used(name) {
		w.t.Fatal("the approval is used before the machine is off")
	}
}

// An image that changes before anything was lost is another approval. The machine
// gets the image of that one, though a URL of the first is recorded.
func TestImageThatChangesBeforeTheApprovalIsUsed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := &stopping{Driver: w.fleet.Driver(), err: driver.ErrBusy}
		w.bmcs = d
		w.waitsForApproval("a")
		w.approve()
		w.after(time.Minute)
		if f := w.recorded("a").InFlight; f == nil || f.Consumed || !strings.HasSuffix(f.Served, "/d1.iso") {
			t.Fatalf("in flight is %+v", f)
		}
		changed := w.design("a")
		changed.Nodes["a"].Image, changed.Nodes["a"].Generation = "debian", 1
		changed.Images["debian"].SHA256 = "d2"
		w.commit(changed)
		w.after(time.Minute)
		w.approve()
		w.after(time.Minute)
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		w.until("in-sync", 30*time.Minute, w.is(site.InSync, "a"))
		for _, s := range d.got {
			if s.Action == site.ActionInstall && !strings.HasSuffix(s.Image.URL, "/"+s.Image.SHA256+".iso") {
				t.Errorf("the image %s was given as %s", s.Image.SHA256, s.Image.URL)
			}
		}
		if i := w.recorded("a").Installed; i == nil || i.Image != "d2" {
			t.Errorf("recorded as installed is %+v", i)
		}
		w.installs("a", 1)
	}, "a")
}

// An image that is lost after the gates were passed keeps the approval from being
// used: a machine whose installer cannot be read would lose its system for nothing.
func TestImageThatIsLostBeforeTheApprovalIsUsed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.shuttingDown("n1")
		w.files.set("d1", artifact.State{Why: "its file was damaged"})
		w.after(10 * time.Minute)
		w.installs("n1", 0)
		if n := w.node("n1"); w.used("n1") || !strings.Contains(n.Reason, "its file was damaged") {
			t.Errorf("the approval is used: %t; it is %s: %q", w.used("n1"), n.State, n.Reason)
		}
		w.files.set("d1", artifact.State{Ready: true})
		w.until("in-sync", 30*time.Minute, w.is(site.InSync, "n1"))
		w.installs("n1", 1)
	}, "n1")
}

// An installation of a version that gave machines the design's URL ends with that
// URL once it has used its approval. Before that it begins anew with a served one.
func TestAnOldInstallationEndsAsItBegan(t *testing.T) {
	for name, asks := range map[string]bool{"approval used": true, "approval open": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				d := &stopping{Driver: w.fleet.Driver(), err: driver.ErrBusy, asks: asks}
				w.bmcs = d
				w.waitsForApproval("a")
				w.approve()
				w.after(time.Minute)
				if w.used("a") != asks {
					t.Fatalf("the approval is used: %t", !asks)
				}
				w.down()
				w.forgetServed("a")
				if asks {
					w.files.set("d1", artifact.State{Why: "gone"})
				}
				w.files.grants = map[string]artifact.Grant{}
				d.got, d.err = nil, nil
				w.up()
				w.after(5 * time.Second)
				served := len(w.files.served()) > 0
				w.until("in-sync", 30*time.Minute, w.is(site.InSync, "a"))
				got := w.given("a")
				if len(got) != 1 || (got[0] == debianURL) != asks || served == asks {
					t.Errorf("it was given %v; served: %t", got, served)
				}
			}, "a")
		})
	}
}

// A machine that reads nothing of its image is noticed.
func TestAnImageThatNobodyReadsIsTold(t *testing.T) {
	inBubble(t, slow, func(w *world) {
		w.files.reads["a"] = artifact.Reads{}
		w.waitsForApproval("a")
		w.approve()
		told := func() bool {
			return slices.ContainsFunc(w.node("a").Notes, func(n string) bool { return strings.Contains(n, "check that the BMC reaches daemon.test:9480") })
		}
		w.after(9 * time.Minute)
		if told() {
			t.Error("told before firmware can have come to it")
		}
		w.until("told", 10*time.Minute, told)
		w.files.mu.Lock()
		w.files.reads["a"] = artifact.Reads{Requests: 1}
		w.files.mu.Unlock()
		w.until("over", 2*time.Minute, func() bool { return !told() })
	}, "a")
}

// What is named must not make room for others.
func TestNamedFiles(t *testing.T) {
	inBubble(t, slow, func(w *world) {
		w.waitsForApproval("a")
		w.approve()
		w.after(5 * time.Minute)
		d := w.design("a")
		d.Nodes["a"].Image, d.Nodes["a"].Generation = "debian", 1
		d.Images["debian"] = &site.Image{URL: debianURL, SHA256: "d2", Digests: map[string]string{"b": "d3"}}
		d.Artifacts = map[string]*site.Artifact{"bios": {SHA256: "d4"}}
		w.commit(d)
		w.after(time.Minute)
		named, err := w.engine.NamedFiles()
		for _, digest := range []string{"d1", "d2", "d3", "d4"} { // d1 is being installed
			if err != nil || !named[digest] {
				t.Errorf("%s is not named: %v, %v", digest, named, err)
			}
		}
	}, "a")
}
