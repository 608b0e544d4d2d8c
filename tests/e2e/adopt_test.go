package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// kinds are the models of a running fleet, of several vendors with their BMCs.
var kinds = []lab.MachineConfig{
	{Personality: "idrac9", Manufacturer: "Dell Inc.", Model: "PowerEdge R740", MemoryGiB: 256, Processors: 2, Power: "on", BootOrder: []string{"Hdd", "Pxe"}},
	{Personality: "ilo5", Manufacturer: "HPE", Model: "ProLiant DL360 Gen10", MemoryGiB: 128, Processors: 1, Power: "on", BootOrder: []string{"Pxe", "Hdd", "Usb"}},
	{Personality: "xcc", Manufacturer: "Lenovo", Model: "ThinkSystem SR650", MemoryGiB: 512, Processors: 2, Power: "on", BootOrder: []string{"Hdd"}},
	{Personality: "plain", Manufacturer: "Example", Model: "OpenBMC board", MemoryGiB: 64, Processors: 1, Power: "off", BootOrder: []string{"UefiHttp", "Hdd"}},
}

// running is a fleet that nobody has described: 40 machines of mixed vendors,
// some with more memory than others of their model, some off, some without a
// serial number.
func running(t *testing.T, shift int) *lab.Fleet {
	t.Helper()
	c := lab.Config{Seed: "adopt", Latency: lab.Latency{GET: quick.GET}}
	for i := range 40 {
		m := kinds[i%len(kinds)]
		m.Name, m.BMCAddr = fmt.Sprintf("m%d", i), fmt.Sprintf("127.97.1.%d", 1+i+shift*100)
		m.Identity = site.Identity{UUID: fmt.Sprintf("ad0b0000-1111-4000-8000-%012d", i), Serial: fmt.Sprintf("SN-%d", i)}
		m.Username, m.Password = "admin", password
		if i%9 == 4 {
			m.MemoryGiB *= 2
		}
		if i%13 == 7 {
			m.Power, m.Identity.Serial = "off", "To be filled by O.E.M."
		}
		c.Machines = append(c.Machines, m)
	}
	f, err := lab.Start(c)
	check(t, err)
	t.Cleanup(func() { check(t, f.Close()) })
	return f
}

// A running fleet becomes a site that checks clean and has nothing to do, and
// nothing is written to a machine.
func TestAdoptARunningFleet(t *testing.T) {
	f := running(t, 0)
	w := &town{t: t, dir: t.TempDir()}
	w.write("cred/fleet", "hosts: 127.97.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	w.write("ca.pem", string(f.CA()))
	where := []string{"--range", "127.97.1.0/24", "--port", fmt.Sprint(f.BMCPort()), "--credential", "fleet", "--credentials", w.path("cred"), "--ca", w.path("ca.pem")}

	said := w.slipway(0, append([]string{"adopt", "--out", w.path("fleet")}, where...)...)
	if !strings.Contains(said, "the site fleet of 40 machines; its plan is empty, and no machine was written to") {
		t.Errorf("adopt said\n%s", said)
	}
	if said := w.slipway(0, "check", w.path("fleet")); said != "40 nodes of site fleet checked, no findings\n" {
		t.Errorf("check said\n%s", said)
	}
	w.slipway(0, "fmt", "--check", w.path("fleet"))
	w.slipway(0, "plan", "--observe", "--detailed-exitcode", "--credentials", w.path("cred"), w.path("fleet"))

	profiles, err := os.ReadFile(w.path("fleet/profiles.cue"))
	check(t, err)
	for _, want := range []string{"profiles: adopted: {", `profiles: "dell-poweredge-r740": {`, `order: ["Hdd", "Pxe"]`, `order: ["Hdd"]`, `url:`, `credential: "fleet"`, `power: "on"`, `memory:       "256GiB"`} {
		if !bytes.Contains(profiles, []byte(want)) {
			t.Errorf("no %s in\n%s", want, profiles)
		}
	}
	var nodes struct{ Nodes map[string]*site.Node }
	check(t, json.Unmarshal([]byte(w.slipway(0, "render", "-o", "json", "--dir", w.path("fleet"))), &nodes))
	if n := nodes.Nodes["r740-sn-0"]; n == nil || n.Identity.Serial != "SN-0" || n.Power != "on" {
		t.Errorf("the first machine is %+v", n)
	}

	// What is there is not overwritten.
	before := w.tree("fleet")
	said = w.slipway(1, append([]string{"adopt", "--out", w.path("fleet")}, where...)...)
	if !strings.Contains(said, "was not changed") || !slices.Equal(w.tree("fleet"), before) {
		t.Errorf("a second adopt said\n%s", said)
	}
	if there := w.tree(""); slices.ContainsFunc(there, func(name string) bool { return strings.Contains(name, ".slipway-adopt") }) {
		t.Errorf("left behind: %v", there)
	}
	readOnly(t, f)
}

// Machines that have other addresses than the design says are told with the
// lines to change; those that no node is with lines to add.
func TestDiscoverWhatHasMoved(t *testing.T) {
	f := running(t, 0)
	w := &town{t: t, dir: t.TempDir()}
	w.write("cred/fleet", "hosts: 127.97.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	as := func(f *lab.Fleet, cidr string) []string {
		return []string{"--range", cidr, "--port", fmt.Sprint(f.BMCPort()), "--credential", "fleet", "--credentials", w.path("cred"), "--trust-first-use"}
	}
	// The first half of the machines is adopted, and then all are elsewhere.
	w.slipway(0, append([]string{"adopt", "--out", w.path("fleet")}, as(f, "127.97.1.0/28")...)...)
	g := running(t, 1)
	var got struct {
		Addresses, Answered int
		Met                 []site.Met
	}
	check(t, json.Unmarshal([]byte(w.slipway(0, append([]string{"discover", "-o", "json", w.path("fleet")}, as(g, "127.97.1.96/27")...)...)), &got))
	kinds := map[site.StandingKind]int{}
	for _, m := range got.Met {
		kinds[m.Standing.Kind]++
		if m.Standing.Kind != site.StandingMoved {
			continue
		}
		line := w.line("fleet/"+m.Standing.Place.File.Value(), m.Standing.Place.Line)
		if !strings.Contains(line, m.Standing.Have) || m.Standing.Want != fmt.Sprintf("%q", m.Address) {
			t.Errorf("%s: in the place of %s in %q write %s", m.Standing.Node, m.Standing.Have, line, m.Standing.Want)
		}
	}
	if got.Addresses != 32 || got.Answered != 27 || kinds[site.StandingMoved] != 15 || kinds[site.StandingUnknown] != 12 {
		t.Errorf("%d of %d answered: %v", got.Answered, got.Addresses, kinds)
	}
	said := w.slipway(0, append([]string{"discover", w.path("fleet")}, as(g, "127.97.1.96/27")...)...)
	for _, want := range []string{"32 addresses asked, 27 management controllers", "has moved from 127.97.1.1 to 127.97.1.101", `"127.97.1.1" → "127.97.1.101"`, `nodes: "r740-sn-16": {`} {
		if !strings.Contains(said, want) {
			t.Errorf("discover did not say %s:\n%s", want, said)
		}
	}
	readOnly(t, f)
	readOnly(t, g)
}

// Without an account, with one that is for other hosts, and with a certificate
// that nobody vouched for no password is sent.
func TestDiscoverSendsNoPasswordToStrangers(t *testing.T) {
	f := running(t, 0)
	w := &town{t: t, dir: t.TempDir()}
	w.write("cred/fleet", "hosts: 127.97.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	w.write("cred/other", "hosts: 127.98.0.0/16\nuse: redfish\nports: 1024-65535\nusername: admin\n\n"+password+"\n")
	where := []string{"--range", "127.97.1.0/30", "--port", fmt.Sprint(f.BMCPort()), "--credentials", w.path("cred")}
	for name, args := range map[string][]string{
		"no credential was named":      nil,
		"may not be sent to":           {"--credential", "other", "--trust-first-use"},
		"is not trusted":               {"--credential", "fleet"},
		"does not match --fingerprint": {"--credential", "fleet", "--fingerprint", "sha256:" + strings.Repeat("0", 64)},
	} {
		if said := w.slipway(0, append(append([]string{"discover"}, args...), where...)...); !strings.Contains(said, name) || strings.Count(said, "not looked into") < 3 {
			t.Errorf("%s:\n%s", name, said)
		}
	}
	for _, c := range f.Calls() {
		if c.Method != "GET" || strings.TrimRight(c.Path, "/") != "/redfish/v1" {
			t.Errorf("%s %s", c.Method, c.Path)
		}
	}
	w.slipway(64, "discover", "--range", "10.0.0.0/8")
	w.slipway(64, "discover")
}

// readOnly holds a fleet's log to reading, and its machines to no session that
// was left open.
func readOnly(t *testing.T, f *lab.Fleet) {
	t.Helper()
	for _, c := range f.Calls() {
		if c.Write() {
			t.Errorf("%s of %s was written to: %s %s", c.Machine, c.Machine, c.Method, c.Path)
		}
	}
	for _, name := range f.Names() {
		if n := f.Machine(name).State().Sessions; n > 0 {
			t.Errorf("%s: %d sessions are left", name, n)
		}
	}
}

// slipway runs the program, which is to end with a code, and gives all it says.
func (w *town) slipway(code int, args ...string) string {
	w.t.Helper()
	c := exec.Command(program, args...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "SLIPWAY_STATE="+w.path("state"))
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); c.ProcessState == nil || c.ProcessState.ExitCode() != code {
		w.t.Fatalf("slipway %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// tree is what is in a folder.
func (w *town) tree(dir string) (all []string) {
	w.t.Helper()
	check(w.t, filepath.WalkDir(w.path(dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, path+"\n"+string(text))
		return err
	}))
	return all
}

func (w *town) line(file string, n int) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(file))
	check(w.t, err)
	return strings.Split(string(text), "\n")[n-1]
}
