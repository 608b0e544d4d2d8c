package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/sinks/redfish"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// rack is a fleet of one kind of machine whose BMCs get derived passwords.
type rack struct {
	*lab.Fleet
	store *record.Store
	key   *sitekey.Key
	dir   string // of the credentials
	next  int
	// struck counts the kills by the kind of request that they struck; a life that was over before the request is "none".
	struck map[string]int
}

const factoryPassword = "canary-factory-7Q"

func newRotationRack(t *testing.T, personality string, size int) *rack {
	t.Helper()
	c := lab.Config{Seed: t.Name() + personality, Latency: lab.Latency{GET: 200 * time.Microsecond, Write: 300 * time.Microsecond, PowerOn: time.Millisecond, PowerOff: time.Millisecond, Boot: time.Millisecond, Install: time.Millisecond}}
	for i := range size {
		c.Machines = append(c.Machines, lab.MachineConfig{
			Name: fmt.Sprintf("m%d", i), BMCAddr: fmt.Sprintf("127.67.%d.%d", slices.Index(lab.Personalities, personality), i+1), Personality: personality, Power: "on",
			Identity: site.Identity{UUID: fmt.Sprintf("3d1c0000-0000-4000-8000-%012d", i), Serial: fmt.Sprintf("SN%d", i)},
			Username: "admin", Password: factoryPassword, BootOrder: []string{"Hdd", "Pxe"},
		})
	}
	f, err := lab.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r := &rack{Fleet: f, dir: t.TempDir(), struck: map[string]int{}}
	if r.store, err = record.Open(t.Context(), t.TempDir(), record.Options{NoSync: true, Tick: 5 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.store.Close() })
	if r.key, err = sitekey.Create(filepath.Join(t.TempDir(), "site.key")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bmc":     "hosts: 127.67.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n" + factoryPassword + "\n",
		"bmc-own": "hosts: 127.67.0.0/16\nuse: redfish\nports: 1024-65535\n",
		"bmc-mon": "hosts: 127.67.0.0/16\nuse: redfish\nports: 1024-65535\n\n",
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// bay is one machine with the daemon that keeps it, which is killed and started again.
type bay struct {
	t       *testing.T
	r       *rack
	m       *lab.Machine
	name    string
	id      site.Identity
	records *record.Site
	key     *sitekey.Key

	e        *Engine
	w        *worker
	memory   site.Memory // that was written when the daemon ended
	sealed   *site.Sealed
	departed map[string]site.Sealed // that were published of nodes that are gone
	design   *site.Site
	blank    bool          // the records may lack what earlier ones had
	prompt   bool          // the status branch has all that was written when the daemon was killed
	branch   *statusBranch // that the daemon writes; nil for a daemon without one
	said     *strings.Builder
}

func (r *rack) take(t *testing.T) *bay {
	name := fmt.Sprintf("m%d", r.next)
	id := site.Identity{UUID: fmt.Sprintf("3d1c0000-0000-4000-8000-%012d", r.next), Serial: fmt.Sprintf("SN%d", r.next)}
	r.next++
	b := &bay{t: t, r: r, m: r.Machine(name), name: name, id: id, records: r.store.Site(name), key: r.key, said: &strings.Builder{}}
	return b
}

// designs is the design of the machine: the credential that Slipway logs in with, and the epoch of its two derived
// passwords.
func (b *bay) designs(login string, epoch int, accounts map[string]site.BMCAccount) {
	if accounts == nil {
		accounts = map[string]site.BMCAccount{
			"admin":   {Role: "administrator"},
			"slipway": {Role: "administrator", Credential: "bmc-own"},
			"monitor": {Role: "readOnly", Credential: "bmc-mon"},
		}
	}
	n := &site.Node{
		Name: b.name, Identity: b.id, BMC: site.BMC{Accounts: accounts},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: b.r.BMCURL(b.name), Credential: login, Trust: site.Trust{CA: string(b.r.CA())}}},
	}
	b.design = &site.Site{Name: "fra", Rollout: site.Rollout{FirstContact: "repair"}, Nodes: map[string]*site.Node{b.name: n}, Credentials: map[string]*site.Credential{
		"bmc":     {},
		"bmc-own": {From: site.FromDerived, Account: "slipway", Epoch: epoch},
		"bmc-mon": {From: site.FromDerived, Account: "monitor", Epoch: epoch},
	}}
	n.References = b.design.ReferencesOf(n)
}

// start starts a daemon on what was written.
func (b *bay) start() {
	b.t.Helper()
	secrets, err := secret.Open(b.r.dir)
	b.must(err)
	secrets.InForce(b.design)
	secrets.Derives(derived.Passwords(b.key, "fra"))
	log := slog.New(slog.NewTextHandler(b.said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.e = New(Config{Site: "fra", Records: b.records, Secrets: secrets, Key: b.key, Log: log,
		Drivers: map[string]driver.Driver{"redfish": redfish.New(redfish.Options{Grace: 20 * time.Millisecond, Settle: time.Second, Poll: 2 * time.Millisecond})}})
	b.e.term.Term, err = b.records.Acquire(b.t.Context(), "here", 0)
	b.must(err)
	b.e.ctx = b.t.Context()
	b.e.design, b.e.book = b.design, record.Book{Records: "r1", Blank: b.blank}
	maps.Copy(b.e.published, b.departed)
	if b.branch != nil {
		b.e.Branch = b.branch
	}
	if b.sealed != nil {
		b.e.comparePublished([]site.Sealed{*b.sealed})
	}
	b.must(b.e.readProofs(b.t.Context()))
	b.w = newWorker(b.e, b.design.Nodes[b.name], b.memory, false, func() {})
	b.e.workers[b.name] = b.w
}

func (b *bay) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// run has the daemon work until it is in-sync, a number of turns have passed, or it is killed at a request to
// the BMC (0 for never). Then only what had been written by that request is left of it. It returns how many
// requests there were.
func (b *bay) run(kill int) (requests int, killed bool) {
	b.t.Helper()
	b.start()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	var mu sync.Mutex
	written := b.memory
	b.r.Watch(func(_ int, c lab.Call) {
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests == kill {
			killed = true
			b.r.struck[c.Method+" "+regexp.MustCompile(`/[0-9]+$`).ReplaceAllString(strings.TrimPrefix(c.Path, "/redfish/v1/"), "/N")]++
			written = b.w.job().memory
			if b.prompt {
				b.publish()
			}
			cancel()
		}
	})
	for range 12 {
		_ = b.e.term.Renew(b.t.Context()) // as a daemon does beside its work, which takes long on a busy host; a term that is lost stays lost
		b.w.anew = true
		b.w.reconcile(ctx)
		if ctx.Err() == nil {
			b.e.tellBranch(ctx)
		}
		if s := b.status(); ctx.Err() != nil || s.State == site.InSync {
			break
		}
	}
	b.r.Watch(nil)
	mu.Lock()
	defer mu.Unlock()
	if b.memory = b.w.job().memory; killed {
		b.memory = written
	}
	b.memory.Observed = site.Observed{}
	if !killed && b.branch == nil {
		b.publish()
	}
	b.e.mu.Lock()
	status, _ := json.Marshal(b.w.status)
	plan, _ := json.Marshal(b.w.plan)
	memory, _ := json.Marshal(b.w.memory)
	b.e.mu.Unlock()
	if !killed {
		b.w.closeConnections()
	}
	fmt.Fprintf(b.said, "%s\n%s\n%s\n", status, plan, memory)
	return requests, killed
}

// publish has the status branch have what the daemon has recorded.
func (b *bay) publish() {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	if s := b.w.sealLocked(); s != nil {
		b.sealed = s
	}
}

func (b *bay) status() site.NodeStatus {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	return b.w.status
}

// passwordOf is the password that an account is to have.
func (b *bay) passwordOf(account string, epoch int) string {
	v, err := derived.Passwords(b.r.key, "fra")(secret.Of{Derived: site.Derived{Account: account, Epoch: epoch}, Machine: b.id.UUID})
	b.must(err)
	return v.Reveal()
}

func (b *bay) has(account string) lab.BMCAccount {
	for _, a := range b.m.Accounts() {
		if a.User == account {
			return a
		}
	}
	return lab.BMCAccount{}
}

// reaches works until all is as designed, with a daemon that is killed once at a request, and says what is wrong
// then.
func (b *bay) reaches(what string, epoch, kill int) {
	b.t.Helper()
	_, killed := b.run(kill)
	switch {
	case killed:
		b.run(0)
	case kill > 0:
		b.r.struck["none"]++
	}
	s := b.status()
	if s.State != site.InSync {
		b.t.Fatalf("%s, killed at request %d (%v): %s: %s (%s)\naccounts: %v\nrecorded: %+v", what, kill, killed, s.State, s.Reason, s.Cause, b.names(), b.memory.Recorded.Accounts)
	}
	for _, account := range []string{"slipway", "monitor"} {
		a := b.has(account)
		if a.Password != b.passwordOf(account, epoch) || !a.Enabled {
			b.t.Fatalf("%s, killed at request %d: %s has another password than that of epoch %d", what, kill, account, epoch)
		}
		if use := b.memory.Recorded.Accounts[account]; use.ProvenAs.Epoch != epoch || use.OfferedAs.Epoch != 0 || use.Changing {
			b.t.Fatalf("%s, killed at request %d: recorded of %s: %+v", what, kill, account, use)
		}
	}
	if c := b.m.Counts(); c.Lockouts != 0 {
		b.t.Fatalf("%s, killed at request %d: %d locks, %d denied", what, kill, c.Lockouts, c.Denied)
	}
}

func (b *bay) names() (all []string) {
	for _, a := range b.m.Accounts() {
		all = append(all, fmt.Sprintf("%s %s %v", a.User, a.Role, a.Enabled))
	}
	return all
}

// silent says that no password is in anything that was said or written.
func (b *bay) silent(epochs int) {
	b.t.Helper()
	report, _ := json.Marshal(b.sealed)
	text := b.said.String() + string(report)
	for epoch := 1; epoch <= epochs; epoch++ {
		for _, account := range []string{"slipway", "monitor"} {
			if strings.Contains(text, b.passwordOf(account, epoch)) {
				b.t.Errorf("the password of %s of epoch %d is in what the daemon said", account, epoch)
			}
		}
	}
	if strings.Contains(text, factoryPassword) {
		b.t.Error("the factory's password is in what the daemon said")
	}
}

// life is all that becomes of one machine: it is taken over from its factory account, Slipway moves to its own account, the
// factory account is disabled, all passwords are replaced twice, and the host is lost and built again. The daemon is
// killed in each of these once.
func (b *bay) life(kills func() int) {
	b.designs("bmc", 1, nil)
	b.reaches("taken over", 1, kills())
	own := map[string]site.BMCAccount{
		"slipway": {Role: "administrator", Credential: "bmc-own"}, "monitor": {Role: "readOnly", Credential: "bmc-mon"}, "admin": {State: site.AccountDisabled},
	}
	b.designs("bmc-own", 1, own)
	b.reaches("logs in with its own account", 1, kills())
	if b.has("admin").Enabled {
		b.t.Fatal("the factory account is enabled")
	}
	for epoch := 2; epoch <= 3; epoch++ {
		b.m.OpenSession("slipway", "before")
		b.m.OpenSession("monitor", "before")
		b.designs("bmc-own", epoch, own)
		b.reaches(fmt.Sprintf("epoch %d", epoch), epoch, kills())
		if slices.Contains(b.m.SessionContexts(), "before") {
			b.t.Fatalf("epoch %d: sessions of before are open", epoch)
		}
	}
	b.lose()
	b.reaches("after the host was lost", 3, 0)
	b.silent(3)
}

// lose loses the host, with all that it has recorded. What is left is the repository, with the status branch, and the
// site key.
func (b *bay) lose() {
	b.memory = site.Memory{}
	b.records = b.r.store.Site(b.name + "-again")
}

// A rotation that is killed at any request ends on every kind of BMC: nobody is locked out, and the password is in
// nothing that is said or written.
func TestProveRotationsKilled(t *testing.T) {
	first, runs := number64("SLIPWAY_SEED", 1), number64("SLIPWAY_RUNS", 12)
	if os.Getenv("SLIPWAY_PROVE") != "" {
		runs = number64("SLIPWAY_RUNS", 1000)
	}
	of := map[string][]uint64{}
	for seed := first; seed < first+runs; seed++ {
		p := lab.Personalities[seed%uint64(len(lab.Personalities))]
		of[p] = append(of[p], seed)
	}
	for _, personality := range slices.Sorted(maps.Keys(of)) {
		t.Run(personality, func(t *testing.T) {
			t.Parallel()
			for seeds := range slices.Chunk(of[personality], 25) {
				r := newRotationRack(t, personality, len(seeds))
				t.Cleanup(func() {
					for _, request := range slices.Sorted(maps.Keys(r.struck)) {
						t.Logf("killed %d times at %s", r.struck[request], request)
					}
				})
				for _, seed := range seeds {
					dice := rand.New(rand.NewPCG(seed, 20))
					b := r.take(t)
					b.life(func() int { return 1 + dice.IntN(60) })
					if t.Failed() {
						t.Fatalf("SLIPWAY_SEED=%d", seed)
					}
				}
			}
		})
	}
}

func number64(name string, otherwise uint64) uint64 {
	var n uint64
	if _, err := fmt.Sscan(os.Getenv(name), &n); err != nil {
		return otherwise
	}
	return n
}
