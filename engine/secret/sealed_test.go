package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sops"
)

// sealedSite is a design whose credentials are sealed, each with its text, for an
// identity.
func sealedSite(t *testing.T, id sealed.Identity, texts map[string]string) *site.Site {
	t.Helper()
	return sealedSiteOf(t, id, time.Unix(0, 0), texts)
}

// sealedSiteOf is sealedSite with secrets that were set at a time.
func sealedSiteOf(t *testing.T, id sealed.Identity, set time.Time, texts map[string]string) *site.Site {
	t.Helper()
	r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	s := &site.Site{Name: "fra", Credentials: map[string]*site.Credential{}, Sealed: &site.SealedFiles{Folder: "secrets", Files: map[string][]byte{}}}
	for name, text := range texts {
		file, err := sealed.Seal(sealed.Header{Site: "fra", Name: name, Set: set, Changed: set}, []byte(text), []sealed.Recipient{r})
		if err != nil {
			t.Fatal(err)
		}
		s.Credentials[name] = &site.Credential{From: site.FromSealed}
		s.Sealed.Files["secrets/"+name+".age"] = file
	}
	return s
}

const sealedText = "hosts: 192.0.2.0/24\nuse: redfish\nusername: admin\n\ncanary-1"

func sealedStore(t *testing.T, made func(string, string)) (*Store, string) {
	t.Helper()
	s := open(t, t.TempDir())
	key := filepath.Join(t.TempDir(), "secrets.key")
	s.Unseal(key, made)
	return s, key
}

func request(name string) Request {
	return Request{Name: name, Use: Redfish, Host: "192.0.2.7", Port: 443}
}

func TestSealedCredentialIsUsedLikeAFile(t *testing.T) {
	s, key := sealedStore(t, nil)
	id, err := sealed.Create(key, sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	s.InForce(sealedSite(t, id, map[string]string{"bmc": sealedText}))
	for range 2 { // the second time from memory
		v, err := s.Get(request("bmc"))
		if err != nil || v.Username() != "admin" || v.Reveal() != "canary-1" {
			t.Fatalf("got %q, %v", v.Username(), err)
		}
	}
	for what, r := range map[error]Request{
		ErrHost: {Name: "bmc", Use: Redfish, Host: "198.51.100.1", Port: 443},
		ErrUse:  {Name: "bmc", Use: SSH, Host: "192.0.2.7", Port: 22},
		ErrPort: {Name: "bmc", Use: Redfish, Host: "192.0.2.7", Port: 8443},
	} {
		_, err := s.Get(r)
		if !errors.Is(err, what) || !strings.Contains(err.Error(), "secrets/bmc.age") {
			t.Errorf("got %v, want %v with the file", err, what)
		}
	}
	// What reaches the repository is a file on this host, whatever a design says.
	if _, err := s.Get(Request{Name: "bmc", Use: Git, Host: "192.0.2.7", Port: 22}); !errors.Is(err, ErrMissing) {
		t.Errorf("a sealed credential for Git: got %v", err)
	}
}

// The design in force decides, and the one before no longer does.
func TestSealedCredentialFollowsTheDesign(t *testing.T) {
	s, key := sealedStore(t, nil)
	id, err := sealed.Create(key, sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	s.InForce(sealedSite(t, id, map[string]string{"bmc": sealedText}))
	if _, err := s.Get(request("bmc")); err != nil {
		t.Fatal(err)
	}
	s.InForce(sealedSite(t, id, map[string]string{"bmc": strings.Replace(sealedText, "canary-1", "canary-2", 1)}))
	if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != "canary-2" {
		t.Errorf("after a new revision: got another value, %v", err)
	}
	file := filepath.Join(s.dir, "bmc")
	if err := os.WriteFile(file, []byte(strings.Replace(sealedText, "canary-1", "of-the-file", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != "canary-2" {
		t.Errorf("with a file on the host: got another value, %v", err)
	}
	s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc": {}}})
	if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != "of-the-file" {
		t.Errorf("a credential from a file: got another value, %v", err)
	}
}

// One secret that cannot be opened says why, and the others go on.
func TestSealedCredentialsThatCannotBeOpened(t *testing.T) {
	s, key := sealedStore(t, nil)
	id, err := sealed.Create(key, sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	other, err := sealed.Create(filepath.Join(t.TempDir(), "k"), sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	d := sealedSite(t, id, map[string]string{
		"good": sealedText, "swapped": sealedText, "renamed": sealedText, "cut": sealedText, "garbage": sealedText, "gone": sealedText,
		"nouse": strings.Replace(sealedText, "use: redfish\n", "", 1), "nohosts": "use: redfish\n\ncanary-1", "nosecret": "hosts: h\nuse: redfish\n",
	})
	files := d.Sealed.Files
	files["secrets/swapped.age"], files["secrets/renamed.age"] = files["secrets/good.age"], files["secrets/good.age"]
	files["secrets/cut.age"] = files["secrets/cut.age"][:200]
	files["secrets/garbage.age"] = []byte("canary-1 \x00\xff")
	delete(files, "secrets/gone.age")
	others := sealedSite(t, other, map[string]string{"theirs": sealedText})
	d.Credentials["theirs"], files["secrets/theirs.age"] = others.Credentials["theirs"], others.Sealed.Files["secrets/theirs.age"]
	s.InForce(d)
	for name, want := range map[string]string{
		"swapped":  `secrets/swapped.age: it holds the secret "good" of the site "fra"`,
		"cut":      "secrets/cut.age: it is cut off",
		"garbage":  "secrets/garbage.age: it is not encrypted with age",
		"gone":     "credential missing: there is no file secrets/gone.age in the repository: make it with `slipway secret set gone`",
		"theirs":   "secrets/theirs.age: it is sealed for others than this identity (" + id.Recipients()[0] + ")",
		"nouse":    "secrets/nouse.age: within the encryption there is no \"use:\" line",
		"nohosts":  "secrets/nohosts.age: within the encryption, line 1: there is no \"hosts: …\" line",
		"nosecret": "secrets/nosecret.age: within the encryption, line 3: there is no empty line",
	} {
		for range 2 { // the second time from memory
			v, err := s.Get(request(name))
			if err == nil || !strings.Contains(err.Error(), want) || !v.IsZero() || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
	}
	if v, err := s.Get(request("good")); err != nil || v.Reveal() != "canary-1" {
		t.Errorf("the good one: %v", err)
	}
}

// Without an identity one is made, once, where that is allowed; what it cannot open
// is then said with its recipient. An exchanged one counts at once.
func TestIdentityOfTheStore(t *testing.T) {
	other, err := sealed.Create(filepath.Join(t.TempDir(), "k"), sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	d := sealedSite(t, other, map[string]string{"bmc": sealedText})
	none, path := sealedStore(t, nil)
	none.InForce(d)
	if _, err := none.Get(request("bmc")); err == nil || !strings.Contains(err.Error(), "there is no identity on this host") || !strings.Contains(err.Error(), path) {
		t.Errorf("without an identity: got %v", err)
	}
	var told []string
	s, key := sealedStore(t, func(path, recipient string) { told = append(told, path, recipient) })
	s.InForce(d)
	for range 2 {
		_, err = s.Get(request("bmc"))
	}
	if len(told) != 2 || told[0] != key || err == nil || !strings.Contains(err.Error(), told[1]) {
		t.Fatalf("told %q, got %v; want one identity, named in the error", told, err)
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "slipway secret identity --export FILE") {
		t.Errorf("notes %q, want how to keep a copy", notes)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := sealed.Load(key, sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	s.InForce(sealedSite(t, mine, map[string]string{"bmc": sealedText}))
	if _, err := s.Get(request("bmc")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(key), os.WriteFile(key, text, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(request("bmc")); err == nil || !strings.Contains(err.Error(), "chmod 400") {
		t.Errorf("an identity that others can read: got %v", err)
	}
	if err := errors.Join(os.Chmod(key, 0o400), os.WriteFile(CopyNote(key), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(request("bmc")); err != nil || len(s.Notes()) > 0 {
		t.Errorf("after chmod and a copy: %v, notes %q", err, s.Notes())
	}
}

func TestCredentialOfSOPS(t *testing.T) {
	s, key := sealedStore(t, nil)
	id, err := sealed.Create(key, sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := sops.New("site.sops.yaml", []sealed.Recipient{r})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutCredential("access.bmc", "fra", []byte(sealedText)); err != nil {
		t.Fatal(err)
	}
	f, err := c.File(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	d := &site.Site{Name: "fra", Credentials: map[string]*site.Credential{
		"bmc": {From: site.FromSOPS, File: "site.sops.yaml", Key: "access.bmc"}, "os": {From: site.FromSOPS, File: "site.sops.yaml", Key: "access.os"},
	}, Sealed: &site.SealedFiles{Folder: "secrets", Files: map[string][]byte{"secrets/site.sops.yaml": text}}}
	s.InForce(d)
	if v, err := s.Get(request("bmc")); err != nil || v.Reveal() != "canary-1" || v.Username() != "admin" {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(request("os")); err == nil || !strings.Contains(err.Error(), `secrets/site.sops.yaml: there is no object at the key "access.os"`) {
		t.Errorf("another key: got %v", err)
	}
	d.Name = "muc"
	s.InForce(d)
	if _, err := s.Get(request("bmc")); err == nil || !strings.Contains(err.Error(), "access.bmc.site does not say \"muc\"") {
		t.Errorf("another site: got %v", err)
	}
}

// An identity that opens slowly, as one in a TPM may, keeps only those waiting who need it.
func TestSlowIdentityKeepsNobodyElseWaiting(t *testing.T) {
	opens, opened := make(chan bool), make(chan bool)
	s, _ := sealedStore(t, func(string, string) {
		opens <- true
		<-opened
	})
	id, err := sealed.Create(filepath.Join(t.TempDir(), "other.key"), sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.dir, "file", good)
	s.InForce(sealedSite(t, id, map[string]string{"bmc": sealedText}))
	done := make(chan error)
	go func() {
		_, err := s.Get(request("bmc"))
		done <- err
	}()
	<-opens
	if _, err := s.Get(request("file")); err != nil {
		t.Error(err)
	}
	if notes := s.Notes(); len(notes) != 0 {
		t.Errorf("told %v", notes)
	}
	opened <- true
	if err := <-done; err == nil || !strings.Contains(err.Error(), "sealed for others than this identity") {
		t.Errorf("one that was made now: %v", err)
	}
}
