package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const unitFile = "../packaging/slipway.service"

// unitFiles are all that the packages bring.
var unitFiles = []string{unitFile, "../packaging/slipway-backup.service", "../packaging/slipway-backup.timer"}

// analyze runs systemd-analyze, which setup.sh installs.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is not here: run ./setup.sh")
		}
		t.Skip("systemd-analyze is not here")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// systemd understands every line of the unit files.
func TestUnitsAreUnderstood(t *testing.T) {
	folder := t.TempDir()
	for _, file := range unitFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Where no slipway is installed, another program is in its place.
		there := strings.ReplaceAll(string(text), "/usr/bin/slipway", "/bin/true")
		path := filepath.Join(folder, filepath.Base(file))
		if err := os.WriteFile(path, []byte(there), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := analyze(t, "verify", "--man=no", path); said != "" {
			t.Errorf("systemd-analyze verify says of %s:\n%s", file, said)
		}
		if err := os.WriteFile(path, []byte(there+"\n[Unit]\nOOMPolicies=continue\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := analyze(t, "verify", "--man=no", path); !strings.Contains(said, "OOMPolicies") {
			t.Errorf("%s: a word that systemd does not know goes unnoticed: %q", file, said)
		}
		if err := os.WriteFile(path, []byte(there), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The daemon is confined. The threshold is in tenths of what systemd-analyze calls exposure;
// 4 of them are the sockets and capabilities of network boot.
func TestUnitIsConfined(t *testing.T) {
	said := analyze(t, "security", "--offline=true", "--threshold=21", "--no-pager", unitFile)
	if !strings.Contains(said, "Overall exposure level") {
		t.Errorf("systemd-analyze security says:\n%s", said)
	}
}

// What keeps the daemon alive and its files its own is in the unit file.
func TestUnitSaysWhatItMust(t *testing.T) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"MemoryMax=6G", "MemorySwapMax=0", "OOMPolicy=continue", "UMask=0077", "LimitCORE=0", "NoNewPrivileges=yes", "User=slipway", "Group=slipway",
		"StateDirectoryMode=0710", "Restart=on-failure", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE CAP_NET_RAW", "AmbientCapabilities=CAP_NET_BIND_SERVICE CAP_NET_RAW",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET", "StateDirectory=slipway", "ReadWritePaths=/var/lib/slipway-key", "LoadCredential=credentials:/etc/slipway/credentials",
		"Environment=SLIPWAY_BRANCH=main SLIPWAY_KNOWN_HOSTS=/etc/slipway/known_hosts", "Environment=SLIPWAY_ARTIFACT_LISTEN=:9480 SLIPWAY_FLAGS=", "    --state /var/lib/slipway --socket-group slipway --artifact-listen ${SLIPWAY_ARTIFACT_LISTEN} $SLIPWAY_FLAGS",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `$`).Match(text) {
			t.Errorf("the unit file has no line %s", line)
		}
	}
}
