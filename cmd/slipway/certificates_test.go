package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

// The certificate of the authority is the same each time, by its key, site and epoch.
func TestTLSAuthority(t *testing.T) {
	key := filepath.Join(t.TempDir(), "site.key")
	run := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		code := execute(t.Context(), append([]string{"site"}, append(args, "--site-key", key)...), &out, &errs)
		return out.String() + errs.String(), code
	}
	if out, code := run("init-key"); code != 0 {
		t.Fatal(out)
	}
	first, code := run("tls-authority", "fra")
	if _, err := tlsca.Parse(first); code != 0 || err != nil {
		t.Fatalf("%s, %v", first, err)
	}
	if again, _ := run("tls-authority", "fra"); again != first {
		t.Errorf("got another one: %s", again)
	}
	if next, _ := run("tls-authority", "fra", "--epoch", "2"); next == first || !strings.HasPrefix(next, "-----BEGIN") {
		t.Errorf("the next epoch: %s", next)
	}
	if out, code := run("tls-authority", "fra", "--epoch", "0"); code == 0 || !strings.Contains(out, "--epoch is a number from 1") {
		t.Errorf("epoch 0: %s", out)
	}
}

// The first to end is the first, and a node that is not there is a fault.
func TestCertificatesOf(t *testing.T) {
	at := func(n int64) site.TLSState { return site.TLSState{Name: "web", Until: time.Unix(n, 0)} }
	nodes := []site.NodeStatus{{Name: "a", Certificates: []site.TLSState{at(3), at(1)}}, {Name: "b", Certificates: []site.TLSState{at(2)}}}
	all, err := certificatesOf(nodes, "")
	if err != nil || len(all) != 3 || all[0].Node != "a" || all[1].Node != "b" || all[2].Until != time.Unix(3, 0) {
		t.Errorf("got %+v, %v", all, err)
	}
	if all, err = certificatesOf(nodes, "b"); err != nil || len(all) != 1 {
		t.Errorf("of b: %+v, %v", all, err)
	}
	if _, err = certificatesOf(nodes, "c\x1b[2J"); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("of c: %v", err)
	}
	late := at(86400)
	late.State, late.Names = site.TLSLate, []string{"b", "a"}
	if line := certificateLine(late); line != "web for a, b, until 1970-01-02, late" {
		t.Errorf("got %q", line)
	}
}

// The file of an intermediate is read only if nobody else can read it.
func TestOpenIntermediate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pem")
	if text, err := openIntermediate(""); text != nil || err != nil {
		t.Errorf("without a path: %v", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openIntermediate(path); err == nil || !strings.Contains(err.Error(), "chmod 400") {
		t.Errorf("others can read it: %v", err)
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if text, err := openIntermediate(path); err != nil || string(text) != "x" {
		t.Errorf("got %q, %v", text, err)
	}
}
