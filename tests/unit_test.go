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

// systemd understands every line of the unit file.
func TestUnitIsUnderstood(t *testing.T) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	// Where no slipway is installed, another program is in its place.
	there := strings.ReplaceAll(string(text), "/usr/local/bin/slipway", "/bin/true")
	path := filepath.Join(t.TempDir(), "slipway.service")
	if err := os.WriteFile(path, []byte(there), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := analyze(t, "verify", "--man=no", path); said != "" {
		t.Errorf("systemd-analyze verify says:\n%s", said)
	}
	if err := os.WriteFile(path, []byte(there+"\n[Service]\nOOMPolicies=continue\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := analyze(t, "verify", "--man=no", path); !strings.Contains(said, "OOMPolicies") {
		t.Errorf("a word that systemd does not know goes unnoticed: %q", said)
	}
}

// The daemon is confined. The threshold is in tenths of what systemd-analyze calls exposure.
func TestUnitIsConfined(t *testing.T) {
	said := analyze(t, "security", "--offline=true", "--threshold=17", "--no-pager", unitFile)
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
		"MemoryMax=6G", "MemorySwapMax=0", "OOMPolicy=continue", "UMask=0077", "LimitCORE=0", "NoNewPrivileges=yes", "DynamicUser=yes",
		"StateDirectoryMode=0700", "Restart=on-failure", "StateDirectory=slipway slipway-key",
		"Environment=SLIPWAY_ARTIFACT_LISTEN=:9480 SLIPWAY_FLAGS=", "    --artifact-listen ${SLIPWAY_ARTIFACT_LISTEN} $SLIPWAY_FLAGS",
	} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `$`).Match(text) {
			t.Errorf("the unit file has no line %s", line)
		}
	}
}
