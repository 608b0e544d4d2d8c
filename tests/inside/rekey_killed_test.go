package inside_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// `slipway secret rekey` is killed after each of its writes, once a recipient was replaced. At that moment the program
// age opens every file by the identity that stays. Run again, it leaves files for the present recipients alone, and no
// draft of the run that was killed.
func TestProveRekeyKilledAtEachWrite(t *testing.T) {
	every := 1
	if !proves() {
		every = 5
	}
	nspawn.Require(t, "age")
	n := start(t)
	k := newRekeyed(n)
	points := 0
	for after := 1; ; after += every {
		n.Does("rm -rf /root/site/secrets; cp -a /root/secrets /root/site/secrets; rm -f " + writesFile)
		if _, err := n.Run(fmt.Sprintf("/root/tracer %d all sh -c '%s'", after, k.words)); err == nil {
			break
		}
		points++
		at := n.Does("grep -v ^exec " + writesFile + " | tail -n 1")
		k.holds("killed after "+at, false)
		n.Does(k.words)
		k.holds("run again after "+at, true)
	}
	k.holds("not killed", true)
	if points < 2 {
		t.Errorf("it was killed %d times alone", points)
	}
	t.Logf("killed after %d writes", points)
}

// rekeyed is a checkout with sealed files, in a system.
type rekeyed struct {
	*node
	words string // that encrypt again
}

func newRekeyed(n *node) *rekeyed {
	t := n.t
	t.Helper()
	program := filepath.Join(n.Root, "root/helper-slipway") // by this name the tracer knows it
	does(t, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "../../cmd/slipway")
	site := filepath.Join(n.Root, "root/site")
	does(t, program, "init", site, "--name", "fra")
	for _, name := range []string{"stays", "goes", "comes"} {
		made := does(t, program, "secret", "identity", "--identity", filepath.Join(n.Root, "root", name+".key"))
		recipient := regexp.MustCompile(`age1[a-z0-9]+`).FindString(made)
		if name == "comes" {
			for _, secret := range []string{"one", "two", "three"} {
				does(t, "sh", "-ec", `echo "the value of $1" | "$0" secret set "$1" "$2" --identity "$3" --hosts 192.0.2.0/24 --use redfish --username admin --yes`,
					program, secret, site, filepath.Join(n.Root, "root/stays.key"))
			}
			does(t, program, "secret", "recipients", "remove", "goes", site)
		}
		does(t, program, "secret", "recipients", "add", recipient, "--name", name, site)
	}
	does(t, "cp", "-a", filepath.Join(site, "secrets"), filepath.Join(n.Root, "root/secrets"))
	return &rekeyed{n, "/root/helper-slipway secret rekey /root/site --identity /root/stays.key --yes"}
}

// holds has age open each file with each identity.
func (k *rekeyed) holds(when string, done bool) {
	t := k.t
	t.Helper()
	folder := filepath.Join(k.Root, "root/site/secrets")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	there := 0
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".age")
		if !is || strings.HasPrefix(name, ".") {
			if done && e.Name() != "recipients" {
				t.Errorf("%s: there is %s", when, e.Name())
			}
			continue
		}
		there++
		opens := map[string]bool{}
		for _, id := range []string{"stays", "goes", "comes"} {
			out, err := exec.CommandContext(t.Context(), "age", "--decrypt", "-i", filepath.Join(k.Root, "root", id+".key"), filepath.Join(folder, e.Name())).CombinedOutput()
			opens[id] = err == nil && strings.Contains(string(out), "the value of "+name)
			if err != nil && !strings.Contains(string(out), "no identity matched") {
				t.Errorf("%s: %s is damaged: %s", when, e.Name(), out)
			}
		}
		if !opens["stays"] || opens["goes"] == opens["comes"] || done && opens["goes"] {
			t.Errorf("%s: %s is opened by %v", when, e.Name(), opens)
		}
	}
	if there != 3 {
		t.Errorf("%s: there are %d files of 3", when, there)
	}
}
