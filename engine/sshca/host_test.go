package sshca_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

func hosts(t *testing.T, k sshca.Root) *sshca.Authority {
	t.Helper()
	a, err := sshca.Hosts(k, "fra", 1)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A host certificate is one of the kind that OpenSSH's clients accept from hosts, for each kind of key.
func TestHostCertificateByOpenSSH(t *testing.T) {
	t.Parallel()
	k, dir := root(t), t.TempDir()
	a := hosts(t, k)
	if a.Public() == users(t, k, "fra", 1).Public() {
		t.Fatal("one key signs for hosts and for users")
	}
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		key := sshdtest.Key(t, filepath.Join(dir, kind), kind)
		c, err := a.CertifyHost(key+" root@\x1b[2J", "n1", []string{"n1", "n1.example.org", "10.0.0.1", "fd00::1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sshdtest.Write(t, filepath.Join(dir, "c-cert.pub"), c.Line+"\n")
		out, err := exec.Command("ssh-keygen", "-L", "-f", filepath.Join(dir, "c-cert.pub")).CombinedOutput()
		got := strings.Join(strings.Fields(string(out)), " ")
		for _, want := range []string{"host certificate", `Key ID: "slipway fra n1: host"`, "Principals: n1 n1.example.org 10.0.0.1 fd00::1 Critical Options: (none) Extensions: (none)"} {
			if err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %v: ssh-keygen reads\n%s\nand not %q", kind, err, out, want)
			}
		}
		if life := time.Until(c.Until); life > sshca.HostLife || life < sshca.HostLife-time.Minute {
			t.Errorf("%s: valid for %s", kind, life)
		}
	}
}

// What is not one host's key, or would be good for other hosts, is not signed.
func TestHostsNotCertified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := sshdtest.Key(t, filepath.Join(dir, "id"), "ed25519")
	a := hosts(t, root(t))
	for name, c := range map[string]struct {
		key, node string
		names     []string
	}{
		"no names":            {key, "n1", nil},
		"an empty name":       {key, "n1", []string{"n1", ""}},
		"a pattern":           {key, "n1", []string{"*"}},
		"a pattern in a name": {key, "n1", []string{"n?"}},
		"two names in one":    {key, "n1", []string{"n1,n2"}},
		"a negation":          {key, "n1", []string{"!n2"}},
		"a control character": {key, "n1", []string{"n1\x1b"}},
		"no node":             {key, "", []string{"n1"}},
		"a megabyte":          {key + " " + strings.Repeat("x", 1<<20), "n1", []string{"n1"}},
		"many names":          {key, "n1", strings.Split(strings.Repeat("n1 ", 1000)+"n1", " ")},
		"DSA":                 {dsaKey, "n1", []string{"n1"}},
		"two keys":            {key + "\n" + key, "n1", []string{"n1"}},
		"options":             {`command="id" ` + key, "n1", []string{"n1"}},
		"short RSA":           {shortRSA, "n1", []string{"n1"}},
		"nothing":             {"", "n1", []string{"n1"}},
	} {
		if c, err := a.CertifyHost(c.key, c.node, c.names, time.Now()); err == nil || c.Line != "" {
			t.Errorf("%s: it was signed", name)
		}
	}
}

const (
	dsaKey   = "ssh-dss AAAAB3NzaC1kc3MAAACBAOaiPxq4ttj+RC49Q3IE5S2yIhpYAIoFpsRkcVnDJMmFm4EOdm7J0oZjyoKN1fSzsuSwbOYHQceofOQsghgHLow1v5ktyenGFmEudpamzswbeOUQYXMR2KPCzm9EftTVex4v64lBTDQ8ECfE0cOGu8TNYT4w2PFq35G3WEoiZbH1AAAAFQDzYfmcGiuPH/H9QqKXVdTBOpApMQAAAH1K88ZK93WokpTCzXiaOAIIqa1F8j07GhHfWH/SgDurbDmNiDSKfu2NFPBtP+9wGWagw4HojzjAyP2HEri8B283h7nReeBsD9T1+BMMQjdzDt+vvWf5YZaZz+GYitnwbBRKAltBP4qaAh6mSKfdBoOeuQW25uMH1L7cUUMRkwAAAH1NMJn99auZJUrpAeNc1H04DYH5wfZsDzRZ95sXru+6kfyANGi2thCp9/knD064szOo5URt1FUrgva+PtwKHvKk8EvgPbDcJXS9uUBn7f4XUzChHUWaL5eNhxmZnj+kbWdT7BSMtI5zykfqkKjw1muCnmqKxLoFgFl17S+J2Q=="
	shortRSA = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDMqxCCx+kTs/+GVcrV4rSHKiHE7CTMME0iUwzg+gxOO+oar9rRioVusK7cOTu+yRV+MZwo32nwqqxi3B3uC8xqeJy10NyUmiR8Ld3colBjjUyIw52OGAKrou5Hut0+uleYYr3uaN7NDv6uHpmmDSXNGtEfDrC9tlpsvGQEFv0xzQ=="
)
