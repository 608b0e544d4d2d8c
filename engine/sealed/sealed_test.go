package sealed_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/sealed"
)

// canary is in every secret of these tests, and may be in no error.
const canary = "canary-7f3a"

var when = time.Date(2026, 11, 27, 15, 0, 0, 0, time.UTC)

func newIdentity(t *testing.T, kind sealed.Kind) sealed.Identity {
	t.Helper()
	id, err := sealed.Create(filepath.Join(t.TempDir(), "secrets.key"), kind)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func recipientOf(t *testing.T, id sealed.Identity) sealed.Recipient {
	t.Helper()
	r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sealFor(t *testing.T, site, name string, to ...sealed.Recipient) []byte {
	t.Helper()
	file, err := sealed.Seal(sealed.Header{Site: site, Name: name, Set: when}, []byte("hosts: h\nuse: ssh\n\n"+canary), to)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// sshIdentity is the file of a private key of SSH, and the line of its public key.
func sshIdentity(t *testing.T, passphrase string) (path, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return path, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line))) + " ops@laptop"
}

func TestEachRecipientOpens(t *testing.T) {
	daemon, other := newIdentity(t, sealed.Classic), newIdentity(t, sealed.Classic)
	path, public := sshIdentity(t, "")
	person, err := sealed.Load(path, sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	line, err := sealed.ParseRecipient(public, sealed.Means{})
	if err != nil || line.Name != "ops@laptop" || line.Text != person.Recipients()[0] {
		t.Fatalf("got %+v, %v; want the name of the key and the text %q", line, err, person.Recipients())
	}
	locked, lockedPublic := sshIdentity(t, "horse")
	to := []sealed.Recipient{recipientOf(t, daemon), line}
	lockedLine, err := sealed.ParseRecipient(lockedPublic, sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	withPassphrase, err := sealed.Load(locked, sealed.Means{Passphrase: func() ([]byte, error) { return []byte("horse"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	file := sealFor(t, "fra", "bmc", append(to, lockedLine)...)
	for name, id := range map[string]sealed.Identity{"daemon": daemon, "person": person, "passphrase": withPassphrase} {
		h, text, err := sealed.OpenFor("fra", "bmc", file, id)
		if err != nil || !strings.HasSuffix(string(text), canary) || !h.Set.Equal(when) || len(h.Recipients) != 3 {
			t.Errorf("%s: got %+v %q, %v", name, h, text, err)
		}
	}
	if _, _, err := sealed.OpenFor("fra", "bmc", file, other); !errors.Is(err, sealed.ErrNotForUs) || !strings.Contains(err.Error(), other.Recipients()[0]) {
		t.Errorf("another identity: got %v, want ErrNotForUs with its recipient", err)
	}
	kinds, err := sealed.Stanzas(file)
	if err != nil || fmt.Sprint(kinds) != "[X25519 ssh-ed25519 ssh-ed25519]" {
		t.Errorf("got stanzas %v, %v", kinds, err)
	}
}

func TestPostQuantum(t *testing.T) {
	id, classic := newIdentity(t, sealed.PostQuantum), newIdentity(t, sealed.Classic)
	if r := id.Recipients()[0]; !strings.HasPrefix(r, "age1pq1") {
		t.Errorf("got the recipient %.20s", r)
	}
	file := sealFor(t, "fra", "bmc", recipientOf(t, id))
	if _, _, err := sealed.OpenFor("fra", "bmc", file, id); err != nil {
		t.Error(err)
	}
	_, err := sealed.Seal(sealed.Header{Site: "fra", Name: "bmc", Set: when}, []byte("x"), []sealed.Recipient{recipientOf(t, id), recipientOf(t, classic)})
	if err == nil || !strings.Contains(err.Error(), "two kinds") {
		t.Errorf("recipients of both kinds: got %v", err)
	}
}

// Whatever was done to a file, opening it ends with a sentence, and with nothing of
// the secret in it.
func TestFilesThatAreRefused(t *testing.T) {
	id := newIdentity(t, sealed.Classic)
	file := sealFor(t, "fra", "bmc", recipientOf(t, id))
	lines := bytes.Split(bytes.TrimSpace(file), []byte("\n"))
	plainAge, err := sealed.Encrypt([]byte("hosts: h\n\n"+canary), recipientOf(t, id))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := sealed.Encrypt([]byte("slipway secret v1\nsite: fra\nname: bmc\nname: os\n\n"+canary), recipientOf(t, id))
	if err != nil {
		t.Fatal(err)
	}
	late := bytes.Clone(file)
	middle := len(late) - len("\n-----END AGE ENCRYPTED FILE-----\n") - 10
	late[middle] ^= 1
	if late[middle] < '0' || late[middle] > 'z' {
		late[middle] = 'A'
	}
	for name, c := range map[string]struct {
		site, name string
		file       []byte
		want       error
		says       string
	}{
		"another name":   {"fra", "os", file, sealed.ErrElsewhere, `it holds the secret "bmc" of the site "fra", not "os" of "fra"`},
		"another site":   {"muc", "bmc", file, sealed.ErrElsewhere, `not "bmc" of "muc"`},
		"empty":          {"fra", "bmc", nil, sealed.ErrDamaged, "it is empty"},
		"clear text":     {"fra", "bmc", []byte("hosts: h\n\n" + canary), sealed.ErrNotSealed, "not encrypted with age"},
		"binary":         {"fra", "bmc", []byte{0xff, 0, 1, 2, 0xfe}, sealed.ErrNotSealed, "not encrypted with age"},
		"no end line":    {"fra", "bmc", bytes.Join(lines[:len(lines)-1], []byte("\n")), sealed.ErrDamaged, "cut off"},
		"half":           {"fra", "bmc", file[:len(file)/2], sealed.ErrDamaged, "cut off"},
		"a changed byte": {"fra", "bmc", late, sealed.ErrDamaged, "changed"},
		"a line less":    {"fra", "bmc", bytes.Join(append(append([][]byte{}, lines[:len(lines)-3]...), lines[len(lines)-1]), []byte("\n")), sealed.ErrDamaged, ""},
		"text behind":    {"fra", "bmc", append(bytes.Clone(file), "password: "+canary...), sealed.ErrDamaged, "changed"},
		"not ours":       {"fra", "bmc", plainAge, sealed.ErrElsewhere, "not made by Slipway"},
		"two names":      {"fra", "bmc", forged, sealed.ErrElsewhere, "not made by Slipway"},
		"too large":      {"fra", "bmc", bytes.Repeat([]byte("A"), sealed.MostFile+1), sealed.ErrDamaged, "KiB"},
		"other armour":   {"fra", "bmc", []byte("-----BEGIN AGE ENCRYPTED FILE-----\naGVsbG8=\n-----END AGE ENCRYPTED FILE-----\n"), sealed.ErrNotSealed, "not encrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, text, err := sealed.OpenFor(c.site, c.name, c.file, id)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || len(text) > 0 {
				t.Errorf("got %q, %v; want %v with %q", text, err, c.want, c.says)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
	if _, _, err := sealed.OpenFor("fra", "bmc", file, sealed.Identity{}); !errors.Is(err, sealed.ErrNotForUs) {
		t.Errorf("no identity: got %v", err)
	}
}

// At every length a file that was cut is refused.
func TestCutFiles(t *testing.T) {
	id := newIdentity(t, sealed.Classic)
	file := sealFor(t, "fra", "bmc", recipientOf(t, id))
	for n := range len(file) - 1 {
		if _, _, err := sealed.OpenFor("fra", "bmc", file[:n], id); err == nil {
			t.Fatalf("a file of %d of %d bytes was opened", n, len(file))
		}
	}
}

func TestManyRecipientsAreRefused(t *testing.T) {
	id := newIdentity(t, sealed.Classic)
	to := make([]sealed.Recipient, 65)
	for i := range to {
		to[i] = recipientOf(t, id)
	}
	file := sealFor(t, "fra", "bmc", to...)
	if _, err := sealed.Stanzas(file); err == nil || !strings.Contains(err.Error(), "more than 64 recipients") {
		t.Errorf("got %v", err)
	}
}

func TestRecipientsFile(t *testing.T) {
	a, b := newIdentity(t, sealed.Classic).Recipients()[0], newIdentity(t, sealed.Classic).Recipients()[0]
	all, err := sealed.ParseRecipients([]byte("# who may read\n\n# ops laptop\n"+a+"\n"+b+"\n"), sealed.Means{})
	if err != nil || len(all) != 2 || all[0].Name != "ops laptop" || all[1].Name != "" || all[1].Line != 5 {
		t.Errorf("got %+v, %v", all, err)
	}
	for text, want := range map[string]string{
		"":                             "1: the file lists no recipient",
		"# only a comment\n":           "lists no recipient",
		a + "\n" + a + "\n":            "2: the recipient stands in line 1 already",
		mistyped(a):                    "1: this is not a recipient",
		"age1":                         "1: this is not a recipient",
		"AGE-SECRET-KEY-1" + canary:    "1: this is the secret half",
		"ssh-ed25519 AAAA":             "1: this is not a public key of SSH",
		"ssh-dss " + canary:            "1: this is not a public key of SSH",
		"nonsense " + canary:           "1: this is not a recipient",
		strings.Repeat("#\n", 200<<10): "1: the file is larger",
	} {
		_, err := sealed.ParseRecipients([]byte(text), sealed.Means{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%.30q: got %v, want %q", text, err, want)
		}
	}
	r, err := sealed.ParseRecipient("age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t", sealed.Means{})
	if err != nil {
		t.Fatalf("the recipient of a plugin: %v", err)
	}
	if _, err := sealed.Seal(sealed.Header{Site: "fra", Name: "bmc", Set: when}, nil, []sealed.Recipient{r}); err == nil || !strings.Contains(err.Error(), "--plugin") {
		t.Errorf("sealing for a plugin without one: got %v", err)
	}
}

// mistyped is a text with another last character, of those that a recipient may have.
func mistyped(recipient string) string {
	last := len(recipient) - 1
	if recipient[last] == 'q' {
		return recipient[:last] + "p"
	}
	return recipient[:last] + "q"
}

// A label tells recipients apart by what nobody can choose, and holds nothing that a
// terminal would obey.
func TestLabels(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
	const other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKLUO3ZVqJzGZxkQ9jKJvhwqJZbQ3o3Lw0wq4Xq1mX9T"
	for text, want := range map[string]string{
		key:                 "ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU", // as ssh-keygen -l shows it
		key + " ops@laptop": "ops@laptop (ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU)",
		key + " \x1b[2Kops\u202e" + strings.Repeat("x", 100):                              "?[2Kops?" + strings.Repeat("x", 52) + "… (ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU)",
		"age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t":         "age1yubikey1qwt50d05nh5vutpdzmlg…",
		"age1" + strings.Repeat("n", 90) + "1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snv": "age1" + strings.Repeat("n", 16) + "…1qwt50d05nh5vutpdzmlg…",
	} {
		r, err := sealed.ParseRecipient(text, sealed.Means{})
		if err != nil || r.Label() != want {
			t.Errorf("%q: got %q, %v; want %q", text, r.Label(), err, want)
		}
	}
	a, err := sealed.ParseRecipient(other, sealed.Means{})
	if err != nil || strings.Contains(a.Label(), "+DiY3ww") {
		t.Errorf("another key has the label %q, %v", a.Label(), err)
	}
	named, err := sealed.ParseRecipients([]byte("# "+strings.Repeat("n", 100)+"\a\n"+key+"\n"), sealed.Means{})
	if err != nil || named[0].Name != strings.Repeat("n", 60)+"…" {
		t.Errorf("got %+v, %v", named, err)
	}
	id := newIdentity(t, sealed.Classic)
	if r := recipientOf(t, id); r.Label() != id.Recipients()[0][:24]+"…" {
		t.Errorf("got %q", r.Label())
	}
}

func TestIdentityFilesThatAreRefused(t *testing.T) {
	locked, _ := sshIdentity(t, "horse")
	lockedText, err := os.ReadFile(locked)
	if err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good")
	if _, err := sealed.Create(good, sealed.Classic); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"others can read it": {string(text), 0o440, "chmod 400"},
		"all can read it":    {string(text), 0o444, "chmod 400"},
		"empty":              {"", 0o400, "holds none"},
		"comments alone":     {"# public key: age1x\n", 0o400, "holds none"},
		"cut off":            {string(text[:len(text)-10]), 0o400, "is not an identity"},
		"a recipient":        {"age1" + canary, 0o400, ":1: the line is not an identity"},
		"a plugin":           {"AGE-PLUGIN-YUBIKEY-1" + canary, 0o400, "the daemon runs none"},
		"a passphrase":       {string(lockedText), 0o400, "has a passphrase"},
		"another PEM":        {"-----BEGIN CERTIFICATE-----\n" + canary, 0o400, "not a private key that opens secrets"},
		"large":              {strings.Repeat("#", 65<<10), 0o400, "too large"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := sealed.Load(path, sealed.Means{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, err := sealed.Load(filepath.Join(t.TempDir(), "none"), sealed.Means{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
}

func TestIdentityIsMadeOnceAndNotShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "secrets.key")
	first, made, err := sealed.LoadOrCreate(path, sealed.Classic)
	if err != nil || !made {
		t.Fatalf("made %t, %v", made, err)
	}
	again, made, err := sealed.LoadOrCreate(path, sealed.PostQuantum)
	if err != nil || made || again.Recipients()[0] != first.Recipients()[0] {
		t.Errorf("the second time: made %t, %v", made, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secret := text[bytes.Index(text, []byte("AGE-SECRET-KEY-")):]
	if shown := fmt.Sprintf("%v %+v %#v %s %q", first, first, first, first, &first); strings.Contains(shown, string(secret[:20])) || !strings.Contains(shown, "[redacted]") {
		t.Errorf("got %q", shown)
	}
}

// What anybody writes into a file of secrets ends in a sentence.
func FuzzOpen(f *testing.F) {
	id, err := sealed.Create(filepath.Join(f.TempDir(), "secrets.key"), sealed.Classic)
	if err != nil {
		f.Fatal(err)
	}
	r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		f.Fatal(err)
	}
	file, err := sealed.Seal(sealed.Header{Site: "fra", Name: "bmc", Set: when}, []byte("x"), []sealed.Recipient{r})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add([]byte("age-encryption.org/v1\n-> X25519 a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, _, err := sealed.OpenFor("fra", "bmc", text, id)
		if err == nil && !bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(file)) && h.Name != "bmc" {
			t.Errorf("opened %q", text)
		}
		sealed.ParseRecipients(text, sealed.Means{})
	})
}

func BenchmarkOpen(b *testing.B) {
	for _, kind := range []sealed.Kind{sealed.Classic, sealed.PostQuantum} {
		b.Run(map[sealed.Kind]string{sealed.Classic: "classic", sealed.PostQuantum: "postquantum"}[kind], func(b *testing.B) {
			id, err := sealed.Create(filepath.Join(b.TempDir(), "secrets.key"), kind)
			if err != nil {
				b.Fatal(err)
			}
			r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
			if err != nil {
				b.Fatal(err)
			}
			file, err := sealed.Seal(sealed.Header{Site: "fra", Name: "bmc", Set: when}, []byte("x"), []sealed.Recipient{r})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, err := sealed.OpenFor("fra", "bmc", file, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
