// Package inside is what Slipway does within a system: it observes items and
// makes them as they are asked for. Each package below it serves one facet. All
// of them work under a root folder, "/" for the system that runs, and another
// for one that is being installed. Nothing here imports package net or os/user,
// so that the program stays small.
package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Host is the system that is looked at and changed.
type Host struct {
	// Root is the folder under which its file system is: "/" or "/target".
	Root string
	// Live says that its services run, so that units can be started and kernel
	// parameters written. It is false while a system is being installed.
	Live bool
	// Exec runs a program of the system; tests replace it.
	Exec func(ctx context.Context, c Command) (Output, error)
	// Owned is what Slipway made.
	Owned *Owned
	// Login is the account that this session logged in with; empty when there is
	// none. Nothing that it needs to log in again is taken from it.
	Login string
	// LoginKey is the public key that it logged in with, as in authorized_keys(5);
	// empty where it was something else.
	LoginKey string
	// LoginPassword says that it logged in with the account's password.
	LoginPassword bool
	// LoginAuthority is the public key of who signed the certificate that it logged in with;
	// empty where it was something else.
	LoginAuthority string
	// Show are the digests that files are designed with, by their keys, of which the
	// content is to be told where they have another one.
	Show map[string]string
	// Hashes are the keys of the accounts of which the hash of the password is to be
	// told, as Hash is.
	Hashes []string
	// Keys are those of the digests of files whose content is a secret, by the keys of the
	// items: no other digest of them is told.
	Keys map[string][]byte
	// Wants are the values that items ask for of fields that the system may not be able to
	// have yet, as item.Needing has them.
	Wants map[string]string
	// Once says which installation, and which attempt, a thing is to be done in that is
	// done once; nil where nothing is.
	Once *item.Once
	// Again has a change of the network made that was set back before.
	Again bool
	// Targets are others on the machine's networks, which a change of its network is to leave in
	// reach.
	Targets []item.Target
	// Fetch gives the bytes of an artifact, and how many they are, for a file and where
	// so many fit. They are not verified yet. Close reads what was left of them.
	Fetch func(sha256, file string, room int64) (io.ReadCloser, int64, error)
	// Tell says what is being done, for people.
	Tell func(text string)
	// TellErased tells what came of erasing one disk; nil where nobody hears it before the end.
	TellErased func(item.Erasure)
	// TellHostKeys tells the public halves of the host keys of a system that is being installed;
	// nil where nobody hears it before the end.
	TellHostKeys func(keys []string)
}

// Facet observes and applies the items of one facet.
type Facet interface {
	// Observe tells what the items of some keys are, and changes nothing. The keys
	// are those that the design asks for and those that Slipway owns.
	Observe(ctx context.Context, h *Host, keys []string) (Seen, error)
	// Apply makes items as they are asked for, takes those to be removed away or
	// puts back what was there before them, and writes nothing that is so already.
	// Each item is owned before its first write (Owned.Take), so that a cut at any
	// point can be gone on with by calling it again.
	Apply(ctx context.Context, h *Host, items []item.Item, remove []string) error
}

// Surveyor is a Facet that lists what is there.
type Surveyor interface {
	// Survey lists what a person has set, as items that Observe tells the same of, and
	// changes nothing. What the system brought by itself is left out, and what no
	// item can say is told. No secret is in either.
	Survey(ctx context.Context, h *Host) (item.Found, error)
}

// Seen is what was seen of items; its fields are those of wire.Facet.
type Seen struct {
	Have, Pending, Unread, Cannot map[string]string
	Waits                         string
	Upgrades                      *item.Upgrades
	Contents                      map[string]item.Content
	Hashes                        map[string]item.Hash
}

// Command is a program to run.
type Command struct {
	Path  string // looked for in the usual folders when it has no "/"
	Args  []string
	Env   []string // beside PATH, LC_ALL=C.UTF-8 and HOME
	Stdin []byte
	// Timeout ends it; a minute where it is 0.
	Timeout time.Duration
	// Nobody has it run as the user nobody, without any right, and ends what it leaves
	// behind in its process group.
	Nobody bool
}

// Output is what a program printed, each of the two cut to MaxOutput, and its
// exit code.
type Output struct {
	Out, Err []byte
	Code     int
}

// MaxOutput bounds what is kept of a program's output, in bytes; the end is kept.
const MaxOutput = 1 << 20

// Real is the system under a root folder. Programs run in it: by chroot where it
// is not "/".
func Real(root string, live bool) *Host {
	h := &Host{Root: root, Live: live, Tell: func(string) {}}
	h.Exec = h.execute
	return h
}

// Path is where a path of the system is for us. Symbolic links in it are the
// system's: code that follows them under another root must use os.Root.
func (h *Host) Path(path string) string { return filepath.Join(h.Root, path) }

// SearchPath is where programs are looked for.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// execute runs a program with a small environment, no terminal, and bounds. A
// code other than 0 is not an error.
func (h *Host) execute(ctx context.Context, c Command) (Output, error) {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	path, args := c.Path, c.Args
	if h.Root != "/" {
		path, args = "chroot", append([]string{h.Root, c.Path}, c.Args...)
	}
	found, err := lookPath(path)
	if err != nil {
		return Output{Code: 127}, err
	}
	cmd := exec.CommandContext(ctx, found, args...)
	cmd.Env = append([]string{"PATH=" + SearchPath, "LC_ALL=C.UTF-8", "HOME=/root"}, c.Env...)
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(c.Stdin)
	cmd.WaitDelay = 5 * time.Second // children that keep the pipes open
	group(cmd)
	if c.Nobody {
		asNobody(cmd)
	}
	var out, errs tail
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if c.Nobody {
		endGroup(cmd)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return Output{out.text(), errs.text(), -1}, fmt.Errorf("%s did not end within %s", c.Path, c.Timeout)
	case errors.As(err, &exit):
		return Output{out.text(), errs.text(), exit.ExitCode()}, nil
	case err != nil:
		return Output{out.text(), errs.text(), -1}, fmt.Errorf("%s: %w", c.Path, err)
	}
	return Output{out.text(), errs.text(), 0}, nil
}

// lookPath finds a program without the caller's PATH.
func lookPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, folder := range filepath.SplitList(SearchPath) {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*MaxOutput {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-MaxOutput:]...)
	}
	return len(b), nil
}

func (t *tail) text() []byte { return t.kept[max(0, len(t.kept)-MaxOutput):] }
