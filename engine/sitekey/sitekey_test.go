package sitekey_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

func newKey(t *testing.T) (*sitekey.Key, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "site.key")
	k, err := sitekey.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func TestLoadsWhatWasCreated(t *testing.T) {
	k, path := newKey(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("got mode %v, %v; want 0400", info.Mode().Perm(), err)
	}
	again, made, err := sitekey.LoadOrCreate(path)
	if err != nil || made || again.Public() != k.Public() {
		t.Errorf("got %v made %t, %v; want the same key", again.Public(), made, err)
	}
	if _, err := sitekey.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second key in the same file: got %v, want fs.ErrExist", err)
	}
}

// A key that root writes into the daemon's folder is the daemon's.
func TestKeyBelongsToTheOwnerOfItsFolder(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root can give a file away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	if _, err := sitekey.Create(filepath.Join(dir, "site.key")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "site.key"))
	if err != nil {
		t.Fatal(err)
	}
	if is := info.Sys().(*syscall.Stat_t); is.Uid != 4711 || is.Gid != 4712 || info.Mode().Perm() != 0o400 {
		t.Errorf("it belongs to %d:%d, mode %o", is.Uid, is.Gid, info.Mode().Perm())
	}
}

func TestTwoKeysDiffer(t *testing.T) {
	a, _ := newKey(t)
	b, _ := newKey(t)
	if a.Public() == b.Public() {
		t.Error("two keys are the same")
	}
}

func TestKeyIsNotShown(t *testing.T) {
	k, path := newKey(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root := strings.Split(string(text), "\n")[1]
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %s %q", k, k, k, k)} {
		if strings.Contains(shown, root) || !strings.Contains(shown, "[redacted]") {
			t.Errorf("got %q", shown)
		}
	}
}

func TestKeyFilesThatAreRefused(t *testing.T) {
	_, good := newKey(t)
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"readable by others": {string(text), 0o444, "chmod 400"},
		"empty":              {"", 0o400, "does not hold one"},
		"cut off":            {string(text[:len(text)/2]), 0o400, "does not hold one"},
		"another file":       {"hosts: a\n\nsecret\n", 0o400, "does not hold one"},
		"another head":       {strings.Replace(string(text), "v1", "v2", 1), 0o400, "does not hold one"},
		"text behind it":     {string(text) + "!", 0o400, "does not hold one"},
		"not base64":         {"slipway site key v1\n!!!!\n", 0o400, "does not hold one"},
		"just not large":     {strings.Repeat("x", 16<<10), 0o400, "does not hold one"},
		"large":              {strings.Repeat("x", 16<<10+1), 0o400, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			if _, _, err := sitekey.LoadOrCreate(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if _, err := sitekey.Load(link); err == nil {
		t.Error("a link to a key was followed")
	}
}

func TestSignatureIsForItsPurposeAndKey(t *testing.T) {
	k, _ := newKey(t)
	other, _ := newKey(t)
	value := map[string]int{"term": 4}
	signature, err := k.Sign(sitekey.ForStatus, value)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys    []string
		purpose sitekey.Purpose
		value   any
		sig     string
		ok      bool
	}{
		"as signed":       {[]string{k.Public()}, sitekey.ForStatus, value, signature, true},
		"two keys":        {[]string{other.Public(), k.Public()}, sitekey.ForStatus, value, signature, true},
		"another key":     {[]string{other.Public()}, sitekey.ForStatus, value, signature, false},
		"no key":          {nil, sitekey.ForStatus, value, signature, false},
		"another purpose": {[]string{k.Public()}, sitekey.ForMarker, value, signature, false},
		"another value":   {[]string{k.Public()}, sitekey.ForStatus, map[string]int{"term": 5}, signature, false},
		"no signature":    {[]string{k.Public()}, sitekey.ForStatus, value, "", false},
		"not base64":      {[]string{k.Public()}, sitekey.ForStatus, value, "!", false},
		"short":           {[]string{k.Public()}, sitekey.ForStatus, value, "AAAA", false},
		"more than it is": {[]string{k.Public()}, sitekey.ForStatus, value, signature + "!", false},
		"no value":        {[]string{k.Public()}, sitekey.ForStatus, func() {}, signature, false},
		"no prefix":       {[]string{strings.TrimPrefix(k.Public(), "ed25519:")}, sitekey.ForStatus, value, signature, false},
		"key and more":    {[]string{k.Public() + "!"}, sitekey.ForStatus, value, signature, false},
		"key is garbage":  {[]string{"ed25519:AAAA"}, sitekey.ForStatus, value, signature, false},
	} {
		if err := sitekey.Verify(c.keys, c.purpose, c.value, c.sig); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want ok %t", name, err, c.ok)
		}
	}
	if err := sitekey.Verify([]string{k.Public()}, sitekey.ForStatus, func() {}, signature); err == nil || errors.Is(err, sitekey.ErrSignature) {
		t.Errorf("what has no JSON: %v", err)
	}
}

func TestTokenProvesOneInstallation(t *testing.T) {
	k, _ := newKey(t)
	machine := site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001", Serial: "A1"}
	good := site.Marker{Site: "lab", Node: "n1", Machine: machine, Generation: 2, Image: "d1", Attempt: 3}
	token, err := k.Token(good)
	if err != nil {
		t.Fatal(err)
	}
	good.Token = token
	keys := []string{k.Public()}
	if !sitekey.Proves(keys, "lab", machine, good) {
		t.Error("the marker as it was made proves nothing")
	}
	nameless := site.Marker{Site: "lab", Node: "n1", Generation: 2}
	if nameless.Token, err = k.Token(nameless); err != nil {
		t.Fatal(err)
	}
	if sitekey.Proves(keys, "lab", machine, nameless) {
		t.Error("a marker that names no machine proves an installation of any")
	}
	for name, change := range map[string]func(*site.Marker){
		"generation": func(m *site.Marker) { m.Generation++ },
		"image":      func(m *site.Marker) { m.Image = "d2" },
		"attempt":    func(m *site.Marker) { m.Attempt = 4 },
		"node":       func(m *site.Marker) { m.Node = "n2" },
		"site":       func(m *site.Marker) { m.Site = "other" },
		"machine":    func(m *site.Marker) { m.Machine.UUID = "" },
		"no machine": func(m *site.Marker) { m.Machine = site.Identity{} },
		"token":      func(m *site.Marker) { m.Token = "" },
	} {
		m := good
		change(&m)
		if sitekey.Proves(keys, "lab", machine, m) {
			t.Errorf("another %s: it proves the installation", name)
		}
	}
	if sitekey.Proves(keys, "lab", site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000002", Serial: "A2"}, good) {
		t.Error("a copied marker proves the installation of another machine")
	}
	if sitekey.Proves(keys, "other", machine, good) {
		t.Error("a marker of one site proves an installation of another")
	}
}

func TestKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	k, made, err := sitekey.LoadOrCreate(path)
	if err != nil || !made {
		t.Fatalf("made %t, %v", made, err)
	}
	again, made, err := sitekey.LoadOrCreate(path)
	if err != nil || made || again.Public() != k.Public() {
		t.Errorf("the second time: made %t, %v, the same %t", made, err, err == nil && again.Public() == k.Public())
	}
	if _, err := sitekey.Create(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created over another: %v", err)
	}
	deep := filepath.Join(t.TempDir(), "none", "key")
	if _, made, err := sitekey.LoadOrCreate(deep); err != nil || !made {
		t.Errorf("without a folder: made %t, %v", made, err)
	}
	if i, err := os.Stat(filepath.Dir(deep)); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the folder that was made: %v, %v", i, err)
	}
	if _, made, err := sitekey.LoadOrCreate(filepath.Join(path, "key")); err == nil || made {
		t.Errorf("in a file: made %t, %v", made, err)
	}
	if _, err := sitekey.Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := k.Sign(sitekey.ForStatus, func() {}); err == nil {
		t.Error("what has no JSON is signed")
	}
}

// Whoever comes first makes the key, and the others have the same one.
func TestManyMakeOneKey(t *testing.T) {
	folder := t.TempDir()
	for round := range 64 {
		makeAtOnce(t, filepath.Join(folder, strconv.Itoa(round)))
	}
}

func makeAtOnce(t *testing.T, path string) {
	t.Helper()
	type result struct {
		public string
		made   bool
		err    error
	}
	begin, results := make(chan struct{}), make(chan result)
	const many = 4
	for range many {
		go func() {
			<-begin
			k, made, err := sitekey.LoadOrCreate(path)
			r := result{made: made, err: err}
			if err == nil {
				r.public = k.Public()
			}
			results <- r
		}()
	}
	close(begin)
	made, publics := 0, map[string]bool{}
	for range many {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		if r.made {
			made++
		}
		publics[r.public] = true
	}
	if made != 1 || len(publics) != 1 {
		t.Errorf("%d were made, and there are %d", made, len(publics))
	}
}

// Where no key can be made, nobody is told that there is one.
func TestKeyThatCannotBeMade(t *testing.T) {
	if _, made, err := sitekey.LoadOrCreate("/proc/none/key"); err == nil || made {
		t.Errorf("made %t, %v", made, err)
	}
	if k, err := sitekey.Create("/proc/none/key"); err == nil || k != nil {
		t.Errorf("created %v, %v", k, err)
	}
	k, _ := newKey(t)
	if err := k.Save(filepath.Join(t.TempDir(), "none", "copy")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("saved into a folder that is not there: %v", err)
	}
}

// Bytes derived for a use are those of HKDF-SHA-256 (RFC 5869), written out, and no
// use has those of another.
func TestDerive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.key")
	root := []byte(strings.Repeat("r", 32))
	if err := os.WriteFile(path, []byte("slipway site key v1\n"+base64.StdEncoding.EncodeToString(root)+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	k, err := sitekey.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(key, text []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(text)
		return h.Sum(nil)
	}
	want := mac(mac(make([]byte, 32), root), []byte("slipway derive v1\x00a use\x01"))
	if got, err := k.Derive("a use", 32); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
	if other, err := k.Derive("another", 32); err != nil || bytes.Equal(other, want) {
		t.Errorf("another use: got %x, %v", other, err)
	}
	if _, err := k.Derive("a use", 255*32+1); err == nil {
		t.Error("more bytes were derived than HKDF gives")
	}
}
