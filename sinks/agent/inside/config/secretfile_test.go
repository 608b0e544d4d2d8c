package config

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// secretFile asks for a file whose content is a secret, as the daemon does: with a key of
// its own each time.
func secretFile(path, mode, secret, key string) item.Item {
	f := item.File{Content: []byte(secret), Key: []byte(key), Mode: mode, Owner: "root", Group: "root"}
	return item.New("files."+path, f.Fields(), f)
}

func (f *fake) lookWith(keys map[string][]byte, asked ...string) inside.Seen {
	f.t.Helper()
	f.host.Keys = keys
	defer func() { f.host.Keys = nil }()
	return f.observe(asked...)
}

// tellsNothing holds that no text has a secret, or a digest of it without a key.
func tellsNothing(t *testing.T, secret string, texts ...any) {
	t.Helper()
	for _, of := range texts {
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{secret, item.Digest([]byte(secret)), strings.TrimPrefix(item.Digest([]byte(secret)), "sha256:")} {
			if strings.Contains(string(text), what) {
				t.Errorf("%q is in %s", what, text)
			}
		}
	}
}

// A file with a secret is put there, seen by a keyed digest alone, changed with its secret, and
// removed. Neither the secret nor what was in its place is kept.
func TestAFileWithASecret(t *testing.T) {
	const file, key, secret, rotated = "/etc/app/key", "files./etc/app/key", "calvin-7-secret", "hobbes-9-secret"
	f := newFake(t)
	f.put(file, "the one before")
	owned := func() string { return f.read("/var/lib/slipway-inside/owned.json") }

	if err := f.apply([]item.Item{secretFile(file, "0600", secret, "k1")}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.host.Path(file)); err != nil || info.Mode().Perm() != 0o600 || f.read(file) != secret {
		t.Errorf("%v, %q", err, f.read(file))
	}
	seen := f.lookWith(map[string][]byte{key: []byte("k2")}, key)
	if got := seen.Have[key+".content"]; got != item.KeyedDigest([]byte("k2"), []byte(secret)) {
		t.Errorf("got %s", got)
	}
	f.host.Show = map[string]string{key: item.Digest([]byte("another\n"))}
	if err := os.Chmod(f.host.Path(file), 0o644); err != nil { // as a person may do
		t.Fatal(err)
	}
	without := f.observe(key)
	if without.Have[key+".content"] != "a secret" || without.Contents[key].Withheld != item.IsSecret {
		t.Errorf("without a key it tells %+v", without)
	}
	f.host.Show = nil
	tellsNothing(t, secret, seen, without, f.told, f.calls, owned())
	tellsNothing(t, "the one before", owned())
	if strings.Contains(owned(), "dGhlIG9uZSBiZWZvcmU") {
		t.Errorf("what was there before is kept: %s", owned())
	}

	if err := f.apply([]item.Item{secretFile(file, "0600", rotated, "k3")}); err != nil || f.read(file) != rotated {
		t.Fatalf("%v, %q", err, f.read(file))
	}
	f.reload()
	f.writes = 0
	if err := f.apply([]item.Item{secretFile(file, "0600", rotated, "k4")}); err != nil || f.writes != 0 {
		t.Errorf("%v, and %d writes of what is so", err, f.writes)
	}
	if err := f.apply(nil, key); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.host.Path(file)); !os.IsNotExist(err) {
		t.Errorf("it stays: %v", err)
	}
	tellsNothing(t, rotated, f.told, owned())
}

// A file that has a secret no more is told as any, and shown again. One that was there as
// designed is not Slipway's.
func TestAFileThatWasSecret(t *testing.T) {
	const file, key = "/etc/app.conf", "files./etc/app.conf"
	f := newFake(t)
	f.put(file, "calvin-7-secret")
	if err := os.Chmod(f.host.Path(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.apply([]item.Item{secretFile(file, "0600", "calvin-7-secret", "k1")}); err != nil {
		t.Fatal(err)
	}
	if keys := f.host.Owned.Keys("config"); len(keys) != 0 || f.writes != 0 {
		t.Errorf("owned %q after %d writes of what is so", keys, f.writes)
	}
	if err := f.apply([]item.Item{secretFile(file, "0600", "hobbes-9-secret", "k2")}); err != nil {
		t.Fatal(err)
	}
	plain := item.File{Content: []byte("plain\n"), Mode: "0644", Owner: "root", Group: "root"}
	if err := f.apply([]item.Item{item.New(key, plain.Fields(), plain)}); err != nil {
		t.Fatal(err)
	}
	if seen := f.observe(key); seen.Have[key+".content"] != item.Digest(plain.Content) {
		t.Errorf("got %+v", seen.Have)
	}
	tellsNothing(t, "calvin-7-secret", f.read("/var/lib/slipway-inside/owned.json"))
}

// What a program says of a file with a secret is not told: it may quote the file.
func TestRefusedFilesWithASecret(t *testing.T) {
	f := newFake(t)
	f.put("/usr/sbin/visudo", "")
	f.checks = func(c inside.Command) inside.Output {
		return inside.Output{Code: 1, Err: append([]byte("parse error near "), c.Stdin...)}
	}
	err := f.apply([]item.Item{secretFile("/etc/sudoers.d/app", "0440", "calvin-7-secret", "k1")})
	if err == nil || !strings.Contains(err.Error(), "visudo does not accept") || strings.Contains(err.Error(), "calvin") {
		t.Errorf("got %v", err)
	}
	err = f.apply([]item.Item{secretFile("/etc/tmpfiles.d/app.conf", "0600", "bad calvin-7-secret", "k1")})
	if err == nil || !strings.Contains(err.Error(), "did not carry out") || strings.Contains(err.Error(), "Unknown command") {
		t.Errorf("got %v", err)
	}
}

// A run that is cut at any write leaves no trace of a secret that a look would tell.
func TestASecretIsKnownAsOneBeforeItIsThere(t *testing.T) {
	const file, key, secret = "/etc/app/key", "files./etc/app/key", "calvin-7-secret"
	for limit := 1; ; limit++ {
		f := newFake(t)
		f.limit = limit
		err := f.apply([]item.Item{secretFile(file, "0600", secret, "k1")})
		f.limit = 0
		f.reload()
		seen := f.observe(key)
		tellsNothing(t, secret, seen)
		if err == nil {
			if limit < 3 {
				t.Errorf("only %d writes", limit)
			}
			return
		}
	}
}
