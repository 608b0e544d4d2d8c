package member

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The first folder makes those of other members. All are secret, and only a witness has no key of the
// authority.
func TestFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Found(filepath.Join(dir, "first"), "10.0.0.1:2380")
	must(t, err)
	if _, err := Found(first.Dir, "10.0.0.1:2380"); err == nil || !strings.Contains(err.Error(), "is a member's folder already") {
		t.Errorf("a second authority takes its place: %v", err)
	}
	second := filepath.Join(dir, "second")
	must(t, first.Invite(second, Settings{Address: "[2001:db8::2]:2380", Others: []string{first.Address}}))
	must(t, first.Know([]string{"[2001:db8::2]:2380"}))
	if again, err := Open(first.Dir); err != nil || !slices.Equal(again.Others, []string{"[2001:db8::2]:2380"}) {
		t.Errorf("the first knows %v %v", again.Others, err)
	}
	witness := filepath.Join(dir, "witness")
	f, err := Open(second)
	must(t, err)
	if !slices.Equal(f.Others, []string{"10.0.0.1:2380"}) {
		t.Errorf("the second asks %v", f.Others)
	}
	must(t, f.Invite(witness, Settings{Address: "10.0.0.3:2380", Witness: true}))
	w, err := Open(witness)
	must(t, err)
	if err := w.Invite(filepath.Join(dir, "fourth"), Settings{Address: "10.0.0.4:2380"}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "run the command on a host with a daemon") {
		t.Errorf("a witness makes members: %v", err)
	}
	for _, d := range []string{first.Dir, second, witness} {
		all, err := os.ReadDir(d)
		must(t, err)
		for _, file := range all {
			if info, err := file.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s/%s can be read by others: %v %v", d, file.Name(), info.Mode(), err)
			}
		}
	}
	if _, err := Found(filepath.Join(dir, "named"), "host:2380"); err == nil || !strings.Contains(err.Error(), "is not IP:PORT") {
		t.Errorf("a name: %v", err)
	}
}

// A folder whose certificate the others would refuse is not used, and the error says what to do.
func TestFolderThatOthersRefuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
	one, err := Found(filepath.Join(dir, "one"), "10.0.0.1:2380")
	must(t, err)
	if err := one.check(time.Now().Add(lasts + time.Hour)); err == nil || !strings.Contains(err.Error(), "begin with a new authority") {
		t.Errorf("in ten years: %v", err)
	}
	two, err := Found(filepath.Join(dir, "two"), "10.0.0.1:2380")
	must(t, err)
	must(t, os.Remove(one.path(authorityFile)))
	must(t, os.Rename(two.path(authorityFile), one.path(authorityFile)))
	if _, err := Open(one.Dir); err == nil || !strings.Contains(err.Error(), "would refuse") {
		t.Errorf("of another authority: %v", err)
	}
	must(t, os.Remove(two.path(keyFile)))
	if _, err := Open(two.Dir); err == nil {
		t.Error("a folder without a key is used")
	}
}

// Another cluster's certificate proves nothing.
func TestMembersOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, err := Found(filepath.Join(dir, "one"), "127.0.0.1:2380")
	must(t, err)
	two, err := Found(filepath.Join(dir, "two"), "127.0.0.1:2381")
	must(t, err)
	pair, err := tls.LoadX509KeyPair(one.path(certFile), one.path(keyFile))
	must(t, err)
	root, err := readCert(two.path(authorityFile))
	must(t, err)
	if err := pair.Leaf.CheckSignatureFrom(root); err == nil {
		t.Error("the certificate of one authority passes for another's")
	}
}

// list is members of a test.
type list struct{ done []Change }

func (l *list) Members(context.Context) ([]record.Member, error) {
	return []record.Member{{Address: "10.0.0.1:2380", Votes: true, Here: true, Started: true}}, nil
}
func (l *list) AddMember(_ context.Context, address string) error {
	l.done = append(l.done, Change{Add, address, ""})
	return nil
}
func (l *list) RemoveMember(context.Context, string) error {
	return errors.New("two members would be left")
}
func (l *list) ReplaceMember(_ context.Context, address, by string) error {
	l.done = append(l.done, Change{Replace, address, by})
	return nil
}

// What people ask on the socket reaches the members, and an error comes back as it is.
func TestSocket(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	c := NewClient(state)
	if _, err := c.List(t.Context()); !errors.Is(err, ErrNoProcess) || strings.Contains(err.Error(), "http://") {
		t.Errorf("nobody is there: %v", err)
	}
	l, err := net.Listen("unix", Socket(state))
	must(t, err)
	m := &list{}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, m, slog.New(slog.DiscardHandler)) }()
	all, err := c.List(t.Context())
	must(t, err)
	if len(all) != 1 || !all[0].Here {
		t.Errorf("the members are %+v", all)
	}
	must(t, c.Change(t.Context(), Change{Act: Add, Address: "10.0.0.2:2380"}))
	must(t, c.Change(t.Context(), Change{Act: Replace, Address: "10.0.0.2:2380", By: "10.0.0.4:2380"}))
	if err := c.Change(t.Context(), Change{Act: Remove, Address: "10.0.0.2:2380"}); err == nil || err.Error() != "two members would be left" {
		t.Errorf("an error came back as %v", err)
	}
	if err := c.Change(t.Context(), Change{Act: "destroy"}); err == nil || !strings.Contains(err.Error(), `"destroy" is not a change`) {
		t.Errorf("an unknown change: %v", err)
	}
	if want := []Change{{Add, "10.0.0.2:2380", ""}, {Replace, "10.0.0.2:2380", "10.0.0.4:2380"}}; !slices.Equal(m.done, want) {
		t.Errorf("done: %v", m.done)
	}
	stop()
	must(t, <-served)
}

// With a wrong clock or after its end, a certificate is not replaced by one of the same authority, which ends
// on the same day.
func TestCertificateOutOfTime(t *testing.T) {
	f, err := Found(filepath.Join(t.TempDir(), "member"), "10.0.0.1:2380")
	if err != nil {
		t.Fatal(err)
	}
	for years, want := range map[int]string{-2: "set the clock", 11: "begin with a new authority"} {
		if err := f.check(time.Now().AddDate(years, 0, 0)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "member replace") {
			t.Errorf("%d years from now: %v", years, err)
		}
	}
}
