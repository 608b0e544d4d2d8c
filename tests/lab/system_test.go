package lab_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// connect logs in to n1's system, whose host key it knows.
func connect(t *testing.T, f *lab.Fleet, how ...ssh.AuthMethod) (*ssh.Client, error) {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(f.HostKey("n1")))
	if err != nil {
		t.Fatal(err)
	}
	return ssh.Dial("tcp", strings.TrimPrefix(f.OSURL("n1"), "ssh://"),
		&ssh.ClientConfig{User: "admin", Auth: how, HostKeyCallback: ssh.FixedHostKey(key), Timeout: 5 * time.Second})
}

// login waits until the system answers.
func login(t *testing.T, f *lab.Fleet) (c *ssh.Client) {
	t.Helper()
	eventually(t, "ssh answers", func() (ok bool) {
		var err error
		c, err = connect(t, f, ssh.Password("pw"))
		return err == nil
	})
	return c
}

// run gives what a script prints, and its status.
func run(t *testing.T, c *ssh.Client, script string) (out, errs string, status int) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var said bytes.Buffer
	s.Stderr = &said
	text, err := s.Output(script)
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return string(text), said.String(), exit.ExitStatus()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text), said.String(), 0
}

func TestScripts(t *testing.T) {
	f := start(t, one(lab.Latency{}, isOn))
	c := login(t, f)
	defer c.Close()
	for script, want := range map[string]struct {
		out, errs string
		status    int
	}{
		"echo --marker; cat /etc/slipway/marker.json 2>/dev/null; echo --kernel\nuname -r": {"--marker\n--kernel\n6.1.0-lab\n", "", 0},
		"cat /etc/hostname /etc/nothing": {"n1\n", "cat: /etc/nothing: No such file or directory\n", 1},
		"cat /etc/nothing 2>/dev/null":   {"", "", 1},
		`printf '%s; %s\n' one "two"`:    {"one; two\n", "", 0},
		"rm -rf /":                       {"", "sh: 1: rm: not found\n", 127},
		"uname":                          {"Linux\n", "", 0},
		"sh -c 'echo one; echo two'":     {"one\ntwo\n", "", 0},
		"{ cat /etc/nothing 2>/dev/null || echo none; } | head -c 10": {"none\n", "", 0},
		"true && echo yes":                                              {"yes\n", "", 0},
		"rm 2>/dev/null && echo yes":                                    {"", "", 127},
		"true || echo no":                                               {"", "", 0},
		"timeout -s KILL 5 cat /etc/hostname | head -c 100":             {"n1\n", "", 0},
		"head -c 100 /etc/hostname; grep ^NAME /etc/os-release":         {"n1\nNAME=\"Debian GNU/Linux\"\n", "", 0},
		"systemctl list-units --state=failed 2>/dev/null && echo --all": {"--all\n", "", 0},
		"": {"", "", 0},
	} {
		if out, errs, status := run(t, c, script); out != want.out || errs != want.errs || status != want.status {
			t.Errorf("%q: %q, %q, %d; want %+v", script, out, errs, status, want)
		}
	}
	if out, _, _ := run(t, c, "cat /etc/os-release"); !strings.Contains(out, "ID=debian\n") {
		t.Errorf("os-release is %q", out)
	}
}

func TestMarkerOfTheDisk(t *testing.T) {
	f := start(t, one(lab.Latency{}, isOn, func(c *lab.MachineConfig) { c.Marker = &site.Marker{Node: "n1", Generation: 4, Image: "abcd"} }))
	c := login(t, f)
	defer c.Close()
	if out, _, _ := run(t, c, "cat /etc/slipway/marker.json"); out != `{"node":"n1","generation":4,"image":"abcd"}`+"\n" {
		t.Errorf("the marker is %s", out)
	}
	if f.Machine("n1").DiskDigest() != "abcd" {
		t.Errorf("the disk is %s", f.Machine("n1").DiskDigest())
	}
}

func TestWhoIsLetIn(t *testing.T) {
	mine, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, one(lab.Latency{}, isOn, func(c *lab.MachineConfig) {
		c.AuthorizedKeys = []string{string(ssh.MarshalAuthorizedKey(mine.PublicKey()))}
	}))
	for what, c := range map[string]struct {
		how ssh.AuthMethod
		ok  bool
	}{
		"the key": {ssh.PublicKeys(mine), true}, "another key": {ssh.PublicKeys(other), false},
		"the password": {ssh.Password("pw"), true}, "another password": {ssh.Password("no"), false},
	} {
		conn, err := connect(t, f, c.how)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// A system answers from its boot on until its power goes, and every boot has
// another id.
func TestSystemLivesWithThePower(t *testing.T) {
	f := start(t, one(lab.Latency{}))
	m := f.Machine("n1")
	if c, err := connect(t, f, ssh.Password("pw")); err == nil {
		c.Close()
		t.Error("a machine that is off lets in")
	}
	m.SetPower("on")
	c := login(t, f)
	first, _, _ := run(t, c, "cat /proc/sys/kernel/random/boot_id")
	if strings.TrimSpace(first) != m.State().BootID {
		t.Errorf("the boot id is %s, want %s", first, m.State().BootID)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	m.SetPower("off")
	eventually(t, "the connection ends", func() bool { return len(ended) == 1 })
	m.SetPower("on")
	second := login(t, f)
	defer second.Close()
	if again, _, _ := run(t, second, "cat /proc/sys/kernel/random/boot_id"); again == first {
		t.Error("the boot id is the same after a boot")
	}
}

func TestNobodyIsLetInWhileTheSystemBoots(t *testing.T) {
	f := start(t, one(lab.Latency{Boot: time.Hour}))
	f.Machine("n1").SetPower("on")
	if c, err := connect(t, f, ssh.Password("pw")); err == nil {
		c.Close()
		t.Error("a machine that boots lets in")
	}
}

// A machine without anything on its disk never answers.
func TestBlankMachineHasNoSystem(t *testing.T) {
	f := start(t, one(lab.Latency{}, isOn, isBlank))
	if c, err := connect(t, f, ssh.Password("pw")); err == nil {
		c.Close()
		t.Error("a blank machine lets in")
	}
}
