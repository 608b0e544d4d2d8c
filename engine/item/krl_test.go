package item_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

const authority = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

// The real ssh-keygen refuses what the list revokes, and nothing else.
func TestRevokedByOpenSSH(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		c := exec.Command("ssh-keygen", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		if out, err := run(args...); err != nil {
			t.Fatalf("ssh-keygen %q: %v: %s", args, err, out)
		}
	}
	for _, name := range []string{"ca", "stolen", "good"} {
		must("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name)
	}
	must("-q", "-t", "ecdsa", "-N", "", "-f", "ec")
	sign := func(key, file, who, account string) {
		must("-q", "-s", "ca", "-n", item.LoginName("n1", account), "-I", item.LoginID("fra", "n1", account, who), key+".pub")
		if err := os.Rename(filepath.Join(dir, key+"-cert.pub"), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	sign("good", "ana", item.PersonalLogin("ana"), "root")
	sign("good", "ana-ops", item.PersonalLogin("ana"), "ops")
	sign("good", "ana-api", item.PersonalLogin("ana (certificate)"), "root")
	sign("good", "ana-oidc", item.PersonalLogin("ana (OIDC)"), "root")
	sign("good", "ana-upper", item.PersonalLogin("ANA (OIDC)"), "root")
	sign("good", "eva", item.PersonalLogin("eva (certificate)"), "root")
	sign("good", "eva-before", "Eva (OIDC) by slipway ssh", "root") // by a daemon that did not know of lower case
	sign("good", "ana-token", item.PersonalLogin("token ana"), "root")
	sign("good", "bob", item.PersonalLogin("bob"), "root")
	sign("good", "daemon", "daemon", "root")
	sign("stolen", "bob-stolen", item.PersonalLogin("bob"), "root")
	key := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	list, err := item.SSH{Authorities: []string{key("ca")}, Node: "n1", Accounts: []string{"root", "ops"},
		Revoked: &item.Revoked{Site: "fra", People: []string{"ana", "daemon", "Eva"}, Keys: []string{key("stolen"), key("ec")}}}.KRL()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "krl"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, revoked := range map[string]bool{
		"ana": true, "ana-ops": true, "ana-api": true, "ana-oidc": true, "ana-upper": true, "eva": true, "eva-before": true, "ana-token": true, "bob": false, "daemon": false, "bob-stolen": true,
		"stolen.pub": true, "ec.pub": true, "good.pub": false, "ca.pub": false,
	} {
		out, err := run("-Q", "-f", "krl", file)
		if strings.Contains(out, "REVOKED") != revoked || (err != nil) != revoked {
			t.Errorf("%s: %v: %s", file, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), item.EmptyKRL(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ana", "stolen.pub"} {
		must("-Q", "-f", "empty", file)
	}
	if got := item.RevokedBy(list); !strings.HasPrefix(got, "Eva, ana, daemon, SHA256:") {
		t.Errorf("it is told as %q", got)
	}
}

func TestNothingRevoked(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*item.Revoked{"nil": nil, "empty": {Site: "fra"}} {
		if list, err := (item.SSH{Node: "n1", Accounts: []string{"root"}, Revoked: r}).KRL(); list != nil || err != nil {
			t.Errorf("%s: got %q, %v", name, list, err)
		}
	}
	for _, key := range []string{"", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa " + strings.Fields(authority)[1], authority + "\n" + authority} {
		if list, err := (item.SSH{Revoked: &item.Revoked{Keys: []string{key}}}).KRL(); list != nil || err == nil {
			t.Errorf("%q: got %q, %v", key, list, err)
		}
	}
	// A list that somebody else wrote is told apart, and read within its bounds.
	whole, err := item.SSH{Node: "n1", Accounts: []string{"root"}, Revoked: &item.Revoked{Site: "fra", People: []string{"ana"}}}.KRL()
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if item.RevokedBy(whole[:n]) == item.RevokedBy(whole) {
			t.Errorf("the first %d bytes are taken for the whole", n)
		}
	}
}

// OpenSSH refuses every host certificate of the authority but those that count.
func TestHostKRL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		c := exec.Command("ssh-keygen", args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		if out, err := run(args...); err != nil {
			t.Fatalf("ssh-keygen %q: %v: %s", args, err, out)
		}
	}
	for _, name := range []string{"ca", "other", "host"} {
		must("-q", "-t", "ed25519", "-N", "", "-f", name)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for name, counts := range map[string][]uint64{"none": nil, "one": {7}, "neighbours": {1, 2, 9_000_000_000_000_000_000, 7, 7}} {
		list, err := item.HostKRL([]string{strings.TrimSpace(string(ca))}, counts)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "krl"), list, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, serial := range []uint64{1, 2, 3, 6, 7, 8, 9_000_000_000_000_000_000, 9_000_000_000_000_000_001} {
			for _, authority := range []string{"ca", "other"} {
				must("-q", "-s", authority, "-h", "-n", "n1", "-I", "x", "-z", strconv.FormatUint(serial, 10), "host.pub")
				out, _ := run("-Q", "-f", "krl", "host-cert.pub")
				want := authority == "ca" && !slices.Contains(counts, serial)
				if strings.Contains(out, "REVOKED") != want {
					t.Errorf("%s: %d of %s: %s", name, serial, authority, out)
				}
			}
		}
		if out, err := run("-Q", "-f", "krl", "host.pub"); err != nil {
			t.Errorf("%s: the plain key: %s", name, out)
		}
	}
	if _, err := item.HostKRL([]string{"ssh-ed25519"}, nil); err == nil {
		t.Error("a list of an authority that cannot be read")
	}
}
