// Package inside is what Slipway does within a system: it observes items and makes them as requested. Each package
// below it serves one facet. All of them work under a root folder: "/" for the running system, another for a system
// that is being installed. To keep the program small, nothing here imports package net or os/user.
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

// Host is the system to observe and change.
type Host struct {
	// Root is the root folder of its file system: "/" or "/target".
	Root string
	// Live says that its services run, so that units can be started and kernel parameters written. It is false
	// during an installation.
	Live bool
	// Exec runs a program of the system; tests replace it.
	Exec func(ctx context.Context, c Command) (Output, error)
	// Owned lists what Slipway made.
	Owned *Owned
	// Login is the account of this session; empty if there is none. Slipway keeps everything that the account needs
	// to log in again: what the endpoint's credential needs, and what a certificate needs where one logged in.
	Login string
	// LoginKey is the public key of the endpoint's credential, as in authorized_keys(5); empty for another kind.
	LoginKey string
	// LoginPassword says that the credential is the account's password.
	LoginPassword bool
	// LoginAuthority is the public key of the authority whose certificate logged in; empty if the credential did.
	LoginAuthority string
	// Show are the digests that files are designed with, by their keys, of which the
	// content is to be told where they have another one.
	Show map[string]string
	// Hashes are the keys of the accounts whose password hash is reported, as Hash is.
	Hashes []string
	// Keys are the keys for the digests of files with secret content, by item key. No other digest of these files
	// is reported.
	Keys map[string][]byte
	// Wants are the requested values of fields that the system may not support yet, as from item.Needing.
	Wants map[string]string
	// Once identifies the installation and the attempt of an action that is done once; nil without such an action.
	Once *item.Once
	// Again repeats a network change that was reverted before.
	Again bool
	// Targets are other hosts on the machine's networks that a network change must keep reachable.
	Targets []item.Target
	// Fetch provides the bytes of an artifact and their number, for a file with this much room. They are not
	// verified yet. Close reads the rest.
	Fetch func(sha256, file string, room int64) (io.ReadCloser, int64, error)
	// Sign has the daemon sign a signing request (PKCS #10, DER) for the certificate with this key, and provides
	// the certificates to show, in PEM.
	Sign func(key string, request []byte) (chain []byte, err error)
	// Certified are the item.Digests of the certificates that a call has set, by key. Nobody knew them before.
	Certified map[string]string
	// Tell receives the current activity, for people.
	Tell func(text string)
	// TellErased receives the result of erasing one disk; nil if nobody listens before the end.
	TellErased func(item.Erasure)
	// TellHostKeys receives the public host keys of a system that is being installed; nil if nobody listens before
	// the end.
	TellHostKeys func(keys []string)
}

// Facet observes and applies the items of one facet.
type Facet interface {
	// Observe returns the state of the items with these keys, and changes nothing. The keys are those of the design
	// and those that Slipway owns.
	Observe(ctx context.Context, h *Host, keys []string) (Seen, error)
	// Apply makes items as requested. It removes the items in remove, or restores what was there before. It does
	// not rewrite what is already so. Each item is owned before its first write (Owned.Take), so after an
	// interruption the call can be repeated.
	Apply(ctx context.Context, h *Host, items []item.Item, remove []string) error
}

// Surveyor is a Facet that lists what exists.
type Surveyor interface {
	// Survey lists what a person has set, as items for which Observe returns the same, and changes nothing. It
	// omits what the system itself brought, and reports what no item can express. Neither contains a secret.
	Survey(ctx context.Context, h *Host) (item.Found, error)
}

// Seen is what was observed of items. Its fields are those of wire.Facet.
type Seen struct {
	Have, Pending, Unread, Cannot map[string]string
	Waits                         string
	Upgrades                      *item.Upgrades
	Contents                      map[string]item.Content
	Hashes                        map[string]item.Hash
}

// Command is a program to run.
type Command struct {
	Path  string // looked up in SearchPath unless it is absolute
	Args  []string
	Env   []string // in addition to PATH, LC_ALL=C.UTF-8 and HOME
	Stdin []byte
	// Timeout is the maximum time; 0 is a minute.
	Timeout time.Duration
	// Nobody runs the program as the user nobody, without any right, and kills what it leaves in its process group.
	Nobody bool
}

// Output is the end of a program's output and error output, at most maxOutput each, and its exit code.
type Output struct {
	Out, Err []byte
	Code     int
}

// maxOutput bounds the stored output of a program, in bytes. The end is kept.
const maxOutput = 1 << 20

// Real is the system under a root folder. If that is not "/", programs run with chroot.
func Real(root string, live bool) *Host {
	h := &Host{Root: root, Live: live, Tell: func(string) {}}
	h.Exec = h.execute
	return h
}

// Path converts a path of the system to ours. Its symbolic links are the system's: under another root, code that
// follows them must use os.Root.
func (h *Host) Path(path string) string { return filepath.Join(h.Root, path) }

// SearchPath is the list of folders for programs.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// execute runs a program with a small environment, no terminal, and limits. An exit code other than 0 is not an
// error.
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
	cmd.WaitDelay = 5 * time.Second // for children that keep the pipes open
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
	if len(t.kept) > 2*maxOutput {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-maxOutput:]...)
	}
	return len(b), nil
}

func (t *tail) text() []byte { return t.kept[max(0, len(t.kept)-maxOutput):] }
