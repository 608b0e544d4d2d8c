package record

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// Settings of a member with peers.
const (
	peerElection  = time.Second // without a sign of etcd's leader
	peerSnapshots = 1000        // entries, which etcd has in memory; one has up to 512 KiB
	peerKeeps     = 500         // entries for a member that was away, also in memory; beyond them it gets the whole database
	maxLearners   = 4
	askLimit      = 3 * time.Second // for an answer of another member over HTTP
)

// Peer is this process's part in an etcd that the daemons of a site form themselves: a member in the
// process, which other members reach at an address. Members prove to each other who they are, by
// certificates of one authority. Clients do not exist: the process asks its own member.
type Peer struct {
	// Address is HOST:PORT, with an IP address. The member listens there and nowhere else.
	Address string
	// Others are addresses of other members. They are asked when this one has no data yet.
	Others []string
	// Witness is set if the process runs only the member.
	Witness bool
	// Cert, Key and CA are PEM files: what the member shows, and the authority of all members.
	Cert, Key, CA string
}

const (
	daemonName  = "daemon "
	witnessName = "witness "
)

// name is the member's name in etcd, which it publishes when it has started.
func (p *Peer) name() string {
	if p.Witness {
		return witnessName + p.Address
	}
	return daemonName + p.Address
}

// hasStarted reports whether a name is one that a member has published itself. A member that joins has to
// give those that have not started a name, too, and shows it to others as theirs.
func hasStarted(name string) bool {
	return strings.HasPrefix(name, daemonName) || strings.HasPrefix(name, witnessName)
}

func peerURL(address string) string { return "https://" + address }

// memberDir is where a member with peers has its data.
func (s *Store) memberDir() string { return filepath.Join(s.dir, "member") }

// hasMember reports whether a directory of records has the data of a member with peers.
func hasMember(dir string) bool {
	return wal.Exist(filepath.Join(dir, "member", "member", "wal"))
}

// startPeer starts the member and does not wait for the others: without a majority it starts too, and
// every request fails until there is one. A member without data joins the members that are there. It
// never begins a cluster, because what it had agreed to before its data was lost could be forgotten
// then: only found does, for a person.
func (s *Store) startPeer(ctx context.Context, opts Options) (*member, error) {
	p := opts.Cluster.Peer
	cfg := p.config(s.memberDir(), opts)
	switch {
	case opts.found:
		cfg.ClusterState, cfg.InitialCluster, cfg.InitialClusterToken = embed.ClusterStateFlagNew, p.name()+"="+peerURL(p.Address), rand.Text()
	case hasMember(s.dir):
		if err := guarded(func() error { return checkFiles(s.memberDir()) }); err != nil {
			return nil, p.broken(err, s.memberDir())
		}
	default:
		all, err := p.askOthers(ctx)
		if err != nil {
			return nil, err
		}
		if cfg.InitialCluster, err = p.joins(all); err != nil {
			return nil, err
		}
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	smallSegments()
	m := &member{started: make(chan struct{})}
	m.ctx, m.fail = context.WithCancelCause(context.Background())
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(m.logger(opts.Log))
	if err := m.launch(ctx, cfg); err != nil {
		go m.stop()
		return nil, p.broken(err, s.memberDir())
	}
	m.client = v3client.New(m.etcd.Server)
	m.kv = m.client
	context.AfterFunc(m.ctx, m.silence)
	go m.watchRemoval(p.Address, s.memberDir())
	go m.tend(p, s.memberDir(), opts.Log)
	return m, nil
}

// broken says what to do with a member that cannot start.
func (p *Peer) broken(err error, dir string) error {
	if what := remedy(err); what != "" || errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "bind:") {
		return explain(fmt.Errorf("member %s: %w", p.Address, err))
	}
	if _, err := p.client(); err != nil {
		return fmt.Errorf("the certificate of the member %s cannot be used: %w: correct the files of its folder; its data in %s is not touched", p.Address, err, dir)
	}
	if !hasMember(filepath.Dir(dir)) { // it was to join, and has no data that could be wrong
		return fmt.Errorf("the member %s did not join the others: %w: start it again; if that does not help, run `slipway member replace %s` on the host that leads", p.Address, err, p.Address)
	}
	return foreign{fmt.Errorf("the member %s cannot use its data in %s: %w: if most other members run, the records are safe there; move this directory away, run `slipway member replace %s` on the host that leads, and start again",
		p.Address, dir, err, p.Address)}
}

func (p *Peer) config(dir string, opts Options) *embed.Config {
	c := config(dir, opts)
	c.Name = p.name()
	c.ListenPeerUrls = addressURL(p.Address)
	c.AdvertisePeerUrls = addressURL(p.Address)
	c.PeerTLSInfo.CertFile, c.PeerTLSInfo.KeyFile, c.PeerTLSInfo.TrustedCAFile = p.Cert, p.Key, p.CA
	c.PeerTLSInfo.ClientCertAuth = true
	// A host with several addresses may connect from another one than its certificate has. Whom it
	// connects to is checked.
	c.PeerTLSInfo.SkipClientSANVerify = true
	c.PeerTLSInfo.MinVersion = tls.VersionTLS13
	c.ElectionMs = uint(peerElection.Milliseconds())
	c.SnapshotCount, c.SnapshotCatchUpEntries = peerSnapshots, peerKeeps
	c.MaxLearners = maxLearners
	return c
}

// silence closes the listener of a member that cannot continue. It would answer others from memory,
// and they would take it for one that runs.
func (m *member) silence() {
	for _, l := range m.etcd.Peers {
		l.Close() // it may be closed
	}
}

// watchRemoval notes that the member has ended without being asked to: it does that when it learns
// that the others have removed it.
func (m *member) watchRemoval(address, dir string) {
	<-m.etcd.Server.StopNotify()
	if !m.ending.Load() {
		m.fail(foreign{fmt.Errorf("the member %s has ended: the others have removed or replaced it; to take it back, run `slipway member list` on another host, "+
			"then `slipway member add` there if it is not listed; move %s away here, and start again", address, dir)})
	}
}

// peerMember is a member as others say of it over HTTP (etcd, membership.Member).
type peerMember struct {
	PeerURLs []string `json:"peerURLs"`
	Name     string   `json:"name"`
}

// askOthers asks the other members, one after the other, who the members are.
func (p *Peer) askOthers(ctx context.Context) ([]peerMember, error) {
	var errs []error
	for _, other := range p.Others {
		all, _, err := p.ask(ctx, other)
		if err == nil {
			return all, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", other, err))
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("this member has no data and its folder names no other member: run `slipway member init %s`; if there are others, run `slipway member replace %s --folder DIR` on the host that leads, and use that folder", p.Address, p.Address)
	}
	return nil, fmt.Errorf("this member has no data, and none of the members that its folder names answers: start them first; if they are others now, run `slipway member replace %s --folder DIR` on the host that leads, and use that folder: %w", p.Address, errors.Join(errs...))
}

// ask asks one member who the members are, and of which cluster, as another member does.
func (p *Peer) ask(ctx context.Context, other string) (all []peerMember, cluster string, err error) {
	client, err := p.client()
	if err != nil {
		return nil, "", err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, peerURL(other)+"/members", nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("it answered %s", resp.Status)
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&all)
	return all, resp.Header.Get("X-Etcd-Cluster-ID"), err
}

func (p *Peer) client() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(p.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", p.CA)
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// joins returns etcd's list of members, for a member without data that is to be one of them. A
// member that has started before cannot: it has lost what it had agreed to, so a new one must take
// its place.
func (p *Peer) joins(all []peerMember) (string, error) {
	var list []string
	found := false
	for i, m := range all {
		for _, url := range m.PeerURLs {
			name := m.Name
			if !hasStarted(name) {
				name = fmt.Sprint("not started ", i)
			}
			if url == peerURL(p.Address) {
				if found = true; hasStarted(m.Name) {
					return "", fmt.Errorf("the member %s has lost its data: run `slipway member replace %s` on the host that leads, then start it again", p.Address, p.Address)
				}
				name = p.name()
			}
			list = append(list, name+"="+url)
		}
	}
	if !found {
		return "", fmt.Errorf("%s is not a member: run `slipway member add %s` on the host that leads, then start it again", p.Address, p.Address)
	}
	slices.Sort(list)
	return strings.Join(list, ","), nil
}
