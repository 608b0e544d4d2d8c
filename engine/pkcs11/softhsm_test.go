package pkcs11

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const canary = "AGE-SECRET-KEY-canary-71c0"

const softHSM = "/usr/lib/softhsm/libsofthsm2.so"

// program builds slipway-pkcs11 once.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "slipway-pkcs11-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, programName)
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/slipway-pkcs11")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// host is a bootstrap host with SoftHSM's tokens.
type host struct {
	t      *testing.T
	folder string
	lines  []string // of the settings, before those that name the module, the PIN and the program
	module string
	PIN    string // its file
	runs   string // the program
}

func newHost(t *testing.T) *host {
	t.Helper()
	owner = uint32(os.Geteuid())
	runs, err := program()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, folder: t.TempDir(), module: softHSM, runs: runs}
	h.PIN = filepath.Join(h.folder, "token.pin")
	h.write("softhsm2.conf", 0o600, "directories.tokendir = "+h.folder+"/tokens\nobjectstore.backend = file\nlog.level = ERROR\n")
	h.lines = []string{"environment: SOFTHSM2_CONF=" + h.folder + "/softhsm2.conf"}
	if err := os.Mkdir(filepath.Join(h.folder, "tokens"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.pin("1234")
	return h
}

func (h *host) write(name string, mode os.FileMode, text string) string {
	h.t.Helper()
	path := filepath.Join(h.folder, name)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	return path
}

func (h *host) pin(pin string) { h.write("token.pin", 0o400, pin+"\n") }

// run runs a tool of SoftHSM or OpenSC.
func (h *host) run(args ...string) {
	h.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SOFTHSM2_CONF="+h.folder+"/softhsm2.conf")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// token makes a token.
func (h *host) token(label string) {
	h.t.Helper()
	h.run("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", "1234", "--so-pin", "5678")
}

// key makes a key on a token, such as rsa:2048 or EC:prime256v1.
func (h *host) key(token, label, kind string, more ...string) {
	h.t.Helper()
	h.run(append([]string{"pkcs11-tool", "--module", softHSM, "--token-label", token, "--login", "--pin", "1234", "--keypairgen", "--key-type", kind,
		"--label", label, "--id", fmt.Sprintf("%x", label)}, more...)...)
}

// settings writes the settings of the host.
func (h *host) settings() string {
	h.t.Helper()
	return h.write("pkcs11.conf", 0o644, strings.Join(append(h.lines, "module: "+h.module, "pin: "+h.PIN, "program: "+h.runs, ""), "\n"))
}

func (h *host) choice(token, label string) Choice {
	return Choice{Settings: h.settings(), Token: token, Key: Key{Label: label}}
}

// file is where the sealed secret would be.
func (h *host) file() string { return filepath.Join(h.folder, "secrets.key") }

func (h *host) seal(token, label string) []byte {
	h.t.Helper()
	text, _, err := Seal(h.choice(token, label), Identity, []byte(canary), h.file())
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

// opens says how the host opens a text: empty, or with what error.
func (h *host) opens(text []byte) string {
	h.t.Helper()
	h.settings()
	secret, err := Unseal(text, Identity, h.file())
	switch {
	case err != nil && secret != nil:
		h.t.Errorf("an error with %q", secret)
	case err != nil:
		if strings.Contains(err.Error(), "1234") || strings.Contains(err.Error(), canary) {
			h.t.Errorf("a secret is in the error %q", err)
		}
		return err.Error()
	case string(secret) != canary:
		h.t.Errorf("got %q", secret)
	}
	return ""
}

func (h *host) want(what, why, want string) {
	h.t.Helper()
	if !strings.Contains(why, want) || want == "" && why != "" {
		h.t.Errorf("%s: %q, want %q", what, why, want)
	}
}

func stored(t *testing.T, text []byte) (s sealed) {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil || json.Unmarshal(block.Bytes, &s) != nil {
		t.Fatalf("sealed as %s", text)
	}
	return s
}

// A secret opens by the token that it was sealed to, whatever kind its key has.
func TestSeal(t *testing.T) {
	h := newHost(t)
	h.token("other")
	h.token("site")
	for label, k := range map[string]struct {
		kind, usage string
		by          Mechanism
	}{
		"rsa":  {"rsa:2048", "--usage-decrypt", OAEPSHA1}, // SoftHSM 2.6 has OAEP with SHA-1 alone
		"p256": {"EC:prime256v1", "--usage-derive", ECDH},
		"p384": {"EC:secp384r1", "--usage-derive", ECDH},
		"p521": {"EC:secp521r1", "--usage-derive", ECDH},
	} {
		h.key("site", label, k.kind, k.usage)
		text := h.seal("site", label)
		if !IsSealed(text) || bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s: sealed as %s", label, text)
		}
		if s := stored(t, text); s.Wrapped.Mechanism != k.by || s.Token.Label != "site" || s.Token.Serial == "" || s.Key.Label != label {
			t.Errorf("%s: sealed as %+v", label, s.bound)
		}
		for range 2 {
			h.want(label, h.opens(text), "")
		}
	}
}

// changed is a sealed text in which something was changed.
func changed(t *testing.T, text []byte, change func(*sealed)) []byte {
	t.Helper()
	s := stored(t, text)
	change(&s)
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	block.Bytes = b
	return pem.EncodeToMemory(block)
}

// A text that was changed, or that another key sealed, opens nothing.
func TestDamagedTexts(t *testing.T) {
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	h.key("site", "k2", "EC:prime256v1", "--usage-derive")
	text, text2 := h.seal("site", "k"), h.seal("site", "k2")
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":           {nil, "is damaged"},
		"cut":               {text[:len(text)/2], "is damaged"},
		"more behind it":    {append(bytes.Clone(text), text...), "is damaged"},
		"another block":     {bytes.ReplaceAll(text, []byte(blockType), []byte("PRIVATE KEY")), "is damaged"},
		"no settings":       {bytes.Replace(text, []byte(headerSettings), []byte("Other"), 1), "is damaged"},
		"other text":        {changed(t, text, func(s *sealed) { s.Text[20] ^= 1 }), "is damaged, or the key \"k\" on the token \"site\""},
		"no text":           {changed(t, text, func(s *sealed) { s.Text = nil }), "is damaged"},
		"text of another":   {changed(t, text, func(s *sealed) { s.Text = stored(t, text2).Text }), "is damaged"},
		"point of another":  {changed(t, text, func(s *sealed) { s.Wrapped = stored(t, text2).Wrapped }), "is damaged"},
		"key of another":    {changed(t, text, func(s *sealed) { s.Key = stored(t, text2).Key }), "is damaged"},
		"other label":       {changed(t, text, func(s *sealed) { s.Token.Label = "mine" }), "is damaged"},
		"no token":          {changed(t, text, func(s *sealed) { s.Token.Serial = "" }), "is damaged"},
		"no point":          {changed(t, text, func(s *sealed) { s.Wrapped.Value = nil }), "the module refused C_DeriveKey (CKR"},
		"a huge point":      {changed(t, text, func(s *sealed) { s.Wrapped.Value = make([]byte, 2*MostMessage) }), "is damaged"},
		"unknown mechanism": {changed(t, text, func(s *sealed) { s.Wrapped.Mechanism = "rot13" }), "refused rot13 (CKR_MECHANISM_INVALID)"},
		"site key":          {changed(t, text, func(s *sealed) { s.Purpose = SiteKey }), "it was sealed as the site key"},
	} {
		h.want(name, h.opens(c.text), c.want)
	}
	if _, err := Unseal(text, SiteKey, h.file()); err == nil || !strings.Contains(err.Error(), "it was sealed as the identity: put the right file in its place") {
		t.Errorf("for another purpose: %v", err)
	}
	if _, err := Unseal(changed(t, text, func(s *sealed) { s.Purpose = SiteKey }), SiteKey, h.file()); !errors.Is(err, errDamaged) {
		t.Errorf("with another purpose: %v", err)
	}
	h.want("unchanged", h.opens(text), "")
}

// Keys and tokens that cannot keep a secret are refused before anything is sealed.
func TestKeysThatAreRefused(t *testing.T) {
	h := newHost(t)
	h.token("a")
	h.token("b")
	h.key("a", "open", "EC:prime256v1", "--usage-derive", "--extractable")
	h.key("a", "signs", "EC:prime256v1", "--usage-sign")
	h.key("a", "small", "rsa:1024", "--usage-decrypt")
	h.key("a", "curve", "EC:secp256k1", "--usage-derive")
	h.key("a", "twice", "EC:prime256v1", "--usage-derive")
	h.run("pkcs11-tool", "--module", softHSM, "--token-label", "a", "--login", "--pin", "1234", "--keypairgen", "--key-type", "EC:prime256v1", "--label", "twice", "--id", "99", "--usage-derive")
	h.key("a", "half", "EC:prime256v1", "--usage-derive")
	h.run("pkcs11-tool", "--module", softHSM, "--token-label", "a", "--login", "--pin", "1234", "--delete-object", "--type", "pubkey", "--label", "half")
	for name, c := range map[string]struct{ token, label, want string }{
		"extractable":    {"a", "open", "would give the private key \"open\" away"},
		"for signatures": {"a", "signs", "opens nothing by the key \"signs\": ecdh: the module refused C_DeriveKey (CKR_KEY_FUNCTION_NOT_PERMITTED)"},
		"small":          {"a", "small", "an RSA key of 1024 bits is not used"},
		"odd curve":      {"a", "curve", "its curve is not one of P-256, P-384 and P-521"},
		"no key":         {"a", "none", "the token has no private key of this name"},
		"two keys":       {"a", "twice", "more than one private key of this name: name one by its ID with --key-id"},
		"no public half": {"a", "half", "does not have the public half of the key"},
		"no token":       {"c", "k", "the token is not there (the module sees \""},
		"two tokens":     {"", "k", "more than one token fits"},
	} {
		_, _, err := Seal(h.choice(c.token, c.label), Identity, []byte(canary), h.file())
		h.want(name, fmt.Sprint(err), c.want)
	}
	byID := Choice{Settings: h.settings(), Token: "a", Key: Key{ID: []byte{0x99}}}
	text, to, err := Seal(byID, Identity, []byte(canary), h.file())
	if err != nil || to.Label != "a" {
		t.Fatalf("by its ID: %v, %v", to, err)
	}
	h.want("by its ID", h.opens(text), "")
}

// A wrong PIN is sent once. It is sent again neither at the next attempt nor after a restart, until a person has acted.
func TestWrongPIN(t *testing.T) {
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	note := notePath(h.file(), stored(t, text).Token)
	h.pin("9999")
	h.want("wrong", h.opens(text), "the token refused the PIN. Slipway does not send this PIN to the token \"site\"")
	for range 2 {
		h.want("again", h.opens(text), "no PIN was sent, because the token did not accept this one before, and tokens lock after few attempts: write the right PIN into "+h.PIN+", or remove "+note)
	}
	h.pin("1234")
	h.want("mended", h.opens(text), "")
	h.want("and again", h.opens(text), "")
	h.pin("9999")
	h.want("wrong again", h.opens(text), "the token refused the PIN")
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	h.want("allowed by a person", h.opens(text), "the token refused the PIN")
	if b, err := os.ReadFile(note); err != nil || bytes.Contains(b, []byte("9999")) {
		t.Errorf("the note is %q, %v", b, err)
	}
	if info, err := os.Stat(note); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the note: %v, %v", info, err)
	}
}

// The PIN may be a credential of systemd. One that was refused is not sent again before a person removes the note: the
// file is another one after each start.
func TestPINOfSystemd(t *testing.T) {
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	h.PIN = "hsm"
	h.want("outside of a service", h.opens(text), "systemd gave this process no credentials")
	t.Setenv("CREDENTIALS_DIRECTORY", h.folder)
	h.want("not handed over", h.opens(text), "systemd did not give the credential hsm to this service")
	h.write("credentials_hsm", 0o400, "1234")
	h.want("of a folder", h.opens(text), "")
	h.write("hsm", 0o400, "8888")
	h.want("wrong", h.opens(text), "put the right PIN into the credential hsm, and remove "+notePath(h.file(), stored(t, text).Token))
	h.write("hsm", 0o400, "1234")
	h.want("after a restart", h.opens(text), "no PIN was sent")
	if err := os.Remove(notePath(h.file(), stored(t, text).Token)); err != nil {
		t.Fatal(err)
	}
	h.want("mended", h.opens(text), "")
}

// What is wrong on the host is said, and no PIN is sent.
func TestHostsThatAreWrong(t *testing.T) {
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	good := *h
	for name, c := range map[string]struct {
		spoil func()
		want  string
	}{
		"no token": {func() {
			h.lines = []string{"environment: SOFTHSM2_CONF=" + h.write("empty.conf", 0o600, "directories.tokendir = "+t.TempDir()+"\n")}
		}, "the token is not there (the module sees none): plug it in"},
		"no module":        {func() { h.module = "/nonexistent/m.so" }, "names /nonexistent/m.so, which is not there: install it, or correct the path"},
		"no program":       {func() { h.runs = "/nonexistent/p" }, "names /nonexistent/p, which is not there"},
		"not a library":    {func() { h.module = h.write("m.so", 0o644, "text") }, "m.so cannot be loaded: "},
		"another library":  {func() { h.module = libm(t) }, "is not a PKCS#11 module"},
		"module of others": {func() { h.module = h.write("m.so", 0o644, ""); chmod(t, h.module, 0o666) }, "others than root could change what runs here, and what gets the PIN"},
		"PIN of others":    {func() { chmod(t, h.PIN, 0o440) }, "others can read"},
		"no PIN":           {func() { h.pin("") }, "token.pin is empty"},
		"relative module":  {func() { h.module = "m.so" }, "pkcs11.conf:2: the path does not begin with"},
		"odd line":         {func() { h.lines = []string{"slot: 1"} }, "pkcs11.conf:1: is none of the lines that belong here"},
		"odd variable":     {func() { h.lines = []string{"environment: X"} }, "is not a variable: write NAME=VALUE"},
		"no module line":   {func() { h.lines, h.module = []string{"# "}, "" }, "the path does not begin"},
	} {
		*h = good
		h.pin("1234")
		c.spoil()
		h.want(name, h.opens(text), c.want)
	}
	*h = good
	h.pin("1234")
	h.want("mended", h.opens(text), "")
	if err := os.Remove(h.settings()); err != nil {
		t.Fatal(err)
	}
	if _, err := Unseal(text, Identity, h.file()); err == nil || !strings.Contains(err.Error(), "there is no file "+h.folder+"/pkcs11.conf: make it as root") {
		t.Errorf("without settings: %v", err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// libm is a library that every host has.
func libm(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/lib/*-linux-gnu/libm.so.6")
	if err != nil || len(all) == 0 {
		t.Fatalf("found %q, %v", all, err)
	}
	return all[0]
}

// While another process sends a PIN, nobody else does. Where a refused PIN could not be noted, none is sent.
func TestNotes(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	n, err := openNote(t.Context(), h.file(), stored(t, text).Token)
	if err != nil {
		t.Fatal(err)
	}
	patience = time.Second
	h.want("locked", h.opens(text), "another process has kept "+n.path+" locked for 1s")
	n.close()
	patience = 20 * time.Second
	h.want("free", h.opens(text), "")
	if _, err := Unseal(text, Identity, filepath.Join(h.folder, "none", "secrets.key")); err == nil || !strings.Contains(err.Error(), "no PIN was sent, because the note that it was refused could not be kept") {
		t.Errorf("without a place for notes: %v", err)
	}
	for name, link := range map[string]func(from, to string) error{"a link": os.Symlink, "another name": os.Link} {
		if err := errors.Join(os.Remove(n.path), link(h.PIN, n.path)); err != nil {
			t.Fatal(err)
		}
		h.want(name, h.opens(text), "no PIN was sent, because the note")
		if b, err := os.ReadFile(h.PIN); err != nil || string(b) != "1234\n" {
			t.Errorf("the file behind %s is %q, %v", name, b, err)
		}
	}
}

// A sealed file that is there never looks like one that is missing, whatever else is: a caller would make another key.
func TestMissingPINIsNoMissingFile(t *testing.T) {
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	if err := os.Remove(h.PIN); err != nil {
		t.Fatal(err)
	}
	_, err := Unseal(text, Identity, h.file())
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), h.PIN) {
		t.Errorf("without the file of the PIN: %v", err)
	}
}

// What opens the secret is in no memory of the process afterwards.
func TestAnswerLeavesNoCopy(t *testing.T) {
	h := newHost(t)
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.runs, h.module = me, libm(t)
	hidden := make([]byte, 44) // the text of the secret, inverted: nothing here has it itself
	rand.Read(hidden)
	answer := append(make([]byte, 0, 64), `{"secret":"`...)
	for i := range hidden {
		c := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"[hidden[i]%64]
		hidden[i] = ^c
		answer = append(answer, c)
	}
	path := filepath.Join(h.folder, "answer")
	answer = append(answer, "\"}\n"...)
	if err := os.WriteFile(path, answer, 0o600); err != nil {
		t.Fatal(err)
	}
	clear(answer[:cap(answer)])
	h.lines = []string{"environment: HOSTILE=" + tookPIN + "file " + path, "environment: HEARD=" + filepath.Join(h.folder, "heard")}
	h.want("opened", h.opens(sealedToNothing(t, h.settings())), "the sealed secret is damaged, or the key")
	if n := inMemory(t, hidden); n > 0 {
		t.Errorf("%d copies are left", n)
	}
	shown := make([]byte, len(hidden))
	for i := range hidden {
		shown[i] = ^hidden[i]
	}
	if n := inMemory(t, hidden); n == 0 {
		t.Error("the search finds nothing")
	}
	runtime.KeepAlive(shown)
}

// inMemory counts an inverted text in the memory of this process.
func inMemory(t *testing.T, inverted []byte) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	part := make([]byte, 1<<20)
	defer clear(part)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x rw", &from, &to); err != nil {
			continue
		}
		for at := from; at < to; at += int64(len(part)) {
			got, _ := mem.ReadAt(part[:min(int64(len(part)), to-at)], at) // what is not there has nothing
			for i := range part[:got] {
				part[i] = ^part[i]
			}
			n += bytes.Count(part[:got], inverted)
			clear(part)
		}
	}
	return n
}
