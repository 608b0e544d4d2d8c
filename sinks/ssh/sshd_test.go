package ssh_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/ssh"
)

// TestConformanceOnSSHD holds the driver to its contract on a real OpenSSH
// server and a real shell.
func TestConformanceOnSSHD(t *testing.T) {
	drivertest.Run(t, drivertest.Suite{Driver: ssh.New(), Fresh: func(t *testing.T) drivertest.Subject { return startSSHD(t) }})
}

func TestMarkerOnSSHD(t *testing.T) {
	sub := startSSHD(t)
	m, err := ssh.New().Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := m.Observe(t.Context(), sub.Node, []site.Facet{site.FacetOS})
	if err != nil {
		t.Fatal(err)
	}
	if want := (site.Marker{Node: "n1", Generation: 3, Image: "abcd"}); seen.Marker == nil || *seen.Marker != want {
		t.Errorf("got marker %v, want %v", seen.Marker, want)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	have := seen.Facets[site.FacetOS].Have
	if have["bootID"] != strings.TrimSpace(string(boot)) || have["kernel"] == "" || have["release"] == "" {
		t.Errorf("got %v", have)
	}
}

// sshd is the path of the server. Where CI runs it must be there.
func sshd(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("/usr/sbin/sshd")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("openssh-server is not installed: %v", err)
	}
	t.Skipf("openssh-server is not installed: %v", err)
	return ""
}

// startSSHD serves SSH on a loopback port: each connection is handed to an
// sshd of its own, which ends with it.
func startSSHD(t *testing.T) drivertest.Subject {
	path, dir := sshd(t), t.TempDir()
	if os.Geteuid() == 0 { // Debian's sshd wants it when it runs as root
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hostKey := writeKey(t, filepath.Join(dir, "host"))
	userKey := writeKey(t, filepath.Join(dir, "user"))
	private, err := os.ReadFile(filepath.Join(dir, "user"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "authorized"), userKey)
	write(t, filepath.Join(dir, "marker.json"), `{"node":"n1","generation":3,"image":"abcd"}`)
	write(t, filepath.Join(dir, "config"), fmt.Sprintf(`
HostKey %[1]s/host
AuthorizedKeysFile %[1]s/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
ForceCommand sh -c "$(printf %%s "$SSH_ORIGINAL_COMMAND" | sed s,/etc/slipway/,%[1]s/,)"
`, dir))
	address := serve(t, path, filepath.Join(dir, "config"))
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := site.Endpoint{URL: "ssh://" + address, Trust: site.Trust{HostKeys: []string{hostKey}}}
	return drivertest.Subject{
		Endpoint: endpoint, Secret: secret.New(me.Username, string(private)), Node: &site.Node{Name: "n1"},
		Counts: func() drivertest.Counts { return drivertest.Counts{} },
	}
}

func serve(t *testing.T, sshd, config string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { hand(t, conn.(*net.TCPConn), sshd, config) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func hand(t *testing.T, conn *net.TCPConn, sshd, config string) {
	f, err := conn.File()
	conn.Close()
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	var said bytes.Buffer
	cmd := exec.Command(sshd, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f, f, &said
	cmd.Run() // 255 whenever a client just goes
	t.Logf("sshd: %s", said.String())
}

// writeKey makes a key pair and returns the public part.
func writeKey(t *testing.T, path string) string {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := gossh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(block)))
	key, err := gossh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key)))
}

func write(t *testing.T, path, content string) {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
