// Package install holds that the packages install, run, upgrade and go as
// docs/install.md says, under a real systemd.
package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

func TestMain(m *testing.M) { os.Exit(nspawn.Main(m)) }

// The package installs, its daemon follows a repository over SSH, its socket is
// for a group, an upgrade and a removal keep what was recorded, and a purge does not.
func TestPackageUnderSystemd(t *testing.T) {
	t.Parallel()
	nspawn.Require(t)
	deb := nspawn.Only(t, nspawn.Packages(t), ".deb")
	s := nspawn.Boot(t, nspawn.Loopback)
	if out, err := exec.Command("cp", "-r", deb, "../../site-example", filepath.Join(s.Root, "root")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	install := "dpkg -i /root/" + filepath.Base(deb)

	// What the package brings. Nothing starts by itself.
	s.Does(install)
	s.Says("id -nG slipway; systemctl is-active slipway || true; systemctl is-enabled slipway slipway-backup.timer || true", "slipway\ninactive\ndisabled\ndisabled")
	s.Says("stat -c '%n %U:%G %a' /etc/slipway/credentials /etc/slipway/slipway.env /var/lib/slipway /var/lib/slipway-key /var/lib/slipway-backup",
		"/etc/slipway/credentials root:root 700\n/etc/slipway/slipway.env root:root 644\n/var/lib/slipway slipway:slipway 710\n"+
			"/var/lib/slipway-key slipway:slipway 700\n/var/lib/slipway-backup slipway:slipway 700")

	// Without a repository the daemon says what is missing and is not started
	// again; that there are no credentials does not matter to systemd.
	s.Does("systemctl start slipway")
	s.Comes("systemctl show -P ExecMainStatus slipway", "64")
	s.Says("systemctl show -P ActiveState slipway; systemctl show -P NRestarts slipway", "failed\n0")
	s.Does("journalctl -u slipway | grep -q 'run follows either --repo or --dir'")

	// A repository on an SSH server, whose key and credential are files.
	s.Does(`useradd -m -s /usr/bin/git-shell git
		git init -q --bare -b main /home/git/site.git
		cd /root/site-example; git init -q -b main; git add -A
		git -c user.name=t -c user.email=t@example.org commit -qm 'the site'; git push -q /home/git/site.git main; chown -R git: /home/git
		ssh-keygen -A >/dev/null; systemctl restart ssh
		ssh-keygen -q -t ed25519 -N '' -f /root/key; install -D -o git -m 600 /root/key.pub /home/git/.ssh/authorized_keys; chown git: /home/git/.ssh
		echo "127.0.0.1 $(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)" >>/etc/slipway/known_hosts
		(umask 077; printf 'hosts: 127.0.0.1\nuse: git\n\n' | cat - /root/key >/etc/slipway/credentials/git)
		echo SLIPWAY_REPO=ssh://git@127.0.0.1/home/git/site.git >>/etc/slipway/slipway.env`)
	s.Does("systemctl enable --now slipway")
	s.Comes("slipway status", "site example  0/12 in-sync")
	s.Comes("runuser -u git -- git -C /home/git/site.git branch --list 'slipway/*'", "slipway/status/example") // it may also write there
	s.Says("systemctl is-active slipway; stat -c '%U' /proc/$(systemctl show -P MainPID slipway)", "active\nslipway")
	s.Says("stat -c '%n %U:%G %a' /var/lib/slipway /var/lib/slipway/control.sock /var/lib/slipway/records /var/lib/slipway-key/site.key",
		"/var/lib/slipway slipway:slipway 710\n/var/lib/slipway/control.sock slipway:slipway 660\n"+
			"/var/lib/slipway/records slipway:slipway 700\n/var/lib/slipway-key/site.key slipway:slipway 400")
	s.Says("find /var/lib/slipway -mindepth 1 -maxdepth 1 ! -type s -perm /077", "")

	// People of the group use the daemon by their own names, and read no file.
	s.Does("useradd -m -G slipway ana; useradd -m bob")
	s.Does("runuser -u ana -- slipway status")
	s.Says("runuser -u ana -- slipway __complete why controller- 2>/dev/null | sed -n 1p | cut -f1", "controller-1")
	s.Does("runuser -u ana -- slipway pause compute-1 --reason 'rack move'")
	s.Does("slipway history compute-1 | grep 'by ana'")
	s.Refuses("runuser -u ana -- ls /var/lib/slipway", "Permission denied")
	s.Refuses("runuser -u ana -- cat /etc/slipway/credentials/git", "Permission denied")
	s.Refuses("runuser -u bob -- slipway status", "is not open to you")
	s.Refuses("runuser -u bob -- slipway pause compute-2 --reason x", "is not open to you")

	// A backup while the daemon runs, and one while it does not.
	s.Does("systemctl start slipway-backup")
	s.Says("stat -c '%U:%G %a' /var/lib/slipway-backup/day-$(date +%u).jsonl", "slipway:slipway 600")
	s.Does("grep -q 'rack move' /var/lib/slipway-backup/day-*.jsonl; rm /var/lib/slipway-backup/*")
	s.Does("systemctl stop slipway; systemctl start slipway-backup; grep -q 'rack move' /var/lib/slipway-backup/day-*.jsonl")

	// It is put back as docs/install.md says, and leaves the site paused.
	s.Does("runuser -u slipway -- slipway state import - --replace </var/lib/slipway-backup/day-$(date +%u).jsonl; systemctl start slipway")
	s.Comes("slipway status", "paused")
	s.Does("systemctl enable --now slipway-backup.timer; systemctl is-active slipway-backup.timer")
	s.Comes("slipway status", "in force")

	// An upgrade: another process, the same settings and records.
	before := s.Does("systemctl show -P MainPID slipway")
	s.Does(install)
	s.Says("systemctl is-active slipway; systemctl is-enabled slipway", "active\nenabled")
	if after := s.Does("systemctl show -P MainPID slipway"); after == before {
		t.Error("the daemon of before the upgrade goes on")
	}
	s.Does("grep -q ^SLIPWAY_REPO=ssh /etc/slipway/slipway.env; test -s /etc/slipway/credentials/git")
	s.Comes("slipway status --all", "rack move")

	// A removal leaves the settings and the records; a purge takes them, and
	// leaves what nothing can replace.
	s.Does("dpkg -r slipway")
	s.Says("systemctl is-active slipway slipway-backup.timer || true", "inactive\ninactive")
	s.Does("test -d /var/lib/slipway/records; test -s /etc/slipway/slipway.env; test -s /etc/slipway/credentials/git; test ! -e /usr/bin/slipway")
	s.Does(install + "; systemctl start slipway")
	s.Comes("slipway status --all", "rack move")
	said := s.Does("dpkg -P slipway")
	s.Does("test ! -e /etc/slipway; test ! -e /var/lib/slipway; test -s /var/lib/slipway-key/site.key; ls /var/lib/slipway-backup/day-*.jsonl")
	for _, want := range []string{"/var/lib/slipway-key is left", "/var/lib/slipway-backup is left"} {
		if !strings.Contains(said, want) {
			t.Errorf("the purge does not say %q:\n%s", want, said)
		}
	}
	s.Says("systemctl is-system-running || true", "running")
}

// Equal sources and times give equal octets, whatever the surroundings.
func TestPackagesAreReproducible(t *testing.T) {
	t.Parallel()
	one, two := nspawn.Packages(t), t.TempDir()
	if err := nspawn.Build(two, "077", "TZ=Asia/Tokyo", "TMPDIR="+t.TempDir(), "SLIPWAY_STATE=/elsewhere", "LC_ALL=C"); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(one)
	if err != nil || len(files) != 5 {
		t.Fatalf("%d files are built, %v", len(files), err)
	}
	for _, f := range files {
		a, aerr := os.ReadFile(filepath.Join(one, f.Name()))
		b, berr := os.ReadFile(filepath.Join(two, f.Name()))
		if err := errors.Join(aerr, berr); err != nil {
			t.Error(err)
		} else if !bytes.Equal(a, b) {
			t.Errorf("%s differs: %d and %d octets", f.Name(), len(a), len(b))
		}
	}
	holdImage(t, nspawn.Only(t, one, "_oci.tar"))
}

// holdImage follows the digests of an image layout down to its layers.
func holdImage(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	type descriptor struct {
		Digest string
		Size   int
	}
	layers := 0
	var hold func(name string)
	hold = func(name string) {
		var of struct {
			Manifests, Layers []descriptor
			Config            *descriptor
		}
		if err := json.Unmarshal(all[name], &of); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		blob := func(d descriptor) string {
			path := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
			if got := fmt.Sprintf("sha256:%x", sha256.Sum256(all[path])); got != d.Digest || len(all[path]) != d.Size {
				t.Errorf("%s names %s of %d octets, and there is %s of %d", name, d.Digest, d.Size, got, len(all[path]))
			}
			return path
		}
		for _, d := range of.Manifests {
			hold(blob(d))
		}
		for _, d := range of.Layers {
			blob(d)
			layers++
		}
		if of.Config == nil {
			return
		}
		var config struct {
			Architecture string
			Config       struct{ User string }
			RootFS       struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		if err := json.Unmarshal(all[blob(*of.Config)], &config); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(all[blob(of.Layers[0])]))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, z); err != nil {
			t.Fatal(err)
		}
		if config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" || !slices.Equal(config.RootFS.DiffIDs, []string{fmt.Sprintf("sha256:%x", sum.Sum(nil))}) {
			t.Errorf("the image's configuration is %+v, and its layer's digest is %x", config, sum.Sum(nil))
		}
	}
	hold("index.json")
	if layers != 1 || len(all["oci-layout"]) == 0 {
		t.Errorf("%d layers, %q", layers, all["oci-layout"])
	}
}
