package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/start"
)

// joined is a medium that consists of its words alone.
func joined(_ io.ReaderAt, _ int64, words ...string) (*io.SectionReader, error) {
	text := strings.Join(words, " ")
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), nil
}

// serving is a service that listens on the loopback.
func serving(t *testing.T, folder string, o agent.ServiceOptions) *agent.Service {
	t.Helper()
	authority, err := agent.LoadAuthority(filepath.Join(folder, "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	o.Site, o.Authority, o.On, o.Medium = "lab", authority, joined, "d1"
	s := agent.NewService(o)
	if _, err := s.Expect(bootOne()); err == nil {
		t.Error("an agent was expected before anybody listened")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for s.Serving() != nil {
		select {
		case <-s.Changes():
		case <-time.After(30 * time.Second):
			t.Fatal(s.Serving())
		}
	}
	return s
}

func wordsOf(t *testing.T, s *agent.Service, node string) string {
	t.Helper()
	r, err := s.Words(node).On(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A machine is told where to call, whom to believe, its token and its address. Who calls with
// these is connected, also after the daemon was started again; then nobody knows the words any
// more.
func TestServiceTellsMachinesHowToCall(t *testing.T) {
	folder := t.TempDir()
	s := serving(t, folder, agent.ServiceOptions{Listen: "127.0.0.1:0"})
	b := bootOne()
	b.Daemon = "192.0.2.1" // which does not count where one address is listened at
	b.Address = site.BootAddress{Prefix: netip.MustParsePrefix("10.1.0.7/24"), Gateway: netip.MustParseAddr("10.1.0.1"), DNS: []netip.Addr{netip.MustParseAddr("10.1.0.53")}, MAC: macOne}
	token, err := s.Expect(b)
	if err != nil {
		t.Fatal(err)
	}
	words := wordsOf(t, s, "n1")
	settings, err := start.Parse("", words)
	if err != nil || !strings.HasPrefix(settings.Daemon, "127.0.0.1:") || settings.Address != b.Address.Prefix || settings.Gateway != b.Address.Gateway || len(settings.DNS) != 1 || settings.MAC != macOne {
		t.Fatalf("%q: %+v, %v", words, settings, err)
	}
	if sum := sha256.Sum256([]byte(settings.Token)); hex.EncodeToString(sum[:]) != token {
		t.Error("the digest is not that of the token")
	}
	d := &desk{t: t, address: settings.Daemon, ca: settings.CA}
	c := d.caller(settings.Token, machineOne())
	end, ended := d.stays(c)
	<-s.Changes() // the agent is welcomed before it is known
	a := s.Agent("n1")
	if a == nil || a.Host() != "127.0.0.1" || len(a.Key()) != 64 {
		t.Fatalf("connected is %v", a)
	}
	key := a.Key()
	end()
	<-ended

	again := serving(t, folder, agent.ServiceOptions{Listen: "127.0.0.1:0"})
	again.Recall(b, token, key)
	again.Recall(driver.Boot{Node: "n2"}, "no digest", "")
	if again.Words("n1") != nil {
		t.Error("the words are known without the token")
	}
	if _, err := again.Expect(driver.Boot{Node: "n3", Machine: site.Identity{UUID: uuidTwo}}); err != nil {
		t.Fatal(err)
	}
	other, err := start.Parse("", wordsOf(t, again, "n3"))
	if err != nil || !bytes.Equal(other.CA, settings.CA) {
		t.Fatalf("the authority is another one after a restart: %v", err)
	}
	c.Settings.Daemon = other.Daemon
	d.stays(c)
	again.Forget("n1")
	if again.Agent("n1") != nil {
		t.Error("a node that was forgotten has an agent")
	}
}

// Where all addresses are listened at, the one towards the machine is told, or the one that a
// flag names.
func TestServiceAddress(t *testing.T) {
	s := serving(t, t.TempDir(), agent.ServiceOptions{Listen: ":0"})
	if _, err := s.Expect(bootOne()); err == nil || !strings.Contains(err.Error(), "--agent-address") {
		t.Errorf("without any address: %v", err)
	}
	b := bootOne()
	b.Daemon = "192.0.2.1"
	if _, err := s.Expect(b); err != nil || !strings.Contains(wordsOf(t, s, "n1"), "slipway.daemon=192.0.2.1:") {
		t.Errorf("%v", err)
	}
	named := serving(t, t.TempDir(), agent.ServiceOptions{Listen: ":0", Address: "daemon.example.org:9999"})
	if _, err := named.Expect(b); err != nil || !strings.Contains(wordsOf(t, named, "n1"), "slipway.daemon=daemon.example.org:9999") {
		t.Errorf("%v", err)
	}
}

// The authority is made once, and a file that is none is not replaced.
func TestAuthorityIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "authority.pem")
	first, err := agent.LoadAuthority(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := agent.LoadAuthority(file)
	if err != nil || again.Digest() != first.Digest() {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.LoadAuthority(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is none: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "nothing" {
		t.Errorf("it was replaced: %q, %v", text, err)
	}
}

var _ driver.Agents = (*agent.Service)(nil)
