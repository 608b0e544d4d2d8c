package lab_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/tests/lab"
)

const fleet = `{
	"seed": "s", "bmcPort": 8443, "speed": 20,
	"latency": {"get": "200ms", "powerOn": "1m0s", "jitter": 0.1},
	"machines": [{
		"name": "n1", "bmcAddr": "127.71.0.1", "identity": {"uuid": "5E1D0000-0000-4000-8000-000000000001"},
		"username": "admin", "password": "pw", "power": "on", "bootOrder": ["Pxe", "Hdd"]
	}]
}`

func TestReadConfig(t *testing.T) {
	c, err := lab.ReadConfig(strings.NewReader(fleet), lab.Config{Latency: lab.Usual})
	if err != nil {
		t.Fatal(err)
	}
	want := lab.Usual
	want.PowerOn, want.Jitter = time.Minute, 0.1
	if c.Latency != want || c.Speed != 20 || c.Machines[0].BootOrder[0] != "Pxe" {
		t.Errorf("the fleet is %+v", c)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := lab.ReadConfig(strings.NewReader(string(text)), lab.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Error("written and read again (-was +is):\n" + diff)
	}
}

func TestConfigsThatAreWrong(t *testing.T) {
	for _, c := range []struct{ old, new, says string }{
		{`"speed"`, `"sped"`, `unknown field "sped"`},
		{`"get": "200ms"`, `"get": "fast"`, `invalid duration "fast"`},
		{`"get"`, `"gett"`, `unknown field "gett"`},
		{`20`, `-1`, "a speed is above 0"},
		{`0.1`, `2`, "a jitter from 0 to 1"},
		{`"name": "n1"`, `"name": ""`, "a name is needed, once"},
		{`127.71.0.1`, `10.0.0.1`, `machine "n1": the BMC address "10.0.0.1" is not a loopback address`},
		{`"power": "on"`, `"power": "up"`, `power is on or off, not "up"`},
		{`"power": "on"`, `"osAddr": "::1"`, `the OS address "::1" is not a loopback address`},
		{`"power": "on"`, `"authorizedKeys": ["ssh-rsa"]`, "an authorized key cannot be read"},
		{`"Hdd"`, `"Disk"`, `there is no boot target "Disk"; there are: Hdd, Pxe, Cd, UefiHttp, Usb`},
		{`"seed"`, `"images": [{"name": "a/b"}], "seed"`, `image "a/b": a name without slashes`},
		{`"seed"`, `"imageAddr": "0.0.0.0", "seed"`, `the image server's address "0.0.0.0" is not`},
		{"\n}", "\n} {}", "there is more after the JSON value"},
		{fleet, "", "the fleet is not as expected"},
	} {
		_, err := lab.ReadConfig(strings.NewReader(strings.Replace(fleet, c.old, c.new, 1)), lab.Config{})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: got %v, want %q", c.new, c.old, err, c.says)
		}
	}
}

// All that is wrong is said at once, and nothing is started.
func TestAllThatIsWrongIsSaid(t *testing.T) {
	c := one(lab.Latency{})
	c.Machines = append(c.Machines, c.Machines[0], lab.MachineConfig{Name: "n3", BMCAddr: "127.71.0.1"})
	_, err := lab.Start(c)
	if err == nil || !strings.Contains(err.Error(), `machine "n1": a name is needed, once`) || !strings.Contains(err.Error(), `machine "n3": the BMC address "127.71.0.1"`) {
		t.Errorf("got %v", err)
	}
}

func TestPortThatIsTaken(t *testing.T) {
	first := start(t, one(lab.Latency{}))
	c := one(lab.Latency{})
	c.SSHPort = first.SSHPort()
	if _, err := lab.Start(c); err == nil || !strings.Contains(err.Error(), "listen for SSH") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add(fleet)
	f.Add(`{"latency": {"get": "-1s"}, "machines": [{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := lab.ReadConfig(strings.NewReader(text), lab.Config{})
		if err != nil {
			return
		}
		built, err := lab.New(c)
		if err != nil {
			t.Fatalf("%s can be read and not be built: %v", text, err)
		}
		built.Close()
	})
}

// Only a process that says that it is in a network of its own may have other addresses than loopback ones.
func TestOwnNetwork(t *testing.T) {
	text := strings.Replace(fleet, "127.71.0.1", "10.0.0.1", 1)
	if _, err := lab.ReadConfig(strings.NewReader(text), lab.Config{OwnNetwork: true}); err != nil {
		t.Error(err)
	}
	text = strings.Replace(text, `"seed"`, `"ownNetwork": true, "seed"`, 1)
	if _, err := lab.ReadConfig(strings.NewReader(text), lab.Config{}); err == nil {
		t.Error("a file lets a fleet listen anywhere")
	}
}
