package sshca_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

func root(t *testing.T) *sitekey.Key {
	t.Helper()
	k, err := sitekey.Create(filepath.Join(t.TempDir(), "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func users(t *testing.T, k sshca.Root, site string, epoch int) *sshca.Authority {
	t.Helper()
	a, err := sshca.Users(k, site, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The same root key gives the same authority, and every site and epoch another one.
func TestAuthorityFollowsFromTheRootKey(t *testing.T) {
	t.Parallel()
	k := root(t)
	first := users(t, k, "fra", 0).Public()
	if again := users(t, k, "fra", 1).Public(); again != first {
		t.Errorf("got %s and %s of one root key", first, again)
	}
	seen := map[string]bool{first: true}
	for name, a := range map[string]*sshca.Authority{
		"another epoch": users(t, k, "fra", 2), "another site": users(t, k, "fr", 1), "another root": users(t, root(t), "fra", 1),
	} {
		if seen[a.Public()] {
			t.Errorf("%s has a key of another authority", name)
		}
		seen[a.Public()] = true
	}
	if _, err := sshca.Users(k, "fra", sshca.MostEpoch+1); err == nil || !strings.Contains(err.Error(), "1000000") {
		t.Errorf("an epoch beyond the last: %v", err)
	}
}

// ssh-keygen reads in a certificate what was asked for, and nothing more.
func TestCertificateByOpenSSH(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := sshdtest.Key(t, filepath.Join(dir, "id"), "ed25519")
	a := users(t, root(t), "fra", 1)
	now := time.Now()
	c, err := a.Certify(key, sshca.Login{Node: "n1", Account: "root", For: "daemon", Life: 5 * time.Minute}, now)
	if err != nil {
		t.Fatal(err)
	}
	sshdtest.Write(t, filepath.Join(dir, "c-cert.pub"), c.Line+"\n")
	sshdtest.Write(t, filepath.Join(dir, "ca.pub"), a.Public()+"\n")
	out, err := exec.Command("ssh-keygen", "-L", "-f", filepath.Join(dir, "c-cert.pub")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fingerprint, _ := exec.Command("ssh-keygen", "-l", "-f", filepath.Join(dir, "ca.pub")).Output()
	lines := strings.Fields(string(fingerprint))
	got := strings.Join(strings.Fields(string(out)), " ")
	for _, want := range []string{
		"Type: ssh-ed25519-cert-v01@openssh.com user certificate", "Signing CA: ED25519 " + lines[1],
		`Key ID: "slipway fra n1 root: daemon"`, fmt.Sprintf("Serial: %d ", c.Serial),
		"Principals: slipway:n1:root Critical Options: (none) Extensions: (none)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("ssh-keygen reads\n%s\nand not %q", out, want)
		}
	}
	if c.Until.Sub(now) > 5*time.Minute || c.From.Unix() != 1 {
		t.Errorf("valid from %s until %s, at %s", c.From, c.Until, now)
	}
	if next, _ := a.Certify(key, sshca.Login{Node: "n1", Account: "root", Life: time.Minute, Terminal: true}, now); next.Serial == c.Serial {
		t.Error("two certificates have one serial number")
	}
}

// What would open more than one account of one node is not signed.
func TestNotCertified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := sshdtest.Key(t, filepath.Join(dir, "id"), "ed25519")
	rsa := sshdtest.Key(t, filepath.Join(dir, "rsa"), "rsa")
	a := users(t, root(t), "fra", 1)
	good := sshca.Login{Node: "n1", Account: "root", Life: time.Minute}
	signed, err := a.Certify(key, good, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key   string
		login sshca.Login
	}{
		"no node":         {key, sshca.Login{Account: "root", Life: time.Minute}},
		"no account":      {key, sshca.Login{Node: "n1", Life: time.Minute}},
		"no life":         {key, sshca.Login{Node: "n1", Account: "root"}},
		"a day":           {key, sshca.Login{Node: "n1", Account: "root", Life: 24 * time.Hour}},
		"a certificate":   {signed.Line, good},
		"RSA":             {rsa, good},
		"two keys":        {key + "\n" + key, good},
		"options":         {`command="id" ` + key, good},
		"no key":          {"ssh-ed25519", good},
		"nothing":         {"", good},
		"a cut off key":   {key[:40], good},
		"a negative life": {key, sshca.Login{Node: "n1", Account: "root", Life: -time.Minute}},
	} {
		if _, err := a.Certify(c.key, c.login, time.Now()); err == nil {
			t.Errorf("%s: it was signed", name)
		}
	}
}
