package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// digestOfAll is the set that waits at the fake.
const digestOfAll = "0123456789abcdef0123456789abcdef"

// fake is a daemon of one site, "berlin", with one node, "n1".
type fake struct {
	verified []site.VerificationRequest
	mu       sync.Mutex
	orders   []site.Order
	reason   string
	events   []site.Event
	asked    chan uint64 // told of every question for events, unless nil
	audit    []site.AuditEntry
	full     bool // the audit log cannot be written
	left     bool // n1 is in no report

	waiting site.Losses

	pulls int // how many pull requests there are, and what each is
	pull  site.ProposalDetail

	planned, slow int  // how often a commit was planned, and how often it has to be until there is a plan
	planning      bool // it is being planned

	approved site.GrantedState // of the access of the design
	inForce  site.Granted
}

func (f *fake) Sites() []string { return []string{"berlin"} }

func (f *fake) Design(string) (*site.Site, error) {
	return &site.Site{Name: "berlin", SchemaVersion: "1", Nodes: map[string]*site.Node{"n1": {Name: "n1", Role: "compute", Rack: "r1"}}}, nil
}

// Where has n1 in rack r1 and n2 in r2.
func (f *fake) Where(_, node string) (rack, role string, known bool) {
	switch node {
	case "n1":
		return "r1", "compute", true
	case "n2":
		return "r2", "storage", true
	}
	return "", "", false
}

func (f *fake) Access(string) (approved site.GrantedState, inForce site.Granted, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.approved, f.inForce, nil
}

func (f *fake) AccessReport(string) (site.AccessReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := site.AccessReport{Design: f.inForce, By: f.approved.By, When: f.approved.When, Waiting: f.inForce.Digest()}
	r.Changes, _ = access.Changes(f.approved.Granted, f.inForce)
	return r, nil
}

func (f *fake) AddAudit(_ context.Context, _ string, e site.AuditEntry) (site.AuditEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return e, errors.New("disk full")
	}
	e.Seq = uint64(len(f.audit) + 1)
	f.audit = append(f.audit, e)
	return e, nil
}

func (f *fake) EndAudit(_ context.Context, _ string, e site.AuditEntry) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.audit[e.Seq-1] = e
	return nil
}

func (f *fake) Audit(_ context.Context, _ string, after uint64, most int) ([]site.AuditEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.audit[min(after, uint64(len(f.audit))):]
	return slices.Clone(all[:min(len(all), most)]), nil
}

func (f *fake) Report(name string) (site.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != "" && name != "berlin" {
		return site.Report{}, fmt.Errorf("%w: no site %q here", site.ErrNotFound, name)
	}
	r := site.Report{Status: site.Status{Site: "berlin", Waiting: f.waiting, Nodes: []site.NodeStatus{{Name: "n1", State: site.InSync, Reason: f.reason, Rack: "r1", Role: "compute"}}}}
	if f.left {
		r.Status.Nodes = nil
	}
	if len(f.waiting) > 0 {
		r.Status.Approve = digestOfAll
	}
	return r, nil
}

// waits has the erasure of nodes wait for approval.
func (f *fake) waits(nodes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range nodes {
		f.waiting = append(f.waiting, site.Loss{Node: n, Action: "install"})
	}
}

func (f *fake) Closeup(_ context.Context, siteName, node string) (site.Closeup, error) {
	if node != "n1" {
		return site.Closeup{}, fmt.Errorf("%w: no node %q", site.ErrNotFound, node)
	}
	return site.Closeup{Inventory: &site.Inventory{Model: "R750", Drives: []site.Drive{{Bytes: 1e12}}}}, nil
}

func (f *fake) File(_ context.Context, _, node, key string) (item.Content, error) {
	if node != "n1" {
		return item.Content{}, fmt.Errorf("%w: no node %q", site.ErrNotFound, node)
	}
	return item.Content{Text: "of " + key + "\n", Bytes: 9}, nil
}

func (f *fake) Chart(name string) (site.RolloutChart, error) {
	if _, err := f.Report(name); err != nil {
		return site.RolloutChart{}, err
	}
	return site.RolloutChart{Site: "berlin", Since: time.Unix(1000, 0).UTC(), Rows: []site.ChartRow{{Node: "n2"}, {Node: "n1"}, {Node: "n3"}}}, nil
}

func (f *fake) Verification(name string) (site.Verification, error) {
	if _, err := f.Report(name); err != nil {
		return site.Verification{}, err
	}
	return site.Verification{Site: "berlin", Checks: []site.Check{{Subject: "source"}, {Node: "n1", Subject: "manager"}, {Node: "n2", Subject: "manager"}}}, nil
}

func (f *fake) RunVerification(_ context.Context, name string, r site.VerificationRequest) (site.VerificationRun, error) {
	if _, err := f.Report(name); err != nil {
		return site.VerificationRun{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verified = append(f.verified, r)
	f.orders = append(f.orders, site.Order{Verb: site.VerbVerify, By: r.By})
	return site.VerificationRun{Since: time.Unix(1000, 0).UTC(), By: r.By, Nodes: len(r.Nodes)}, nil
}

func (f *fake) Known(string) (site.Known, error) {
	return site.Known{Nodes: map[string]site.Memory{"n1": {
		Recorded: site.Recorded{Adopted: &site.Adoption{Machine: site.Identity{Serial: "S1"}}},
		Observed: site.Observed{Identity: site.Identity{Serial: "S1"}},
	}}, Serves: map[site.Facet]bool{site.FacetBIOS: true}}, nil
}

func (f *fake) Events(_ string, after uint64) ([]site.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked != nil {
		defer func() { f.asked <- after }()
	}
	var since []site.Event
	for _, e := range f.events {
		if e.Seq > after {
			since = append(since, e)
		}
	}
	return since, nil
}

func (f *fake) happens(text string) { f.add(site.Event{Kind: site.EventState, Text: text}) }

func (f *fake) add(e site.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Seq = uint64(len(f.events) + 1)
	f.events = append(f.events, e)
}

func (f *fake) History(_ context.Context, _, node string) ([]site.Event, error) {
	return []site.Event{{Node: node, Kind: site.EventBegun, Text: "power-on"}}, nil
}

func (f *fake) CertifyLogin(_ context.Context, _ string, r site.SSHRequest) (site.SSHGrant, error) {
	if r.Node != "n1" {
		return site.SSHGrant{}, fmt.Errorf("%w: no node %q", site.ErrNotFound, r.Node)
	}
	return site.SSHGrant{Node: r.Node, Account: r.Account, Principal: r.By, Serial: 7}, nil
}

func (f *fake) MachineLog(_, node string) (site.MachineLog, error) {
	if node != "n1" {
		return site.MachineLog{}, fmt.Errorf("%w: no node %q", site.ErrNotFound, node)
	}
	return site.MachineLog{Entries: []site.Entry{{ID: "7", Severity: "Critical", Text: "fan 3 fails"}}}, nil
}

func (f *fake) Watched(string) (site.Watched, error) { return site.Watched{}, nil }

func (f *fake) Said(_ context.Context, _, node string) ([]site.Said, error) {
	if node != "n1" {
		return nil, fmt.Errorf("%w: no node %q", site.ErrNotFound, node)
	}
	return []site.Said{{Seq: 7, Text: "unpacking the image"}}, nil
}

func (f *fake) Console(_ context.Context, name, node string) ([]byte, error) {
	if name != "berlin" || node != "n1" {
		return nil, fmt.Errorf("%w: no %s in %s", site.ErrNotFound, node, name)
	}
	return []byte("booting\r\n\x1b[0m\xff"), nil
}

func (f *fake) Do(_ context.Context, _ string, o site.Order) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case o.Node != "" && o.Node != "n1":
		return "", fmt.Errorf("%w: site berlin has no node %q", site.ErrNotFound, o.Node)
	case o.Verb == site.VerbApprove:
		return "", fmt.Errorf("%w: nothing waits for approval", site.ErrRefused)
	case o.Verb == site.VerbRetry:
		return "", errors.New("disk full")
	}
	f.orders = append(f.orders, o)
	return "paused " + o.Node, nil
}

func (f *fake) set(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = reason
}

// serving runs a daemon until the test ends and gives its socket.
func serving(t *testing.T, d Daemon) (socket string, stop func() error) {
	t.Helper()
	socket = Socket(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, "", d, slog.New(slog.DiscardHandler)) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	await(t, socket)
	return socket, stop
}

// await waits until something answers on the socket.
func await(t *testing.T, socket string) {
	t.Helper()
	for t.Context().Err() == nil {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return
		}
	}
}

func dial(t *testing.T, socket string) *Client {
	c := Dial(socket)
	t.Cleanup(c.Close)
	return c
}

func TestCallsCross(t *testing.T) {
	f := &fake{reason: "as designed"}
	socket, stop := serving(t, f)
	c := dial(t, socket)
	remote := c

	got, err := remote.Report(t.Context(), "")
	want, _ := f.Report("")
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("report: %v %s", err, cmp.Diff(want, got))
	}
	known, err := remote.Known(t.Context(), "berlin")
	if here, _ := f.Known("berlin"); err != nil || !cmp.Equal(known, here) {
		t.Errorf("known: %v %s", err, cmp.Diff(here, known))
	}
	chart, err := remote.Chart(t.Context(), "berlin")
	if here, _ := f.Chart("berlin"); err != nil || !cmp.Equal(chart, here) {
		t.Errorf("chart: %v %s", err, cmp.Diff(here, chart))
	}
	file, err := remote.File(t.Context(), "berlin", "n1", "files./etc/a b&c")
	if here, _ := f.File(t.Context(), "berlin", "n1", "files./etc/a b&c"); err != nil || file != here {
		t.Errorf("file: %v %+v", err, file)
	}
	f.happens("first")
	f.happens("second")
	if events, err := remote.Events(t.Context(), "berlin", 1); err != nil || len(events) != 1 || events[0].Text != "second" {
		t.Errorf("events: %v %v", events, err)
	}
	if events, err := remote.History(t.Context(), "berlin", "n1"); err != nil || len(events) != 1 || events[0].Node != "n1" {
		t.Errorf("history: %v %v", events, err)
	}
	o := site.Order{Verb: site.VerbPause, Node: "n1", By: "anna", Reason: "rack move", Until: time.Now().Add(time.Hour).UTC().Round(0)}
	said, err := remote.Do(t.Context(), "berlin", o)
	if err != nil || said != "paused n1" {
		t.Errorf("order: got %q %v", said, err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	o.By = me.Username // not anna, who the client says it is
	if want := []site.Order{o}; !cmp.Equal(f.orders, want) {
		t.Errorf("order: %s", cmp.Diff(want, f.orders))
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestErrorsCrossAsWhatTheyAre(t *testing.T) {
	socket, _ := serving(t, &fake{})
	c := dial(t, socket)
	_, unknownSite := c.Report(t.Context(), "paris")
	_, unknownNode := c.Do(t.Context(), "", site.Order{Verb: site.VerbPause, Node: "n9", Reason: "r"})
	_, refused := c.Do(t.Context(), "", site.Order{Verb: site.VerbApprove, Digest: digestOfAll})
	_, other := c.Do(t.Context(), "", site.Order{Verb: site.VerbRetry})
	for _, x := range []struct {
		err, is error
		text    string
	}{
		{unknownSite, site.ErrNotFound, `not found: this daemon manages site berlin, not paris`},
		{unknownNode, site.ErrNotFound, `not found: site berlin has no node "n9"`},
		{refused, site.ErrRefused, "refused: nothing waits for approval"},
		{other, other, "disk full"},
	} {
		if x.err == nil || x.err.Error() != x.text || !errors.Is(x.err, x.is) {
			t.Errorf("got %v, want %q", x.err, x.text)
		}
	}
	if errors.Is(other, site.ErrNotFound) || errors.Is(other, site.ErrRefused) {
		t.Error("an error of no kind came as one of some kind")
	}
}

func TestOrderIsTheCallers(t *testing.T) {
	f := &fake{}
	socket, _ := serving(t, f)
	forged := site.Order{Verb: site.VerbPause, Reason: "r", Source: &site.ApprovalSource{Kind: site.ByMerge, By: "bob", Proposal: 7}}
	if _, err := dial(t, socket).Do(t.Context(), "", forged); err != nil || f.orders[0].Source != nil {
		t.Errorf("a client says how it came: %+v, %v", f.orders, err)
	}
	f.orders = nil
	for _, more := range []string{`"source":{"kind":"merge","by":"bob","proposal":7}`, `"by":"bob"`, `"verb":"approve"`} {
		answer := send(t, socket, post(`{"all":true,"reason":"r",`+more+`}`))
		if !strings.HasPrefix(answer, "HTTP/1.1 400") || len(f.orders) != 0 {
			t.Errorf("%s by hand: %s, %+v", more, answer, f.orders)
		}
	}
	if _, err := dial(t, socket).Do(t.Context(), "", site.Order{Verb: site.VerbPause, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if f.orders[0].By != me.Username {
		t.Errorf("by %q, want %q", f.orders[0].By, me.Username)
	}
}

func TestOnlyTheOwnerMayConnect(t *testing.T) {
	socket, _ := serving(t, &fake{})
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode(), fs.ModeSocket|0o600; got != want {
		t.Errorf("mode %v, want %v", got, want)
	}
}

func TestWatch(t *testing.T) {
	f := &fake{reason: "first"}
	socket, stop := serving(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	var seen []string
	err := dial(t, socket).Watch(ctx, "berlin", func(r site.Report) {
		seen = append(seen, r.Status.Nodes[0].Reason)
		f.set("second")
		if len(seen) == 2 {
			cancel()
		}
	}, func(err error) { t.Error(err) })
	if want := []string{"first", "second"}; err != nil || !cmp.Equal(seen, want) {
		t.Errorf("got %v %v, want %v", seen, err, want)
	}

	// The daemon is restarted.
	ctx, cancel = context.WithCancel(t.Context())
	var told []error
	shown := 0
	err = dial(t, socket).Watch(ctx, "", func(site.Report) {
		if shown++; shown == 1 {
			stop()
		} else {
			cancel()
		}
	}, func(err error) {
		told = append(told, err)
		go Serve(ctx, socket, "", f, nil)
	})
	if err != nil || shown != 2 || len(told) != 1 || !errors.Is(told[0], ErrNoDaemon) {
		t.Errorf("shown %d times, told %v, %v", shown, told, err)
	}
}

func TestNoDaemon(t *testing.T) {
	socket := Socket(t.TempDir())
	_, err := dial(t, socket).Report(t.Context(), "")
	if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "slipway run") {
		t.Errorf("got %v, want ErrNoDaemon, the path and what to do", err)
	}
}

// abandon makes a socket file that nobody listens on, as a killed daemon does.
func abandon(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	socket := Socket(t.TempDir())
	abandon(t, socket)
	if _, err := dial(t, socket).Report(t.Context(), ""); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("got %v, want ErrNoDaemon", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, "", &fake{}, nil) }()
	await(t, socket)
	if _, err := dial(t, socket).Report(t.Context(), ""); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The members of a group can open the socket, where the daemon is told so.
func TestSocketOfAGroup(t *testing.T) {
	g, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	socket := Socket(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, socket, g.Name, &fake{}, nil) }()
	await(t, socket)
	if _, err := dial(t, socket).Report(t.Context(), ""); err != nil { // what is answered has its mode
		t.Error(err)
	}
	info, err := os.Lstat(socket)
	cancel()
	if served := <-ended; served != nil {
		t.Error(served)
	}
	if err != nil || info.Mode() != fs.ModeSocket|0o660 || info.Sys().(*syscall.Stat_t).Gid != uint32(os.Getgid()) {
		t.Errorf("the socket is %v, %v", info, err)
	}
	if err := Serve(t.Context(), socket, "no-such-group", &fake{}, nil); err == nil || !strings.Contains(err.Error(), "--socket-group") {
		t.Errorf("a group that is not there: %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket of a daemon that did not start: %v", err)
	}
}

func TestServeRefuses(t *testing.T) {
	live, _ := serving(t, &fake{})
	file := filepath.Join(t.TempDir(), "control.sock")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]string{
		live:                               "another slipway answers",
		file:                               "not a socket",
		"/" + strings.Repeat("a", 108):     "choose a state directory with a shorter path",
		filepath.Join(t.TempDir(), "a/b/"): "no such file",
	} {
		if err := Serve(t.Context(), socket, "", &fake{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", socket, err, want)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the foreign file was touched: %q %v", b, err)
	}
	if _, err := dial(t, live).Report(t.Context(), ""); err != nil {
		t.Errorf("the live daemon was disturbed: %v", err)
	}
}

// TestBadRequests sends what no client of ours would.
func TestBadRequests(t *testing.T) {
	f := &fake{}
	socket, _ := serving(t, f)
	const path = "/api/v1/sites/berlin/pause"
	for _, c := range []struct{ request, want string }{
		{post(`{"node":"n1","reason":"r","force":true}`), "400"},
		{post(`{"node":"n1",`), "400"},
		{post(`{"node":"n1","reason":"r"}{"node":"n1"}`), "400"},
		{post(`{"reason":"r"}`), "400"}, // a node that was forgotten is not the whole site
		{post(`{"node":"n1","all":true,"reason":"r"}`), "400"},
		{post(`{"node":"n1"}`), "400"},
		{post(`{"node":"../n1","reason":"r"}`), "404"},
		{post(`{"node":"n1","reason":"r","until":"2001-01-01T00:00:00Z"}`), "400"},
		{post(`{"all":true,"reason":"` + strings.Repeat("a", maxOrder) + `"}`), "400"},
		{post(`{"all":true,"reason":"` + strings.Repeat("a", maxReason+1) + `"}`), "400"},
		{strings.Replace(post(`{"all":true,"reason":"r"}`), "application/json", "text/plain", 1), "400"},
		{"GET /api/v1/sites/berlin/report?x=" + strings.Repeat("a", 4*maxHeader) + " HTTP/1.1\r\nHost: x\r\n\r\n", "431"},
		{"GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
		{"GET /api/v1/sites/berlin/../berlin/report HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		{"GET /api/v1//sites HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		{"GET /api/v1/sites/ber%6cin/report HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		{"GET /api/v2/sites HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
		{"nonsense\r\n\r\n", "400"},
	} {
		if got := send(t, socket, c.request); !strings.HasPrefix(got, "HTTP/1.1 "+c.want) {
			t.Errorf("%.60q: got %.80q, want %s", c.request, got, c.want)
		}
	}
	if len(f.orders) > 0 {
		t.Errorf("%d bad orders were carried out", len(f.orders))
	}
}

func post(body string) string {
	return fmt.Sprintf("POST /api/v1/sites/berlin/pause HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// send gives the beginning of the answer to a raw request.
func send(t *testing.T, socket, request string) string {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go c.Write([]byte(request)) // the answer may come before all is taken
	buf := make([]byte, 200)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestOtherVersion holds that an answer that is none of ours says so.
func TestOtherVersion(t *testing.T) {
	socket, _ := serving(t, &fake{})
	c := dial(t, socket)
	_, err := c.get(t.Context(), "/news", "", nil)
	if !errors.Is(err, site.ErrNotFound) || !strings.Contains(err.Error(), "there is no GET /api/v1/news") {
		t.Errorf("got %v, want that there is no such route", err)
	}
}

func TestFollowShowsEveryEventOnce(t *testing.T) {
	f := &fake{asked: make(chan uint64, 100)}
	f.happens("long ago")
	socket, stop := serving(t, f)
	defer stop()
	c := dial(t, socket)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		<-f.asked // from here on it follows
		f.happens("now")
		f.happens("then")
	}()
	var shown []string
	err := c.Follow(ctx, "", 1, func(e site.Event) {
		shown = append(shown, e.Text)
		if e.Text == "then" {
			cancel()
		}
	})
	if err != nil || strings.Join(shown, " ") != "now then" {
		t.Errorf("followed %q %v", shown, err)
	}
}

func TestSaidCrosses(t *testing.T) {
	socket, _ := serving(t, &fake{})
	c := dial(t, socket)
	if lines, err := c.Said(t.Context(), "berlin", "n1"); err != nil || len(lines) != 1 || lines[0].Seq != 7 || lines[0].Text != "unpacking the image" {
		t.Errorf("got %+v, %v", lines, err)
	}
	if _, err := c.Said(t.Context(), "berlin", "n2"); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("of another node: %v", err)
	}
}

func TestConsoleIsBytes(t *testing.T) {
	socket, _ := serving(t, &fake{})
	c := dial(t, socket)
	text, err := c.Console(t.Context(), "berlin", "n1")
	if err != nil || string(text) != "booting\r\n\x1b[0m\xff" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := c.Console(t.Context(), "berlin", "n2"); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("got %v, want site.ErrNotFound", err)
	}
}

// Whose certificate it is says the kernel, and not the client.
func TestCertifyLogin(t *testing.T) {
	socket, _ := serving(t, &fake{})
	remote := dial(t, socket)
	g, err := remote.CertifyLogin(t.Context(), "berlin", site.SSHRequest{Node: "n1", Account: "root", By: "mallory"})
	me, _ := user.Current()
	if err != nil || g.Account != "root" || g.Principal != me.Username {
		t.Errorf("got %+v, %v", g, err)
	}
	if _, err := remote.CertifyLogin(t.Context(), "berlin", site.SSHRequest{Node: "n2"}); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
