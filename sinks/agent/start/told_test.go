package start

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// The network tells where the daemon is and nothing else; what the command line says stays.
func TestTold(t *testing.T) {
	ca := "slipway.ca=sha256:" + strings.Repeat("0a", 32)
	own, err := Parse("slipway.mac=52:54:00:00:00:01", "")
	if err != nil || !own.OverNetwork() {
		t.Fatal(own, err)
	}
	is, err := own.told("slipway.daemon=10.1.0.2:9481 " + ca)
	if err != nil || is.Daemon != "10.1.0.2:9481" || is.CA[0] != 0x0a || is.MAC != own.MAC || is.OverNetwork() {
		t.Errorf("%+v, %v", is, err)
	}
	for words, says := range map[string]string{
		"":                             "does not name the daemon",
		ca:                             "does not name the daemon",
		"slipway.daemon=10.1.0.2:9481": "needs slipway.ca beside it",
		"slipway.daemon=10.1.0.2:9481 slipway.token=t " + ca:       "says more than that",
		"slipway.daemon=10.1.0.2:9481 slipway.ip=10.1.0.9/8 " + ca: "says more than that",
		"\xff": "does not begin with",
	} {
		if is, err := own.told(words); err == nil || !strings.Contains(err.Error(), says) || is.Daemon != "" {
			t.Errorf("%q: %+v, %v", words, is, err)
		}
	}
}

// A UUID is sent as firmware sends it.
func TestMachineID(t *testing.T) {
	got := machineID("00112233-4455-6677-8899-AABBCCDDEEFF")
	if want := []byte{0, 0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}; !bytes.Equal(got, want) {
		t.Errorf("got %x", got)
	}
	for _, uuid := range []string{"", "none", "00112233-4455-6677-8899-aabbccddee"} {
		if got := machineID(uuid); got != nil {
			t.Errorf("%q: %x", uuid, got)
		}
	}
}

// A real server of DHCP, on another host, tells where the daemon is.
func TestAsksWhereTheDaemonIs(t *testing.T) {
	const dnsmasq = "/usr/sbin/dnsmasq"
	if _, err := os.Stat(dnsmasq); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v: setup.sh installs it", err)
	}
	ownNetwork(t)
	l, dir := link(t, "own"), t.TempDir()
	if err := up(l.Index); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("sh", "-ec", `read go; ip addr add 198.51.100.1/24 dev far; ip link set far up; exec "$0" "$@"`, dnsmasq, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root",
		"--interface=far", "--bind-interfaces", "--no-ping", "--dhcp-range=198.51.100.50,198.51.100.60,255.255.255.0,2m", "--dhcp-vendorclass=set:agent,slipway-agent",
		"--dhcp-option-force=tag:agent,60,slipway-agent", "--dhcp-option-force=tag:agent,43,slipway.daemon=198.51.100.1:9481 slipway.ca=sha256:"+strings.Repeat("0a", 32),
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"))
	server.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET}
	server.Stderr = os.Stderr
	begin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	ip(t, "link", "set", "far", "netns", strconv.Itoa(server.Process.Pid))
	if _, err := io.WriteString(begin, "go\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n := &network{console: &console{}, resolv: filepath.Join(dir, "resolv.conf"), uuid: "00112233-4455-6677-8899-aabbccddeeff"}
	lease, err := n.lease(ctx, l, nil)
	for err != nil && strings.Contains(err.Error(), "no buffer space") && ctx.Err() == nil { // the other end is not up yet: the agent tries again too
		lease, err = n.lease(ctx, l, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ask(ctx, l, lease.ACK.YourIPAddr); err != nil {
		t.Fatal(err)
	}
	is, known := n.daemon("own")
	if !known || is.Daemon != "198.51.100.1:9481" || len(is.CA) != 32 {
		t.Fatalf("known %t: %+v", known, is)
	}
	if _, known := n.daemon("other"); known {
		t.Error("what one network tells is believed of another one")
	}
	n.doubt("own")
	if _, known := n.daemon("own"); known {
		t.Error("what is doubted is believed")
	}
	n.keep(is)
	n.doubt("own")
	if kept, known := n.daemon("other"); !known || kept.Daemon != is.Daemon {
		t.Errorf("the daemon that has welcomed the machine is %+v, %t", kept, known)
	}
}

// The programs for disks that the daemon sends are those of the ramdisk, or nothing is done.
func TestSentArchive(t *testing.T) {
	archive := []byte("the programs for disks")
	want := wire.Tools{SHA256: fmt.Sprintf("%x", sha256.Sum256(archive)), Bytes: int64(len(archive))}
	for name, c := range map[string]struct {
		content []byte
		size    int64
		err     error
		says    string
	}{
		"the right ones": {content: archive, size: want.Bytes},
		"refused":        {err: errors.New("none here"), says: "none here"},
		"more":           {content: archive, size: want.Bytes + 1, says: "other programs for disks, with 23 bytes"},
		"others":         {content: bytes.ToUpper(archive), size: want.Bytes, says: "with the SHA-256"},
		"cut":            {content: archive[1:], size: want.Bytes, says: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			h := inside.Real(t.TempDir(), true)
			h.Fetch = func(sum, file string, room int64) (io.ReadCloser, int64, error) {
				if sum != want.SHA256 || file != wire.ToolsFor || room != want.Bytes {
					t.Errorf("asked for %s, %s, %d", sum, file, room)
				}
				return io.NopCloser(bytes.NewReader(c.content)), c.size, c.err
			}
			got, where, err := sentArchive(t.Context(), h, want)
			if c.says == "" && (err != nil || !bytes.Equal(got, archive) || where != "the daemon") {
				t.Errorf("%q of %s, %v", got, where, err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nothing was written")) {
				t.Errorf("got %v", err)
			}
		})
	}
}
