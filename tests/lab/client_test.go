package lab_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// debian runs a program of Debian's Python, which these clients are for, and
// says when it is not there.
func debian(t *testing.T, needs string, args ...string) string {
	t.Helper()
	if _, err := os.Stat(needs); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: make setup installs it", needs)
		}
		t.Skipf("%s is missing: make setup installs it", needs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", args...)
	cmd.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE=", "CURL_CA_BUNDLE=") // these would go before the fleet's authority
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// What OpenStack's client does with a machine: it finds its way by itself.
const withSushy = `
import sys, sushy, sushy.auth, time, urllib3
urllib3.disable_warnings()
root, ca = sys.argv[1:3]
conn = sushy.Sushy(root, auth=sushy.auth.SessionAuth('admin', 'pw'), verify=ca)
system = conn.get_system_collection().get_members()[0]
def until(state):
    for _ in range(500):
        system.refresh(force=True)
        if system.power_state == state:
            return
        time.sleep(0.02)
    sys.exit('the power is %s' % system.power_state)
until(sushy.POWER_STATE_OFF)
manager = conn.get_manager_collection().get_members()[0]
slot = [s for s in manager.virtual_media.get_members() if s.media_types and sushy.VIRTUAL_MEDIA_CD in s.media_types][0]
slot.insert_media('http://127.0.0.1:1/a.iso')
slot.refresh(force=True)
assert slot.inserted, 'the medium is not inserted'
slot.eject_media()
slot.refresh(force=True)
assert not slot.inserted, 'the medium is not ejected'
system.set_system_boot_options(target=sushy.BOOT_SOURCE_TARGET_PXE, enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)
system.refresh(force=True)
assert system.boot.target == sushy.BOOT_SOURCE_TARGET_PXE, system.boot.target
system.reset_system(sushy.RESET_TYPE_ON)
until(sushy.POWER_STATE_ON)
assert system.boot.enabled == sushy.BOOT_SOURCE_ENABLED_DISABLED, system.boot.enabled
bios = system.bios
print(len(bios.attributes), 'attributes')
system.reset_system(sushy.RESET_TYPE_FORCE_OFF)
until(sushy.POWER_STATE_OFF)
conn._conn.close()
`

// Debian's sushy drives power, boot and media of each personality.
func TestSushy(t *testing.T) {
	for _, name := range lab.Personalities {
		t.Run(name, func(t *testing.T) {
			f := start(t, one(lab.Latency{}, func(c *lab.MachineConfig) { c.Personality = name }))
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, f.CA(), 0o600); err != nil {
				t.Fatal(err)
			}
			root := fmt.Sprintf("https://127.71.0.1:%d/redfish/v1", f.BMCPort())
			if out := debian(t, "/usr/lib/python3/dist-packages/sushy", "-c", withSushy, root, ca); !strings.Contains(out, "attributes") {
				t.Error(out)
			}
			if c := f.Machine("n1").Counts(); c.Resets != 2 || c.Boots != 1 {
				t.Errorf("the machine has seen %+v", c)
			}
		})
	}
}

// DMTF's redfishtool drives the plain personality.
func TestRedfishtool(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	m := f.Machine("n1")
	tool := func(args ...string) string {
		t.Helper()
		host := fmt.Sprintf("127.71.0.1:%d", f.BMCPort())
		return debian(t, "/usr/bin/redfishtool", append([]string{"/usr/bin/redfishtool", "-r", host, "-S", "Always", "-u", "admin", "-p", "pw"}, args...)...)
	}
	if out := tool("Systems", "-F"); !strings.Contains(out, "5e1d0000-0000-4000-8000-000000000001") {
		t.Errorf("the system is %s", out)
	}
	tool("Systems", "-F", "setBootOverride", "Once", "Pxe")
	if v := dial(t, f).system()["Boot"].(map[string]any); v["BootSourceOverrideTarget"] != "Pxe" {
		t.Errorf("the override is %v", v)
	}
	tool("Systems", "-F", "reset", "On")
	eventually(t, "the machine is on", func() bool { return m.Power() == "On" })
	tool("raw", "POST", insertURI, "-d", image)
	if m.State().Media == "" {
		t.Error("the medium is not inserted")
	}
	tool("raw", "POST", ejectURI, "-d", "{}")
	tool("Systems", "-F", "reset", "ForceOff")
	eventually(t, "the machine is off", func() bool { return m.Power() == "Off" })
}
