package sops_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/sops"
)

const canary = "canary-91"

var credential = []byte("hosts: 192.0.2.0/24, bmc.example.org\nuse: redfish\nusername: admin\n\n" + canary)

func newIdentity(t testing.TB) (sealed.Identity, sealed.Recipient) {
	t.Helper()
	id, err := sealed.Create(filepath.Join(t.TempDir(), "secrets.key"), sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	return id, r
}

// fileWith is a file with one credential.
func fileWith(t testing.TB, name, key string, to ...sealed.Recipient) []byte {
	t.Helper()
	c, err := sops.New(name, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutCredential(key, "fra", credential); err != nil {
		t.Fatal(err)
	}
	return written(t, c)
}

func written(t testing.TB, c *sops.Content) []byte {
	t.Helper()
	f, err := c.File(time.Date(2026, 11, 27, 15, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestReadsWhatItWrites(t *testing.T) {
	id, r := newIdentity(t)
	for _, name := range []string{"a.sops.yaml", "a.sops.json"} {
		text := fileWith(t, name, "access.bmc", r)
		if bytes.Contains(text, []byte(canary)) || bytes.Contains(text, []byte("192.0.2.0")) || bytes.Contains(text, []byte("admin")) {
			t.Errorf("%s has a value in clear text:\n%s", name, text)
		}
		got, _, err := sops.Credential(name, text, "access.bmc", "fra", id)
		if err != nil || string(got) != string(credential) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		f, err := sops.Parse(name, text)
		if err != nil || len(f.Recipients()) != 1 || f.Recipients()[0] != r.Text {
			t.Fatalf("%s: recipients %v, %v", name, f.Recipients(), err)
		}
		again, err := f.Bytes()
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: written again it differs, %v:\n%s\n%s", name, err, text, again)
		}
	}
}

func TestRekey(t *testing.T) {
	id, r := newIdentity(t)
	other, theirs := newIdentity(t)
	text := fileWith(t, "a.sops.yaml", "bmc", r)
	f, err := sops.Parse("a.sops.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Rekey(other, []sealed.Recipient{theirs}); !errors.Is(err, sealed.ErrNotForUs) {
		t.Errorf("by an identity that does not open it: got %v", err)
	}
	if err := f.Rekey(id, []sealed.Recipient{theirs}); err != nil {
		t.Fatal(err)
	}
	text, err = f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := sops.Credential("a.sops.yaml", text, "bmc", "fra", other); err != nil || string(got) != string(credential) {
		t.Errorf("the new recipient: got %q, %v", got, err)
	}
	if _, _, err := sops.Credential("a.sops.yaml", text, "bmc", "fra", id); !errors.Is(err, sealed.ErrNotForUs) {
		t.Errorf("the former recipient: got %v", err)
	}
}

// The digest of a file holds values one behind the other: a clear one may be cut in two by
// whoever can merge, and where a secret may be sent is never read from clear text.
func TestClearHostsAreNeverBelieved(t *testing.T) {
	id, r := newIdentity(t)
	text := string(fileWith(t, "a.sops.yaml", "bmc", r))
	wider := strings.Replace(text, "unencrypted_suffix: _unencrypted", "encrypted_regex: ^secret$", 1)
	if wider == text {
		t.Fatal("the rule was not found")
	}
	lines := strings.Split(wider, "\n")
	for i, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), "hosts:") {
			lines[i] = l[:strings.Index(l, "hosts:")] + "hosts: 192.0.2.0/2"
		}
	}
	if got, _, err := sops.Credential("a.sops.yaml", []byte(strings.Join(lines, "\n")), "bmc", "fra", id); err == nil {
		t.Errorf("hosts in clear text: got %q", got)
	}
	if _, err := sops.Parse("a.sops.yaml", []byte("\"a:b\": x\n"+text)); err == nil || !strings.Contains(err.Error(), "rename it") {
		t.Errorf("a key with \":\": got %v", err)
	}
}

// Whoever could open a file before knows its key: the next one has another.
func TestRekeyMakesANewKey(t *testing.T) {
	id, r := newIdentity(t)
	f, err := sops.Parse("a.sops.yaml", fileWith(t, "a.sops.yaml", "bmc", r))
	if err != nil {
		t.Fatal(err)
	}
	before, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Rekey(id, []sealed.Recipient{r}); err != nil {
		t.Fatal(err)
	}
	after, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	value := func(text []byte) string {
		for l := range strings.Lines(string(text)) {
			if strings.Contains(l, "secret:") {
				return l
			}
		}
		return ""
	}
	// A value of the old file in the new one does not open, since the keys differ.
	mixed := strings.Replace(string(after), value(after), value(before), 1)
	if _, _, err := sops.Credential("a.sops.yaml", []byte(mixed), "bmc", "fra", id); err == nil || !strings.Contains(err.Error(), "cannot be decrypted") {
		t.Errorf("a value under the old key: got %v", err)
	}
	if got, _, err := sops.Credential("a.sops.yaml", after, "bmc", "fra", id); err != nil || string(got) != string(credential) {
		t.Errorf("got %q, %v", got, err)
	}
}

// A value that is set again, with fewer header lines, leaves nothing of the one before.
func TestSetAgain(t *testing.T) {
	id, r := newIdentity(t)
	f, err := sops.Parse("a.sops.yaml", fileWith(t, "a.sops.yaml", "bmc", r))
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.PutCredential("bmc", "fra", []byte("hosts: h\nuse: ssh\n\nnew")), c.PutCredential("os", "fra", credential)); err != nil {
		t.Fatal(err)
	}
	text := written(t, c)
	if got, _, err := sops.Credential("a.sops.yaml", text, "bmc", "fra", id); err != nil || string(got) != "hosts: h\nuse: ssh\n\nnew" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, _, err := sops.Credential("a.sops.yaml", text, "os", "fra", id); err != nil || string(got) != string(credential) {
		t.Errorf("the second one: got %q, %v", got, err)
	}
	if err := c.PutCredential("bmc.secret", "fra", credential); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("below a value: got %v", err)
	}
}

// Whatever was changed in a file, opening it ends with a sentence, and with nothing of
// a value in it.
func TestFilesThatAreRefused(t *testing.T) {
	id, r := newIdentity(t)
	other, _ := newIdentity(t)
	good := string(fileWith(t, "a.sops.yaml", "bmc", r))
	part := func(key string) string {
		for line := range strings.Lines(good) {
			if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && k == key {
				return v
			}
		}
		t.Fatalf("no %s in\n%s", key, good)
		return ""
	}
	swap := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in\n%s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct {
		text, key string
		id        sealed.Identity
		want      string
	}{
		"another identity": {good, "bmc", other, "encrypted for others"},
		"no key":           {good, "os", id, `there is no object at the key "os"`},
		"a value":          {good, "bmc.secret", id, "there is no object"},
		"values swapped":   {strings.NewReplacer(part("secret"), part("username"), part("username"), part("secret")).Replace(good), "bmc", id, "was changed, or moved to another key"},
		"a value in clear": {swap(part("secret"), canary), "bmc", id, "bmc.secret is not encrypted, and the file says that it is"},
		"a number":         {swap(part("secret"), "12345"), "bmc", id, "is not encrypted, and the file says that it is"},
		"a value less":     {swap("    username: "+part("username")+"\n", ""), "bmc", id, "its digest does not fit its values"},
		"a value more":     {swap("    username: ", "    more_unencrypted: x\n    username: "), "bmc", id, "its digest does not fit its values"},
		"another time":     {swap("2026-11-27T15:00:00Z", "2026-11-27T15:00:01Z"), "bmc", id, "its digest does not fit its values"},
		"no digest":        {swap("mac: ", "cam: "), "bmc", id, "no digest"},
		"another digest":   {swap(part("mac"), part("secret")), "bmc", id, "its digest does not fit its values"},
		"no recipients":    {swap("    age:", "    ega:"), "bmc", id, "no recipient of age"},
		"not encrypted":    {good[:strings.Index(good, "\nsops:")], "bmc", id, "no key \"sops\""},
		"cut":              {good[:len(good)/2], "bmc", id, ""},
		"empty":            {"", "bmc", id, "not YAML"},
		"a list":           {"- a\n", "bmc", id, "object with keys"},
		"two documents":    {good + "---\na: b\n", "bmc", id, "several documents"},
		"a key twice":      {good + "bmc: x\n", "bmc", id, `the key "bmc" stands twice`},
		"an alias":         {"a: &x 1\nb: *x\n" + good, "bmc", id, "anchor or alias"},
		"a number as key":  {"1: a\n" + good, "bmc", id, "not a plain text"},
		"deep":             {strings.Repeat("[", 100) + strings.Repeat("]", 100), "bmc", id, ""},
		"PGP":              {swap("    age:", "    pgp:\n        - fp: A\n          enc: x\n    age:"), "bmc", id, "it uses PGP (pgp)"},
		"AWS":              {swap("    age:", "    kms:\n        - arn: A\n    age:"), "bmc", id, "it uses AWS KMS (kms)"},
		"groups":           {swap("    age:", "    shamir_threshold: 2\n    key_groups:\n        - age: []\n    age:"), "bmc", id, "groups of keys"},
		"comment rule":     {swap("    version:", "    encrypted_comment_regex: x\n    version:"), "bmc", id, "comments that choose"},
		"two rules":        {swap("    version:", "    encrypted_regex: x\n    version:"), "bmc", id, "two rules"},
		"a bad rule":       {strings.Replace(good, "unencrypted_suffix: _unencrypted", "encrypted_regex: '('", 1), "bmc", id, "encrypted_regex cannot be read"},
		"large":            {strings.Repeat("#"+canary+"\n", 40_000), "bmc", id, "KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := sops.Credential("a.sops.yaml", []byte(c.text), c.key, "fra", c.id)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(got) > 0 {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

// Files that the real program wrote: see testdata/README.
func TestReadsWhatSOPSWrote(t *testing.T) {
	id, err := sealed.Load(private(t, "testdata/key"), sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.sops.*")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := sops.Credential(file, text, "bmc", "fra", id)
		want := "hosts: 192.0.2.0/24, bmc.example.org\nuse: redfish\nports: 443, 8443\nusername: admin\n\npässword \"x\"\nwith lines"
		if strings.Contains(file, "regex") { // its rule leaves where the secret may be sent in clear text
			if err == nil || !strings.Contains(err.Error(), "stands in the file as clear text") {
				t.Errorf("%s: got %q, %v", file, got, err)
			}
		} else if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", file, got, err)
		}
		changed := bytes.Replace(text, []byte("first"), []byte("other"), 1) // a value in clear text
		if bytes.Equal(changed, text) {
			changed = bytes.Replace(text, []byte("note"), []byte("nota"), 1) // the key of an encrypted one
		}
		if bytes.Equal(changed, text) {
			t.Fatalf("%s has no key \"note\"", file)
		}
		if _, _, err := sops.Credential(file, changed, "bmc", "fra", id); err == nil {
			t.Errorf("%s: a change was not noticed", file)
		}
	}
}

// private is a copy of a file that nobody else can read.
func private(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, text, 0o400); err != nil {
		t.Fatal(err)
	}
	return path
}

// What stands in clear text is listed with its line, and is nothing that a credential
// takes where the digest does not hold it.
func TestClearValues(t *testing.T) {
	_, r := newIdentity(t)
	text := strings.Replace(string(fileWith(t, "a.sops.yaml", "bmc", r)), "    username:", "    note_unencrypted: for people\n    username:", 1)
	f, err := sops.Parse("a.sops.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if clear := f.Clear(); len(clear) != 1 || clear["bmc.note_unencrypted"] == 0 {
		t.Errorf("got %v", clear)
	}
}

// Files with a few random changes end in a sentence too, or can be written and read
// again.
func TestMutatedFiles(t *testing.T) {
	id, r := newIdentity(t)
	seed := uint64(time.Now().UnixNano())
	dice := rand.New(rand.NewPCG(seed, 1))
	whole := map[string][]byte{"a.sops.yaml": fileWith(t, "a.sops.yaml", "bmc", r), "a.sops.json": fileWith(t, "a.sops.json", "bmc", r)}
	for i := range 2000 {
		name := []string{"a.sops.yaml", "a.sops.json"}[i%2]
		text := bytes.Clone(whole[name])
		for range 1 + dice.IntN(6) {
			at, other := dice.IntN(len(text)), dice.IntN(len(text))
			switch dice.IntN(4) {
			case 0:
				text[at] = byte(dice.IntN(256))
			case 1:
				text = append(text[:at:at], text[at+1:]...)
			case 2:
				text = slices.Concat(text[:at], text[min(at, other):max(at, other)], text[at:])
			case 3:
				const marks = "{}[],:&*#!|>'\"\n -?"
				text[at] = marks[dice.IntN(len(marks))]
			}
		}
		f, err := sops.Parse(name, text)
		if err != nil {
			continue
		}
		f.Clear()
		f.Open(id)
		out, err := f.Bytes()
		if err != nil {
			continue
		}
		if _, err := sops.Parse(name, out); err != nil {
			t.Errorf("seed %d: what was written cannot be read: %v\n%q\n%q", seed, err, text, out)
		}
	}
}

func FuzzParse(f *testing.F) {
	id, r := newIdentity(f)
	f.Add(string(fileWith(f, "a.sops.yaml", "bmc", r)), false)
	f.Add(string(fileWith(f, "a.sops.json", "bmc", r)), true)
	f.Add("a: !!int 1e400\nsops: {age: [{recipient: x, enc: y}], mac: z, lastmodified: \"2026-11-27T15:00:00Z\"}", false)
	f.Add("{\"sops\": {\"age\": [{\"recipient\": \"\", \"enc\": \"\"}], \"mac\": 1, \"lastmodified\": \"2026-11-27T15:00:00Z\"}, \"n\": 1e999}", true)
	f.Fuzz(func(t *testing.T, text string, json bool) {
		name := "a.sops.yaml"
		if json {
			name = "a.sops.json"
		}
		file, err := sops.Parse(name, []byte(text))
		if err != nil {
			return
		}
		file.Clear()
		file.Open(id)
		out, err := file.Bytes()
		if err != nil {
			return
		}
		if _, err := sops.Parse(name, out); err != nil {
			t.Errorf("what was written cannot be read: %v\n%s", err, out)
		}
	})
}
