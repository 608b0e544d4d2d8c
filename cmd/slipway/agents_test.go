package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/start"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// wordsAt is where the medium of these tests has its room for the words of a boot.
const wordsAt = 40 * 2048

// testMedium is as much of a medium of the ramdisk as there is to it without the ramdisk: the
// descriptor of its volume, and the room for the words of a boot.
func testMedium() []byte {
	b := make([]byte, 64*2048)
	copy(b[wire.VolumeAt:], "\x01CD001\x01")
	copy(b[wire.VolumeAt+wire.ApplicationUse:], fmt.Sprintf("%s%d %d\n", wire.MediumMark, wordsAt, 4096))
	return b
}

// overHTTP reads a medium as a BMC does: in ranges.
type overHTTP struct{ url string }

func (o overHTTP) ReadAt(p []byte, at int64) (int, error) {
	r, err := http.NewRequest(http.MethodGet, o.url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, at+int64(len(p))-1))
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusPartialContent {
		return 0, fmt.Errorf("the medium: %s", a.Status)
	}
	return io.ReadFull(a.Body, p)
}

type oneDesign struct{ s *site.Site }

func (o oneDesign) Fetch(context.Context) (site.Revision, error) {
	return site.Revision{ID: "one", Subject: "one"}, nil
}

func (o oneDesign) evaluate(context.Context, site.Revision) (*site.Site, []site.Finding, error) {
	return o.s, nil, nil
}

type labSecrets struct{}

func (labSecrets) Get(secret.Request) (secret.Value, error) { return secret.New("admin", "pw"), nil }

// memory is a daemon with a real listener and a real BMC, and a machine behind that.
type memory struct {
	t      *testing.T
	fleet  *lab.Fleet
	engine *engine.Engine
	log    *safeBuffer
	state  string
	image  []byte
	is     wire.Machine

	mu    sync.Mutex
	asked []wire.Request
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const memoryUUID = "3d1c0000-0000-4000-8000-0000000000aa"

func newMemory(t *testing.T) *memory {
	w := &memory{t: t, log: &safeBuffer{}, state: t.TempDir(), image: []byte("this is a tar")}
	up := true
	w.is = wire.Machine{UUID: memoryUUID, Serial: "SN-A", Ports: []wire.Port{{Name: "eth0", MAC: "52:54:00:00:00:aa", Carrier: &up}},
		Disks: []item.Disk{{Name: "nvme0n1", Serial: "NVME-0001", Kind: "nvme", Bytes: 480e9 / 512 * 512, Sector: 512}}}
	var err error
	w.fleet, err = lab.Start(lab.Config{Seed: t.Name(), Latency: lab.Latency{
		GET: time.Millisecond, Write: 2 * time.Millisecond, PowerOn: 40 * time.Millisecond, PowerOff: 20 * time.Millisecond, Boot: 20 * time.Millisecond, Install: time.Hour,
	}, Machines: []lab.MachineConfig{{
		Name: "a", BMCAddr: "127.67.0.1", Identity: site.Identity{UUID: memoryUUID, Serial: "SN-A"}, Username: "admin", Password: "pw", Power: "on",
		Manufacturer: "Lab", Model: "L1",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.fleet.Close() })
	return w
}

func (w *memory) digest() string {
	sum := sha256.Sum256(w.image)
	return hex.EncodeToString(sum[:])
}

// run runs a daemon with the flags of slipway run.
func (w *memory) run() {
	t := w.t
	rest, err := site.ParseExtent(">1GiB")
	if err != nil {
		t.Fatal(err)
	}
	n := &site.Node{Name: "a", Power: "on", Identity: site.Identity{UUID: memoryUUID, Serial: "SN-A"}, Image: "root", Generation: 1, References: site.References{ByAgent: true},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: w.fleet.BMCURL("a"), Credential: "bmc", Trust: site.Trust{CA: string(w.fleet.CA())}}},
		Storage: site.Storage{BootDisk: "os", Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Kind: "nvme"}, Table: "gpt",
			Partitions: map[string]site.Partition{"root": {Size: rest, Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4", Mount: "/"}}}}}}}}
	d := oneDesign{&site.Site{Name: "lab", SchemaVersion: site.SchemaVersion, Nodes: map[string]*site.Node{"a": n},
		Rollout: site.Rollout{MaxUnavailable: "1", FirstContact: "hold", ObserveEvery: site.Duration(time.Second), PollEvery: site.Duration(time.Second), ReportEvery: site.Duration(time.Second)},
		Images:  map[string]*site.Image{"root": {URL: "https://images.example.org/root.tar", SHA256: w.digest(), Kind: site.KindRoot, InstallTimeout: site.Duration(time.Minute)}}}}
	store, err := record.Open(t.Context(), filepath.Join(w.state, "records"), record.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	files, err := (&artifactFlags{listen: "127.0.0.1:0", space: "1GB"}).open(w.state, artifact.Config{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.AddFile(t.Context(), bytes.NewReader(w.image), int64(len(w.image)), w.digest(), "root.tar", func(int64) {}); err != nil {
		t.Fatal(err)
	}
	medium := filepath.Join(w.state, "medium.iso")
	if err := os.WriteFile(medium, testMedium(), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := (&agentFlags{medium: medium, listen: "127.0.0.1:0"}).open(t.Context(), "lab", w.state, files, func(error) {}, log)
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine.New(engine.Config{Site: "lab", Source: d, Evaluate: d.evaluate, Records: store.Site("lab"), Secrets: labSecrets{},
		Drivers:   map[string]driver.Driver{"redfish": redfish.New(redfish.Options{Grace: 250 * time.Millisecond, Settle: 5 * time.Second, Poll: 5 * time.Millisecond})},
		Artifacts: files, Agents: listener, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{w.engine.Run, whenReady(w.engine, files.Run), whenReady(w.engine, listener.Run)} {
		parts.Go(func() {
			if err := part(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		parts.Wait()
		files.Close()
		store.Close()
	})
}

func (w *memory) until(what string, so func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			n := w.node()
			w.t.Fatalf("not within a minute: %s; the node is %s: %s\n%s", what, n.State, n.Reason, w.log)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (w *memory) node() site.NodeStatus {
	for _, n := range w.engine.Report().Status.Nodes {
		return n
	}
	return site.NodeStatus{}
}

// words are those that the machine finds on the medium that it boots from.
func (w *memory) words() string {
	w.t.Helper()
	w.until("the machine boots from the medium", func() bool {
		s := w.fleet.Machine("a").State()
		return s.Media != "" && s.Counts.Installers > 0 && s.Power == "On"
	})
	words, err := wire.ReadWords(overHTTP{w.fleet.Machine("a").State().Media})
	if err != nil {
		w.t.Fatal(err)
	}
	return words
}

// caller is an agent as the ramdisk has it, with an installer that reads the image and writes
// nothing.
func (w *memory) caller(words string, is wire.Machine) *start.Caller {
	w.t.Helper()
	settings, err := start.Parse("", words)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &start.Caller{Settings: settings, Machine: func() wire.Machine { return is }, Welcomed: func(wire.Welcome) {},
		Program: &run.Program{Host: inside.Real(w.t.TempDir(), false), Machine: func(context.Context, *inside.Host) wire.Machine { return is }, Install: w.install}}
	if err := c.NewKey(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *memory) install(ctx context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error) {
	w.mu.Lock()
	w.asked = append(w.asked, r)
	w.mu.Unlock()
	h.Tell("reading the image")
	for end := time.Now().Add(20 * time.Second); !strings.Contains(w.node().Detail, "the agent: reading the image"); {
		if time.Now().After(end) {
			return nil, fmt.Errorf("the status does not say how far it is: %q", w.node().Detail)
		}
		<-time.After(10 * time.Millisecond)
	}
	a, err := http.Get(r.Install.Image.URL)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != r.Install.Image.SHA256 {
		return nil, fmt.Errorf("the image is not what was asked for: %s, %v", a.Status, err)
	}
	return &wire.Installed{SHA256: r.Install.Image.SHA256, HostKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPWpdVTB1pw77PbuCSIbtGfp/5U0O8L3tgZg87e64Sv"}}, nil
}

func (w *memory) requests() []wire.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// A machine that was approved to be installed boots from the medium that its BMC reads of the
// daemon, finds the words of its boot there, calls the daemon that has the certificate of these
// words, and is asked for exactly what was approved. Nothing is sent before it was approved;
// another machine with the same medium is refused, and so is a second agent with its token.
func TestInstallationByAnAgentOnTheLab(t *testing.T) {
	w := newMemory(t)
	w.run()
	m := w.fleet.Machine("a")
	w.until("the installation waits for approval", func() bool { return w.engine.Report().Status.Approve != "" })
	disk := w.engine.Known().Nodes["a"].Observed.Disks.Serials[0]
	w.is.Disks[0].Serial = disk
	if n := m.Writes(); n != 0 {
		t.Fatalf("%d requests changed the machine before anybody approved", n)
	}
	if _, err := w.engine.Do(t.Context(), site.Order{Verb: site.VerbApprove, By: "tester", Digest: w.engine.Report().Status.Approve}); err != nil {
		t.Fatal(err)
	}
	words := w.words()
	if !strings.Contains(words, "slipway.token=") || !strings.Contains(words, "slipway.ca=sha256:") {
		t.Fatalf("the medium says %q", words)
	}
	other := w.is
	other.UUID, other.Serial = "ffffffff-0000-4000-8000-0000000000bb", "SN-B"
	var no *start.RefusedError
	if err := w.caller(words, other).Call(t.Context(), ""); !errors.As(err, &no) || !strings.Contains(no.Text, "another machine") {
		t.Errorf("another machine with the same medium: %v", err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	first := w.caller(words, w.is)
	called := make(chan error, 1)
	go func() { called <- first.Call(ctx, "") }()
	w.until("the agent is asked to install", func() bool { return len(w.requests()) > 0 })
	if err := w.caller(words, w.is).Call(t.Context(), ""); !errors.As(err, &no) || !strings.Contains(no.Text, "was used before") && !strings.Contains(no.Text, "No boot waits") {
		t.Errorf("a second agent with the same token: %v", err)
	}
	w.until("the node is in-sync", func() bool { return w.node().State == site.InSync })
	if all := w.requests(); len(all) != 1 || all[0].Install.UUID != memoryUUID || len(all[0].Install.Layout.Destroys) != 1 ||
		all[0].Install.Layout.Destroys[0].Serial != disk || !strings.Contains(all[0].Install.Marker, `"generation":1`) || all[0].Term == 0 {
		t.Errorf("it was asked for %+v", all)
	}
	if r := w.engine.Known().Nodes["a"].Recorded; r.Installed == nil || r.Installed.Generation != 1 || len(r.Installed.FirstBoot.HostKeys) != 1 || r.Agent != nil {
		t.Errorf("recorded is %+v, agent %+v", r.Installed, r.Agent)
	}
	if s := m.State(); s.Media != "" || s.Power != "On" {
		t.Errorf("the machine is left as %+v", s)
	}
	if err := <-called; err == nil {
		t.Error("the agent was not hung up on")
	}
	if err := first.Call(t.Context(), ""); !errors.As(err, &no) || !strings.Contains(no.Text, "No boot waits") {
		t.Errorf("after the installation: %v", err)
	}
	settings, err := start.Parse("", words)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(w.log.String(), settings.Token) {
		t.Error("the log has the token")
	}
	if text, err := os.ReadFile(filepath.Join(w.state, "agents", "authority.pem")); err != nil || !strings.Contains(string(text), "PRIVATE KEY") {
		t.Errorf("the authority: %v", err)
	}
	if info, err := os.Stat(filepath.Join(w.state, "agents", "authority.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authority: %v, %v", info, err)
	}
}

// A medium that is none of the ramdisk, or flags that contradict each other, end the start.
func TestAgentFlags(t *testing.T) {
	iso := filepath.Join(t.TempDir(), "other.iso")
	if err := os.WriteFile(iso, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := artifact.OpenService(artifact.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for name, f := range map[string]agentFlags{
		"not a medium": {medium: iso}, "no file": {medium: iso + ".gone"},
	} {
		if _, err := f.open(t.Context(), "lab", t.TempDir(), files, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--ramdisk") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		f       agentFlags
		observe bool
		a       artifactFlags
		want    string
	}{
		"nothing":       {agentFlags{listen: ":9481"}, true, artifactFlags{listen: noListener}, ""},
		"an address":    {agentFlags{listen: "9481"}, false, artifactFlags{}, "--agent-listen"},
		"another one":   {agentFlags{listen: ":9481", address: "daemon"}, false, artifactFlags{}, "--agent-address"},
		"observing":     {agentFlags{listen: ":9481", medium: iso}, true, artifactFlags{}, "--observe"},
		"nobody serves": {agentFlags{listen: ":9481", medium: iso}, false, artifactFlags{listen: noListener}, "--artifact-listen"},
	} {
		if err := c.f.check(c.observe, c.a); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
