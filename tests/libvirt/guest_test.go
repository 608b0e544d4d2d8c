package libvirt_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// TestGuest boots a guest from the image and a seed: it has the seed's host key,
// name, address and account, its file system has grown to the disk, and it shuts
// down when asked to.
func TestGuest(t *testing.T) {
	image, _ := libvirt.Image(t)
	h := libvirt.Start(t)
	host, user := newKey(t), newKey(t)
	disk, seed := overlay(t, h, image), seed(t, h, host, user)
	l := connect(t, h, golibvirt.QEMUSystem)
	d, err := l.DomainDefineXMLFlags(fmt.Sprintf(guest, disk, seed), 0)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := l.DomainCreate(d); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			console, _ := os.ReadFile(filepath.Join(h.Folder, "var/log/libvirt/n1.console"))
			t.Logf("the console:\n%s", console)
		}
	}()
	client := login(t, h, host, user)
	t.Logf("the first boot took %.1f s until login", time.Since(begun).Seconds())
	for command, want := range map[string]string{
		"cat /etc/hostname":                    "n1\n",
		"cloud-init status --wait | tail -n 1": "status: done\n",
		"cat /run/told":                        "hello\n",
		"[ $(df -m --output=size / | tail -n 1) -gt 1800 ] && echo grown": "grown\n",
		"systemctl is-failed --quiet '*' || echo good":                    "good\n",
	} {
		if got := run(t, client, command); got != want {
			t.Errorf("%s: %q", command, got)
		}
	}
	t.Logf("and %.1f s until cloud-init was done", time.Since(begun).Seconds())
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	events, err := l.LifecycleEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.DomainShutdown(d); err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if golibvirt.DomainEventType(e.Event) == golibvirt.DomainEventStopped {
			return
		}
	}
	t.Error("asked to shut down, the guest goes on")
}

func TestServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, []byte("an image"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(libvirt.Serve(t, file))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); string(got) != "an image" || err != nil {
		t.Errorf("got %q: %v", got, err)
	}
}

// guest has a disk and a seed.
const guest = `<domain type='qemu'><name>n1</name><memory unit='MiB'>256</memory>
	<os><type arch='x86_64' machine='q35'>hvm</type><bios useserial='yes'/></os>
	<features><acpi/></features>
	<devices>
		<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
		<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='%s'/><target dev='sda' bus='scsi'/></disk>
		<controller type='scsi' model='virtio-scsi'/>
		<interface type='bridge'><source bridge='br0'/><mac address='52:54:00:00:00:11'/><model type='virtio'/></interface>
		<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
		<serial type='pty'><log file='/var/log/libvirt/n1.console'/></serial>
	</devices></domain>`

const (
	userData = `#cloud-config
disable_root: false
ssh_deletekeys: true
ssh_genkeytypes: []
ssh_keys: {ed25519_private: %q, ed25519_public: %q}
users: [{name: root, ssh_authorized_keys: [%q]}]
runcmd: [[sh, -c, echo hello > /run/told]]
`
	metaData      = "instance-id: n1-1\nlocal-hostname: n1\n"
	networkConfig = `version: 2
ethernets:
  net0: {match: {macaddress: "52:54:00:00:00:11"}, set-name: net0, addresses: [10.77.0.11/24]}
`
)

// overlay is a disk of 2 GiB on an image.
func overlay(t *testing.T, h *libvirt.Hypervisor, image string) string {
	t.Helper()
	disk := filepath.Join(h.Folder, "n1.qcow2")
	do(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, disk, "2G")
	return disk
}

// seed is the medium that cloud-init reads.
func seed(t *testing.T, h *libvirt.Hypervisor, host, user key) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"meta-data": metaData, "network-config": networkConfig, "user-data": fmt.Sprintf(userData, host.private, host.public, user.public),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	iso := filepath.Join(h.Folder, "n1.iso")
	do(t, "xorriso", "-as", "mkisofs", "-quiet", "-V", "cidata", "-r", "-o", iso, dir)
	return iso
}

func do(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// key is one of OpenSSH, as its files have it.
type key struct {
	private, public string
	signer          ssh.Signer
}

func newKey(t *testing.T) key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key{string(pem.EncodeToMemory(block)), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), signer}
}

// login is that of root, as soon as the guest answers. A guest that answers with
// another key is a failure at once.
func login(t *testing.T, h *libvirt.Hypervisor, host, user key) *ssh.Client {
	t.Helper()
	config := &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(user.signer)}, HostKeyCallback: ssh.FixedHostKey(host.signer.PublicKey())}
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	pace := time.NewTicker(200 * time.Millisecond) // for when it refuses, which takes no time
	defer pace.Stop()
	for ; ; <-pace.C {
		attempt, stop := context.WithTimeout(ctx, 3*time.Second) // a SYN that nobody heard is not waited for longer
		c, err := h.Dial(attempt, "tcp", "10.77.0.11:22")
		stop()
		if err != nil && ctx.Err() == nil {
			continue
		}
		if err != nil {
			t.Fatalf("the guest does not answer: %v", err)
		}
		conn, channels, requests, err := ssh.NewClientConn(c, "n1", config)
		if err != nil {
			t.Fatal(err)
		}
		client := ssh.NewClient(conn, channels, requests)
		t.Cleanup(func() { client.Close() })
		return client
	}
}

func run(t *testing.T, client *ssh.Client, command string) string {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	out, err := session.CombinedOutput(command)
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
	return string(out)
}
