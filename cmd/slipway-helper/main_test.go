package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// maxSize bounds the program, in bytes: it is brought to every machine. Keys and signing requests of TLS take 800 KB of it.
const maxSize = 7_000_000

// It works with files and programs alone: what speaks over a network or asks name
// services makes it large, and belongs to the daemon.
func TestLinksNoNetwork(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(out))
	for _, p := range []string{"net", "net/http", "net/url", "os/user", "crypto/tls", "crypto/x509"} {
		if slices.Contains(all, p) {
			t.Errorf("links %s", p)
		}
	}
	if len(all) < 20 {
		t.Errorf("go list knows of %d packages", len(all))
	}
}

func build(t *testing.T, arch string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slipway-helper-linux-"+arch)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return path
}

func TestIsSmall(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		info, err := os.Stat(build(t, arch))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxSize {
			t.Errorf("for %s it has %d bytes, more than %d", arch, info.Size(), maxSize)
		}
	}
}

// A program that is not what the daemon expects does nothing.
func TestItsOwnChecksum(t *testing.T) {
	path := build(t, "amd64")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for checksum, ok := range map[string]bool{wire.Checksum(content): true, "": true, "0a": false} {
		var in, out, errs bytes.Buffer
		if err := wire.Write(&in, wire.Request{Version: wire.Version, Op: wire.OpObserve}); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "--checksum", checksum, "--root", t.TempDir())
		cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &errs
		err := cmd.Run()
		var f wire.Frame
		answered := wire.Read(&out, &f) == nil && f.Result != nil && f.Result.Error == nil
		if (err == nil) != ok || answered != ok || !ok && !strings.Contains(errs.String(), "slipway-helper: damaged") {
			t.Errorf("checksum %q: got %v, answered %v %+v: %s", checksum, err, answered, f.Result, errs.String())
		}
	}
}
