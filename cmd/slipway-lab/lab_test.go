package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// The design is evaluated by this program started again.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "evaluate" {
		main()
		return
	}
	os.Exit(m.Run())
}

// slipwayLab runs the program, and gives what it printed.
func slipwayLab(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// must runs the program, which is to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := slipwayLab(t, args...)
	if err != nil {
		t.Fatalf("slipway-lab %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// running is a lab that is ready.
type running struct {
	socket, line string
	stop         func()
}

// start starts the lab and waits for its line; stop waits for its end.
func start(t *testing.T, args ...string) running {
	t.Helper()
	r := running{socket: filepath.Join(t.TempDir(), "lab.sock")}
	ctx, cancel := context.WithCancel(context.Background())
	out, w := io.Pipe()
	cmd := command()
	cmd.SetArgs(append([]string{"run", "--control", r.socket}, args...))
	cmd.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.CloseWithError(fmt.Errorf("the lab has ended: %v", err))
		ended <- err
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	var err error
	if r.line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return r
}

const twoMachines = `{"seed": "s", "machines": [
	{"name": "n1", "bmcAddr": "127.76.0.1", "osAddr": "127.77.0.1", "username": "admin", "password": "pw", "identity": {"serial": "A"}, "power": "on"},
	{"name": "n2", "bmcAddr": "127.76.0.2", "username": "admin", "password": "pw", "identity": {"serial": "B"}}
], "latency": {"get": "0s"}}`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func states(t *testing.T, out string) map[string]lab.State {
	t.Helper()
	var all []lab.State
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	named := map[string]lab.State{}
	for _, s := range all {
		named[s.Name] = s
	}
	return named
}

func TestFleetOfAFile(t *testing.T) {
	r := start(t, "--fleet", write(t, "fleet.json", twoMachines), "--power", "on", "--blank", "n2")
	info, err := os.Stat(r.socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has the mode %v: %v", info.Mode(), err)
	}
	all := states(t, must(t, "machine", "--json", "--control", r.socket))
	if n1, n2 := all["n1"], all["n2"]; n1.Power != "On" || n1.DiskDigest != "factory" || n2.Power != "Off" || n2.DiskDigest != "" {
		t.Errorf("the machines are %+v", all)
	}
	must(t, "machine", "n1", "--power", "off", "--boot-order", "Pxe,Hdd", "--fault", "hang", "--control", r.socket)
	n1 := states(t, must(t, "machine", "n1", "--json", "--control", r.socket))["n1"]
	if n1.Power != "Off" || strings.Join(n1.BootOrder, ",") != "Pxe,Hdd" || n1.Fault.Kind != lab.FaultHang || n1.Counts.Writes != 0 {
		t.Errorf("after a change behind the back: %+v", n1)
	}
	if out := must(t, "machine", "--control", r.socket); !strings.Contains(out, "n1       Off          Pxe,Hdd     0       0         hang") {
		t.Errorf("the table is\n%s", out)
	}
	if _, err := slipwayLab(t, "run", "--fleet", write(t, "fleet.json", twoMachines), "--control", r.socket); err == nil || !strings.Contains(err.Error(), "another lab answers at "+r.socket) {
		t.Errorf("a second lab on the same socket: %v", err)
	}
	r.stop()
	if _, err := os.Stat(r.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestCalls(t *testing.T) {
	r := start(t, "--fleet", write(t, "fleet.json", twoMachines))
	if out := must(t, "calls", "--json", "--control", r.socket); out != "[]\n" {
		t.Errorf("without calls: %s", out)
	}
	var port int
	if _, err := fmt.Sscanf(r.line, "lab: 2 machines ready, BMCs on port %d,", &port); err != nil {
		t.Fatalf("%v in %s", err, r.line)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(must(t, "ca", "--seed", "s")))
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer tr.CloseIdleConnections()
	for _, method := range []string{http.MethodGet, http.MethodPatch} {
		req, err := http.NewRequest(method, fmt.Sprintf("https://127.76.0.2:%d/redfish/v1/Systems/1", port), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	all, writes := must(t, "calls", "--control", r.socket), must(t, "calls", "--writes", "--control", r.socket)
	if strings.Count(all, "\n") != 2 || strings.Count(writes, "\n") != 1 || !strings.Contains(writes, "n2  PATCH  /redfish/v1/Systems/1  401") {
		t.Errorf("the calls are\n%sand the writes\n%s", all, writes)
	}
}

// What is refused changes nothing.
func TestChangesThatAreRefused(t *testing.T) {
	r := start(t, "--fleet", write(t, "fleet.json", twoMachines))
	for args, says := range map[string]string{
		"console n3":                                     `there is no machine "n3"`,
		"console n1":                                     `machine "n1" is simulated`,
		"machine n3 --power off":                         `there is no machine "n3"`,
		"machine a/b --power off":                        `there is no machine "a/b"`,
		"machine --power off":                            "which machine?",
		"machine n1 --power up --fault hang":             `power is on or off, not "up"`,
		"machine n1 --power off --fault gremlins":        `there is no fault "gremlins"`,
		"machine n1 --power off --boot-order Floppy,Hdd": `there is no boot target "Floppy"`,
	} {
		_, err := slipwayLab(t, append(strings.Fields(args), "--control", r.socket)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", args, err, says)
		}
	}
	if n1 := states(t, must(t, "machine", "--json", "--control", r.socket))["n1"]; n1.Power != "On" || n1.Fault.Kind != "" || n1.BootOrder[0] != "Hdd" {
		t.Errorf("the machine is %+v", n1)
	}
}

func TestRunsThatAreRefused(t *testing.T) {
	good, bad := write(t, "good.json", twoMachines), write(t, "bad.json", `{"machine": []}`)
	socket := filepath.Join(t.TempDir(), "lab.sock")
	for args, says := range map[string]string{
		"":                                "which machines?",
		"--site x":                        "which machines?",
		"--site x --fleet y":              "which machines?",
		"--fleet " + bad:                  `bad.json: the fleet is not as expected: json: unknown field "machine"`,
		"--fleet /nothing/here":           "no such file",
		"--fleet " + good + " --blank n9": `there is no machine "n9" to be blank`,
		"--fleet " + good + " --real n9":  `there is no machine "n9" to be real`,
		"--fleet " + good + " --power up": `--power is on or off, not "up"`,
		"--fleet " + good + " --speed -1": "a speed is above 0",
		"--fleet " + good + " --jitter 3": "a jitter from 0 to 1",
	} {
		_, err := slipwayLab(t, append([]string{"run", "--control", socket}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("run %s: got %v, want %q", args, err, says)
		}
	}
	file := write(t, "file", "precious")
	_, err := slipwayLab(t, "run", "--fleet", good, "--control", file)
	if text, rerr := os.ReadFile(file); err == nil || !strings.Contains(err.Error(), "is not a socket") || string(text) != "precious" {
		t.Errorf("a file in the socket's place: %v, %v", err, rerr)
	}
	if _, err := slipwayLab(t, "machine", "--control", socket); err == nil || !strings.Contains(err.Error(), "no lab answers at "+socket) {
		t.Errorf("without a lab: %v", err)
	}
}

// A socket that a killed lab left is taken over.
func TestStaleSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "lab.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	again, err := listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// The flags go over what the file says, and only those that were given.
func TestFlagsGoOverTheFile(t *testing.T) {
	file := write(t, "fleet.json", strings.Replace(twoMachines, `"seed": "s"`, `"seed": "s", "speed": 7, "bmcPort": 1`, 1))
	for args, want := range map[string]string{
		"":                           "s 7 1 0s 30s 0",
		"--seed x --speed 3":         "x 3 1 0s 30s 0",
		"--bmc-port 2 --get 1s":      "s 7 2 1s 30s 0",
		"--power-on 5s --jitter 0.5": "s 7 1 0s 5s 0.5",
	} {
		cmd, f := &cobra.Command{}, runFlags{}
		addRunFlags(cmd, &f)
		if err := cmd.ParseFlags(strings.Fields("--fleet " + file + " " + args)); err != nil {
			t.Fatal(err)
		}
		f.given = cmd.Flags().Changed
		c, err := fleet(t.Context(), f)
		got := fmt.Sprint(c.Seed, " ", c.Speed, " ", c.BMCPort, " ", c.Latency.GET, " ", c.Latency.PowerOn, " ", c.Latency.Jitter)
		if err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", args, got, err, want)
		}
	}
}

func TestFaultsAreListed(t *testing.T) {
	if out := must(t, "faults"); strings.Count(out, "\n") != len(lab.FaultKinds) || !strings.Contains(out, "stale-inserted         shows a medium that was ejected\n") {
		t.Errorf("the faults are\n%s", out)
	}
}

func TestKeys(t *testing.T) {
	if got := must(t, "hostkey", "n1", "--seed", "s"); got != lab.HostKey("s", "n1")+"\n" {
		t.Errorf("the host key is %s", got)
	}
	if got := must(t, "ca", "--seed", "s"); got != string(lab.CAPEM("s")) {
		t.Errorf("the authority is %s", got)
	}
}

// credentials are those of the example's machines.
func credentials(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const head = "hosts: 127.0.0.0/8\nports: 1024-65535\nusername: admin\nuse: "
	for name, text := range map[string]string{"bmc": "redfish\n\npw\n", "os": "ssh\n\n" + string(pem.EncodeToMemory(block))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFleetOfADesign(t *testing.T) {
	cmd, f := &cobra.Command{}, runFlags{}
	addRunFlags(cmd, &f)
	if err := cmd.ParseFlags([]string{"--site", "../../site-example", "--credentials", credentials(t), "--blank", "compute-5"}); err != nil {
		t.Fatal(err)
	}
	f.given = cmd.Flags().Changed
	c, err := fleet(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	// The example's ports may be in use: these are chosen by the kernel.
	c.BMCPort, c.SSHPort, c.ImagePort = 0, 0, 0
	running, err := lab.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	five, one := running.Machine("compute-5").State(), running.Machine("compute-1").State()
	if five.Power != "Off" || five.DiskDigest != "" || one.Power != "On" || one.DiskDigest == "" || len(running.Names()) != 12 {
		t.Errorf("the machines are %+v and %+v", five, one)
	}
	if c.Seed != "example" || c.Latency != lab.Usual || len(c.Machines[0].AuthorizedKeys) != 1 || c.Machines[0].Password != "pw" {
		t.Errorf("the fleet is %+v", c)
	}
}

// Real machines are off, with a memory that this host has, and what is on their drives.
func TestRealMachinesOfADesign(t *testing.T) {
	cmd, f := &cobra.Command{}, runFlags{}
	addRunFlags(cmd, &f)
	if err := cmd.ParseFlags([]string{"--site", "../../site-example", "--credentials", credentials(t), "--real", "compute-1,compute-5", "--folder", "drives"}); err != nil {
		t.Fatal(err)
	}
	f.given = cmd.Flags().Changed
	c, err := fleet(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	real := 0
	for _, m := range c.Machines {
		if m.Real == nil {
			continue
		}
		real++
		if (m.Name != "compute-1" && m.Name != "compute-5") || m.Power != "off" || m.MemoryGiB != 2 || m.Processors != 1 || m.Inside != nil || m.Marker != nil {
			t.Errorf("the machine is %+v", m)
		}
	}
	if real != 2 || c.Folder != "drives" {
		t.Errorf("%d machines are real, in the folder %q", real, c.Folder)
	}
}

func TestDesignsThatCannotBeRehearsed(t *testing.T) {
	broken := t.TempDir()
	if err := os.CopyFS(broken, os.DirFS("../../site-example")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "typo.cue"), []byte("package example\n\nnodes: \"compute-1\": pwoer: \"on\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ site, credentials, says string }{
		{broken, credentials(t), "typo.cue:3:"},
		{"../../site-example", t.TempDir(), `credential "bmc"`},
		{"/nothing/here", credentials(t), "no such file"},
	} {
		_, err := slipwayLab(t, "run", "--site", c.site, "--credentials", c.credentials)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}

// Each system of a capture is a machine of its own.
func TestCaptureOfTwoSystemsIsTwoMachines(t *testing.T) {
	const system = `"/redfish/v1/Systems/%[1]s": {"@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "Actions": {"#ComputerSystem.Reset": {"target": "/x"}}}`
	file := write(t, "capture.json", `{"/redfish/v1": {"@odata.type": "#ServiceRoot.v1_0_0.ServiceRoot", "Systems": {"@odata.id": "/redfish/v1/Systems"}},
		"/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/a"}, {"@odata.id": "/redfish/v1/Systems/b"}]},
		`+fmt.Sprintf(system, "a")+`, `+fmt.Sprintf(system, "b")+`}`)
	all := states(t, must(t, "machine", "--json", "--control", start(t, "--capture", file).socket))
	if len(all) != 2 || all["capture-1"].Power != "On" || all["capture-1-b"].Power != "On" {
		t.Errorf("the machines are %+v", all)
	}
}

func TestCaptureIsServed(t *testing.T) {
	file := write(t, "capture.json", `{"/redfish/v1": {"@odata.type": "#ServiceRoot.v1_0_0.ServiceRoot", "Systems": {"@odata.id": "/redfish/v1/Systems"}},
		"/redfish/v1/Systems": {"Members": [{"@odata.id": "/redfish/v1/Systems/A"}]},
		"/redfish/v1/Systems/A": {"@odata.type": "#ComputerSystem.v1_0_0.ComputerSystem", "UUID": "5E1D0000-0000-4000-8000-000000000001", "PowerState": "Off"}}`)
	r := start(t, "--capture", file)
	one := states(t, must(t, "machine", "--json", "--control", r.socket))["capture-1"]
	if one.Personality != "capture" || one.Power != "On" {
		t.Errorf("the machine is %+v", one)
	}
	if _, err := slipwayLab(t, "run", "--control", r.socket+"2", "--capture", file, "--fleet", file); err == nil || !strings.Contains(err.Error(), "which machines?") {
		t.Errorf("with a fleet too: %v", err)
	}
}

func TestAdded(t *testing.T) {
	long := strings.Repeat("a line of a console\n", 400)
	for _, c := range [][3]string{
		{"", "one\n", "one\n"},
		{"one\n", "one\ntwo\n", "two\n"},
		{"one\n", "one\n", ""},
		{"gone\n" + long + "end\n", long[100:] + "end\nmore\n", "more\n"},
		{"one\n", "another boot\n", "another boot\n"},
	} {
		if got := added(c[0], c[1]); got != c[2] {
			t.Errorf("behind %.20q… %.20q… adds %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
