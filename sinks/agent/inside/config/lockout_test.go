package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// refusing has visudo and sshd refuse what holds a word.
func refusing(f *fake, word string) {
	f.put("/usr/sbin/visudo", "")
	f.put("/usr/sbin/sshd", "")
	f.checks = func(c inside.Command) inside.Output {
		if strings.Contains(string(c.Stdin), word) {
			return inside.Output{Code: 1, Err: []byte("syntax error near line 1\n")}
		}
		return inside.Output{}
	}
}

// artifact is a file whose content comes from the daemon.
func artifact(f *fake, path, content string) item.Item {
	sum := sha256.Sum256([]byte(content))
	f.host.Fetch = func(string, string, int64) (io.ReadCloser, int64, error) {
		return io.NopCloser(strings.NewReader(content)), int64(len(content)), nil
	}
	body := item.File{Artifact: hex.EncodeToString(sum[:]), Mode: "0440", Owner: "root", Group: "root"}
	return item.New("files."+path, body.Fields(), body)
}

// A file with which sudo or the SSH server would refuse everybody, and Slipway too, is not put
// there: the one that is there stays.
func TestFilesThatWouldLockOut(t *testing.T) {
	for path, checked := range map[string]bool{
		"/etc/sudoers": true, "/etc/sudoers.d/site": true, "/etc/ssh/sshd_config": true, "/etc/ssh/sshd_config.d/site.conf": true,
		"/etc/link/site": true, "/etc/sudoers.d/site.old": false, "/etc/ssh/ssh_config": false, "/etc/motd": false,
	} {
		for _, isArtifact := range []bool{false, true} {
			f := newFake(t)
			refusing(f, "typo")
			f.put("/etc/sudoers.d/README", "")
			f.link("/etc/link", "sudoers.d")
			f.put(path, "as it was\n")
			designed := func(content string) item.Item {
				if isArtifact {
					return artifact(f, path, content)
				}
				return file(path, content, "0440", "root")
			}
			err := f.apply([]item.Item{designed("a typo\n")})
			switch got := f.read(path); {
			case checked && (class(err) != wire.Refused || !strings.Contains(err.Error(), "does not accept the designed content of "+path+": syntax error near line 1") || got != "as it was\n"):
				t.Errorf("%s, artifact %v: %v, it has %q", path, isArtifact, err, got)
			case !checked && (err != nil || got != "a typo\n"):
				t.Errorf("%s, artifact %v: %v, it has %q", path, isArtifact, err, got)
			}
			if err := f.apply([]item.Item{designed("right\n")}); err != nil || f.read(path) != "right\n" {
				t.Errorf("%s, artifact %v: %v", path, isArtifact, err)
			}
		}
	}
}

// sudo refuses rules that others than root could change.
func TestOwnersOfRules(t *testing.T) {
	for _, i := range []item.Item{file("/etc/sudoers", "x\n", "0440", "ops"), file("/etc/sudoers.d/site", "x\n", "0664", "root")} {
		f := newFake(t)
		if err := f.apply([]item.Item{i}); class(err) != wire.Refused || !strings.Contains(err.Error(), "must be root's") {
			t.Errorf("%s: %v", i.Key, err)
		}
	}
}

// An SSH server that accepts no settings at all tells nothing of those that are designed.
func TestAServerThatCannotTell(t *testing.T) {
	f := newFake(t)
	refusing(f, "")
	if err := f.apply([]item.Item{file("/etc/ssh/sshd_config", "Port 22\n", "0644", "root")}); err != nil {
		t.Error(err)
	}
	f = newFake(t) // neither is there
	if err := f.apply([]item.Item{file("/etc/ssh/sshd_config", "Port 22\n", "0644", "root"), file("/etc/sudoers", "x\n", "0440", "root")}); err != nil {
		t.Error(err)
	}
}

// The real SSH server is asked as it is here.
func TestTheRealSSHServer(t *testing.T) {
	_ = os.MkdirAll("/run/sshd", 0o755) // which its unit makes
	if _, err := os.Stat(sshServer); err != nil || exec.Command(sshServer, "-t").Run() != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no SSH server that accepts its own settings: run make setup")
		}
		t.Skip("no SSH server that accepts its own settings here")
	}
	f := newFake(t)
	f.put(sshServer, "")
	real := inside.Real("/", true)
	f.checks = func(c inside.Command) inside.Output {
		o, err := real.Exec(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		return o
	}
	const path = "/etc/ssh/sshd_config.d/site.conf"
	for content, good := range map[string]bool{
		"PermitRootLogin prohibit-password\nMatch User ops\n\tPasswordAuthentication no\n": true,
		"PermitRootLogn no\n": false,
	} {
		err := f.apply([]item.Item{file(path, content, "0600", "root")})
		_, missing := os.Stat(filepath.Join(f.host.Root, path))
		if good && (err != nil || missing != nil) || !good && (class(err) != wire.Refused || !strings.Contains(err.Error(), "Bad configuration option: PermitRootLogn")) {
			t.Errorf("%q: %v", content, errors.Join(err, missing))
		}
	}
}
