package target_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/ramdisk/media"
)

const token = "a-token-of-this-boot"

// daemon takes the calls of agents in memory, as the test asks.
type daemon struct {
	t  *testing.T
	on net.Listener
}

// agent is one that has called.
type agent struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	is   wire.Machine
}

// listen gives a daemon, and the words by which agents find it.
func listen(t *testing.T) (d *daemon, words string) {
	t.Helper()
	authority, certificate := media.Certificates(t)
	on, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert})
	check(t, err)
	t.Cleanup(func() { on.Close() })
	_, port, err := net.SplitHostPort(on.Addr().String())
	check(t, err)
	return &daemon{t, on}, fmt.Sprintf("slipway.daemon=%s:%s slipway.ca=sha256:%x", media.Host, port, sha256.Sum256(authority))
}

// accept waits until an agent has called with the token.
func (d *daemon) accept() *agent {
	t := d.t
	t.Helper()
	timer := time.AfterFunc(patience, func() { d.on.Close() })
	defer timer.Stop()
	conn, err := d.on.Accept()
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	check(t, conn.SetDeadline(time.Now().Add(patience)))
	a := &agent{t: t, conn: conn, in: bufio.NewReader(conn)}
	var hello wire.Hello
	check(t, wire.ReadAtMost(a.in, &hello, wire.MaxHello))
	if a.is = hello.Machine; hello.Token != token || a.is.UUID != uuid || a.is.Serial != serial {
		t.Fatalf("the agent of another machine calls: %+v", hello)
	}
	check(t, wire.Write(conn, wire.Welcome{Version: wire.Version, Site: "test", Node: "n1"}))
	return a
}

// ask asks one thing, and gives what was told on the way.
func (a *agent) ask(r wire.Request) (said []string, _ wire.Result) {
	a.t.Helper()
	began := time.Now()
	check(a.t, a.conn.SetDeadline(began.Add(patience)))
	check(a.t, wire.Write(a.conn, r))
	for {
		var f wire.Frame
		check(a.t, wire.Read(a.in, &f))
		if f.Result != nil {
			a.t.Logf("%s took %s", r.Op, time.Since(began).Round(time.Second))
			return said, *f.Result
		}
		if f.Progress != nil {
			a.t.Logf("%5.0f s: %s", time.Since(began).Seconds(), f.Progress.Text)
			said = append(said, f.Progress.Text)
		}
	}
}

// ramdisk starts the machine from a medium with its disks, until end is called.
func (m *machine) ramdisk(iso string) (end func()) {
	t := m.t
	t.Helper()
	cmd := m.qemu(filepath.Join(m.folder, "vars"), []string{"DISK-A", "DISK-B", "OTHER-X"},
		"-drive", "if=none,id=cd,media=cdrom,readonly=on,format=raw,file="+iso, "-device", "ide-cd,drive=cd,bus=ide.2,bootindex=0",
		"-netdev", "user,id=net", "-device", "e1000e,netdev=net,mac=52:54:00:12:34:56,romfile=")
	cmd.Stdout, cmd.Stderr = &m.log, &m.log
	check(t, cmd.Start())
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill() // it may have ended by itself
			_ = cmd.Wait()
		}
	}
	t.Cleanup(end)
	return end
}

// serve serves images over HTTP as the daemon does, at paths of their own.
func serve(t *testing.T, images map[string]wire.Image, files map[string][]byte) {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, err := net.SplitHostPort(on.Addr().String())
	check(t, err)
	for name, i := range images {
		i.URL = fmt.Sprintf("http://%s:%s/%s", media.Host, port, name)
		images[name] = i
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})}
	go s.Serve(on)
	t.Cleanup(func() { s.Close() })
}

// onlyNames is an image in which nothing runs: it has what is looked for before the disks are
// erased.
func onlyNames(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"boot/vmlinuz-1", "usr/sbin/update-initramfs", "usr/sbin/sshd", "usr/sbin/grub-install", "usr/lib/grub/x86_64-efi/x.mod", "usr/sbin/mdadm", "usr/sbin/lvm"} {
		check(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}))
		_, err := w.Write([]byte("x"))
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

// allKinds is a system with an array, volumes, and a file system of each kind.
func allKinds(t *testing.T, seen []item.Disk) *site.Node {
	n := node(t, seen)
	extent := func(text string) site.Extent {
		e, err := site.ParseExtent(text)
		check(t, err)
		return e
	}
	for name, d := range n.Storage.Disks {
		d.Partitions["swap"] = site.Partition{Number: 3, Size: extent("64MiB"), Use: site.Use{Filesystem: &site.Filesystem{Type: "swap"}}}
		d.Partitions["data"] = site.Partition{Number: 4, Size: extent("700MiB"), Use: site.Use{Group: "data"}}
		n.Storage.Disks[name] = d
	}
	n.Storage.Groups = map[string]site.VolumeGroup{"data": {Volumes: map[string]site.LogicalVolume{
		"x": {Size: extent("400MiB"), Filesystem: &site.Filesystem{Type: "xfs", Mount: "/srv/x"}},
		"b": {Size: extent("256MiB"), Filesystem: &site.Filesystem{Type: "btrfs", Mount: "/srv/b"}},
	}}}
	return n
}

// tampered is a medium with one byte of its programs changed.
func tampered(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check(t, err)
	at, size, err := wire.ToolsOf(bytes.NewReader(content))
	check(t, err)
	content[at+size/2] ^= 1
	to := filepath.Join(t.TempDir(), "tampered.iso")
	check(t, os.WriteFile(to, content, 0o600))
	return to
}

// TestProveRamdiskInstalls starts a machine from the medium of the ramdisk. Its agent calls over
// the network, takes the programs for disks from the medium, and installs a system on a mirror
// of two disks, which then starts from them. With a medium whose programs were changed it
// refuses, and writes nothing.
func TestProveRamdiskInstalls(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("packs a whole kernel, and takes many minutes on an emulated processor: set SLIPWAY_PROVE")
	}
	m := newMachine(t, false)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, words := listen(t)
	built := media.Build(ctx, t, "")
	t.Logf("image %d bytes, programs %d bytes, %d unpacked, of %d packages", built.Image.Bytes, built.Tools.Bytes, built.Tools.Unpacked, len(built.Tools.Packages))
	iso := media.ForBoot(t, built.Medium.Path, words, "slipway.token="+token) // as the daemon serves it, so that the image is the same for all
	whole, err := os.ReadFile(m.file("image"))
	check(t, err)
	names := onlyNames(t)
	images := map[string]wire.Image{"system": m.image, "names": {Kind: "root", SHA256: fmt.Sprintf("%x", sha256.Sum256(names)), Bytes: int64(len(names))}}
	serve(t, images, map[string][]byte{"system": whole[:m.image.Bytes], "names": names})
	m.image = images["system"]
	for _, name := range []string{"DISK-A", "DISK-B"} { // what is not to be lost
		f, err := os.OpenFile(m.file(name), os.O_WRONLY, 0)
		check(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte("something of somebody "), 1000), 100<<20)
		check(t, err)
		check(t, f.Close())
	}
	digests := func() (all []string) {
		for _, name := range []string{"DISK-A", "DISK-B", "OTHER-X"} {
			all = append(all, m.digest(name))
		}
		return all
	}
	before := digests()
	lay := func(n *site.Node, seen []item.Disk) item.Layout {
		t.Helper()
		l, findings := layout.Of(n, seen)
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		return l
	}

	end := m.ramdisk(tampered(t, iso))
	a := d.accept()
	_, got := a.ask(m.request(lay(node(t, a.is.Disks), a.is.Disks)))
	if got.Error == nil || got.Error.Class != wire.Refused || !strings.Contains(got.Error.Text, "has other programs for disks, with the SHA-256") || !strings.Contains(got.Error.Text, "nothing was written") {
		t.Errorf("with a tampered medium: %+v", got.Error)
	}
	end()
	if after := digests(); !slices.Equal(after, before) {
		t.Fatalf("the disks were written to: %q, and were %q", after, before)
	}

	end = m.ramdisk(iso)
	a = d.accept()
	l := lay(node(t, a.is.Disks), a.is.Disks)
	r := m.request(lay(allKinds(t, a.is.Disks), a.is.Disks))
	r.Install.Image = images["names"]
	said, got := a.ask(r)
	if got.Error == nil || !strings.Contains(got.Error.Text, "the image has no SSH server") {
		t.Fatalf("an image in which nothing runs: %+v", got.Error)
	}
	for _, want := range []string{"of the medium sr0", "making the array system", "making the volume group data", "making xfs on", "making btrfs on", "making swap on", "making vfat on", "making ext4 on", "mounting /srv/b", "unpacking the image"} {
		if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("it did not tell of %q, but %q", want, said)
		}
	}
	_, got = a.ask(m.request(l))
	if got.Error != nil || got.Installed == nil || got.Installed.Already || len(got.Installed.Entries) != 2 || len(got.Installed.Kernels) != 1 {
		t.Fatalf("it answers %+v, %+v", got.Error, got.Installed)
	}
	_, again := a.ask(m.request(l))
	if again.Error != nil || again.Installed == nil || !again.Installed.Already || !slices.Equal(again.Installed.HostKeys, got.Installed.HostKeys) {
		t.Errorf("the same request again: %+v, %+v", again.Error, again.Installed)
	}
	end()
	if m.digest("OTHER-X") != before[2] {
		t.Error("a disk that is not designed was written")
	}
	started := m.power("a start from the disks", "", filepath.Join(m.folder, "vars"), []string{"DISK-A", "DISK-B"})
	m.isRunning("both disks", started, l, m.request(l).Install.Marker, hostKey(got.Installed))
}
