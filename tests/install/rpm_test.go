package install

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// Rpm takes the package: it installs, is as it was built, is put over itself, and
// leaves what was recorded when it goes. The root is a Debian's, which has what the
// package depends on, though not as rpm knows it.
func TestPackageByRPM(t *testing.T) {
	t.Parallel()
	nspawn.Require(t, "rpm", "unshare", "mount")
	file := nspawn.Only(t, nspawn.Packages(t), ".rpm")
	root := nspawn.Unpack(t)
	at := func(path string) string { return filepath.Join(root, path) }
	// The scripts want a /proc, which goes with the namespace.
	inside := func(words ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-ec", `mount -t proc proc "$0"; exec "$@"`, at("proc")}, words...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
		}
		return string(out)
	}
	rpm := func(args ...string) string {
		t.Helper()
		out := inside(append([]string{"rpm", "--root", root, "--dbpath", "/var/lib/rpm"}, args...)...)
		if strings.Contains(out, "scriptlet failed") { // which rpm takes for a success
			t.Errorf("rpm %s: %s", strings.Join(args, " "), out)
		}
		return out
	}
	chroot := func(words ...string) string { return inside(append([]string{"chroot", root}, words...)...) }

	if got := rpm("-K", "--nosignature", file); !strings.HasSuffix(got, ": digests OK\n") {
		t.Errorf("the digests: %s", got)
	}
	if got := rpm("-qp", "--requires", file); !strings.Contains(got, "systemd >= 251") {
		t.Errorf("the package requires %s", got)
	}
	rpm("--initdb")
	rpm("-i", "--nodeps", file)
	if got := chroot("slipway", "version"); !strings.Contains(got, "schema v1") {
		t.Errorf("the version is %s", got)
	}
	if got := chroot("stat", "-c", "%n %U:%G %a", "/etc/slipway/credentials", "/var/lib/slipway", "/var/lib/slipway-key"); got !=
		"/etc/slipway/credentials root:root 700\n/var/lib/slipway slipway:slipway 710\n/var/lib/slipway-key slipway:slipway 700\n" {
		t.Errorf("the folders are\n%s", got)
	}
	if got := rpm("-V", "--nodeps", "slipway"); got != "" {
		t.Errorf("the installed package is other than it was built:\n%s", got)
	}
	for _, path := range []string{"usr/lib/systemd/system/slipway.service", "usr/share/zsh/site-functions/_slipway"} {
		if _, err := os.Stat(at(path)); err != nil {
			t.Error(err)
		}
	}

	write(t, at("etc/slipway/slipway.env"), "SLIPWAY_REPO=ssh://git@192.0.2.1/site.git\n")
	write(t, at("var/lib/slipway/record"), "kept")
	rpm("-U", "--force", "--nodeps", file)
	if got := read(t, at("etc/slipway/slipway.env")); !strings.HasPrefix(got, "SLIPWAY_REPO=ssh:") {
		t.Errorf("an upgrade has exchanged the settings for\n%s", got)
	}
	rpm("-e", "slipway")
	if _, err := os.Stat(at("usr/bin/slipway")); !os.IsNotExist(err) {
		t.Errorf("the program is left: %v", err)
	}
	if got := read(t, at("var/lib/slipway/record")) + read(t, at("etc/slipway/slipway.env.rpmsave")); !strings.HasPrefix(got, "keptSLIPWAY_REPO=ssh:") {
		t.Errorf("what is left is\n%s", got)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// A tool that pushes images to registries takes the image for one, and reads all of
// its blobs.
func TestImageBySkopeo(t *testing.T) {
	t.Parallel()
	nspawn.Require(t, "skopeo")
	image := "oci-archive:" + nspawn.Only(t, nspawn.Packages(t), "_oci.tar")
	skopeo := func(args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "skopeo", append([]string{"--insecure-policy"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("skopeo %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	var about struct {
		OS     string
		Layers []string
		Labels map[string]string
	}
	if err := json.Unmarshal(skopeo("inspect", image), &about); err != nil {
		t.Fatal(err)
	}
	if about.OS != "linux" || len(about.Layers) != 1 || about.Labels["org.opencontainers.image.title"] != "slipway" {
		t.Errorf("the image is %+v", about)
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
	}
	if err := json.Unmarshal(skopeo("inspect", "--config", image), &config); err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/usr/bin/slipway" {
		t.Errorf("the configuration is %+v", config)
	}
	skopeo("copy", "--quiet", image, "dir:"+t.TempDir())
}
