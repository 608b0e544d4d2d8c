package artifact

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// run runs a service with one file until the test ends.
func run(t *testing.T, c Config) (*Service, Info) {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	s, err := OpenService(c)
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Add(t.Context(), bytes.NewReader(image(1000)), 0, "", "debian12.iso", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		s.Close()
	})
	return s, i
}

// served waits until the service serves.
func served(t *testing.T, s *Service) {
	t.Helper()
	for s.Serving() != nil {
		select {
		case <-s.Changes():
		case <-time.After(time.Minute):
			t.Fatal(s.Serving())
		}
	}
}

// The URL of a machine leads to its file, over the address by which this host
// reaches the machine.
func TestTheURLOfAMachineLeadsToItsFile(t *testing.T) {
	dir := t.TempDir()
	pool := authority(t, dir)
	for _, c := range []struct {
		name, host, prefix string
		config             Config
	}{
		{"any address", "127.9.9.9", "http://127.0.0.1:", Config{Listen: "127.0.0.1:0"}},
		{"all addresses", "127.9.9.9", "http://127.0.0.1:", Config{Listen: ":0"}},
		{"all of one family", "127.9.9.9", "http://127.0.0.1:", Config{Listen: "0.0.0.0:0"}},
		{"IPv6", "::1", "http://[::1]:", Config{Listen: ":0"}},
		{"a name", "localhost", "http://", Config{Listen: ":0"}},
		{"TLS", "127.9.9.9", "https://127.0.0.1:", Config{Listen: "127.0.0.1:0", Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}},
	} {
		s, i := run(t, c.config)
		served(t, s)
		to, err := s.URL(c.host, i.SHA256)
		if err != nil || !strings.HasPrefix(to, c.prefix) || !strings.HasSuffix(to, "/debian12.iso") {
			t.Errorf("%s: %s, %v", c.name, to, err)
			continue
		}
		if !s.Reaches(to) || s.Reaches("http://192.0.2.1:9480/x/y.iso") || s.Reaches("ftp"+to) || s.Reaches(strings.Replace(to, ":", ":1", 2)) {
			t.Errorf("%s: it is not known which URLs lead here", c.name)
		}
		s.Grant(Grant{Node: "n1", SHA256: i.SHA256, URL: to})
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
		resp, err := client.Get(to)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(body, image(1000)) {
			t.Errorf("%s: %s, %d bytes, %v", c.name, resp.Status, len(body), err)
		}
		if again, _ := s.URL(c.host, i.SHA256); again == to {
			t.Errorf("%s: two installations have one URL", c.name)
		}
		if _, err := s.URL(c.host, digestOf(nil)); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a file that is not there: %v", c.name, err)
		}
	}
}

func TestTheURLThatMachinesSee(t *testing.T) {
	s, i := run(t, Config{Listen: "127.0.0.1:0", URL: "https://images.example.org/slipway/"})
	served(t, s)
	to, err := s.URL("192.0.2.7", i.SHA256)
	if err != nil || !strings.HasPrefix(to, "https://images.example.org/slipway/") || !s.Reaches(to) || s.Reaches("https://images.example.org/other/x/y.iso") {
		t.Errorf("%s, %v", to, err)
	}
}

func TestNothingIsServedWithoutAListener(t *testing.T) {
	s, i := run(t, Config{})
	if _, err := s.URL("127.0.0.1", i.SHA256); !errors.Is(err, ErrOff) || !errors.Is(s.Serving(), ErrOff) {
		t.Errorf("got %v", err)
	}
	if s.Reaches("http://127.0.0.1:0/x/y.iso") {
		t.Error("a URL leads here")
	}
	s.Want([]File{{SHA256: i.SHA256, URL: "http://x"}}) // what is there needs no server
	if !s.State(i.SHA256).Ready {
		t.Error("the store does not work")
	}
}

// A port that another process has is a problem, and is taken when it is free.
func TestAPortInUseIsTakenLater(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		problems := make(chan error, 100)
		s, err := OpenService(Config{Dir: dir, Listen: taken.Addr().String(), Problem: func(err error) { problems <- err }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		if err := <-problems; err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--artifact-listen") {
			t.Errorf("the problem is %v", err)
		}
		if s.Serving() == nil || s.Reaches("http://"+taken.Addr().String()+"/x/y.iso") {
			t.Error("it serves all the same")
		}
		taken.Close()
		if err := <-problems; err != nil {
			t.Errorf("then it is %v", err)
		}
		if s.Serving() != nil {
			t.Errorf("it does not serve: %v", s.Serving())
		}
		cancel()
		<-done
	})
}

func TestABadCertificateIsToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenService(Config{Dir: dir, Cert: filepath.Join(dir, "none"), Key: filepath.Join(dir, "none")}); err == nil {
		t.Error("no error")
	}
	if _, err := OpenService(Config{Dir: dir, Files: filepath.Join(dir, "none")}); err == nil {
		t.Error("a folder that is not there is no error")
	}
	s, err := OpenService(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
