// Package sops_test holds engine/sops against the real program, both ways.
package sops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/sops"
)

var update = flag.Bool("update", false, "write the files of engine/sops/testdata anew")

// program is the built sops.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "sops-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	begun := time.Now()
	if program = os.Getenv("SLIPWAY_SOPS"); program != "" { // built before
		os.Exit(m.Run())
	}
	program = filepath.Join(dir, "sops")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/getsops/sops/v3/cmd/sops").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build sops: %v\n%s", err, out)
		os.Exit(1)
	}
	fmt.Printf("sops was built in %s\n", time.Since(begun).Round(time.Second))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// someone is an identity, its file and its recipient.
type someone struct {
	file string
	id   sealed.Identity
	to   sealed.Recipient
}

func newSomeone(t *testing.T) someone {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	id, err := sealed.Create(file, sealed.Classic)
	if err != nil {
		t.Fatal(err)
	}
	return of(t, file, id)
}

func of(t *testing.T, file string, id sealed.Identity) someone {
	t.Helper()
	to, err := sealed.ParseRecipient(id.Recipients()[0], sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	return someone{file, id, to}
}

// run runs sops in a folder, with the identity of someone.
func run(t *testing.T, who someone, dir string, args ...string) []byte {
	t.Helper()
	out, err := try(who, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(who someone, dir string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"SOPS_AGE_KEY_FILE=" + who.file, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("sops %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return out, err
}

func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// document is what the files hold: a credential, and values of all kinds around it.
const document = `# for people
before:
    note: first
    list: [a, 7, 1.50, true, false, null, "", "7", "true", 2026-11-27T15:00:00Z]
    nested: {a: {b: {c: deep}}}
    more: [{x: 1, y: two}, {x: -3}]
bmc:
    # where it may be sent
    hosts: [192.0.2.0/24, bmc.example.org]
    site: fra
    use: redfish
    ports: [443, 8443]
    username: admin
    secret: |-
        pässword "x"
        with lines
after:
    empty: {}
    none: []
    large: 9007199254740993
    float: 0.000001
    yes_unencrypted: clear
    text: "colon: # and \t tab"
`

const wanted = "hosts: 192.0.2.0/24, bmc.example.org\nuse: redfish\nports: 443, 8443\nusername: admin\n\npässword \"x\"\nwith lines"

// ways are options of sops that change what is encrypted.
var ways = map[string][]string{
	"all":       nil,
	"suffix":    {"--unencrypted-suffix", "_clear"},
	"encsuffix": {"--encrypted-suffix", "secret"},
	"regex":     {"--encrypted-regex", "^(secret|hosts|use|site)$"},
	"unregex":   {"--unencrypted-regex", "^(note|x)$"},
	"maconly":   {macOnly},
}

// partly are the ways that leave a part of the credential in clear: whoever can merge could change
// that part, and it is refused.
var partly = []string{"encsuffix", "regex"}

// macOnly stands for what a flag of sops does not say.
const macOnly = "mac_only_encrypted"

// encrypt has the program encrypt a text for recipients in one of the ways.
func encrypt(t *testing.T, who someone, name string, text []byte, options []string, recipients ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	in := write(t, dir, name, text)
	all := strings.Join(recipients, ",")
	if slices.Contains(options, macOnly) {
		write(t, dir, ".sops.yaml", fmt.Appendf(nil, "creation_rules:\n  - mac_only_encrypted: true\n    age: %s\n", all))
		file := run(t, who, dir, "encrypt", in)
		if !bytes.Contains(file, []byte(macOnly)) {
			t.Fatalf("sops did not take the option:\n%s", file)
		}
		return file
	}
	return run(t, who, dir, slices.Concat([]string{"encrypt", "--age", all}, options, []string{in})...)
}

// forms are the document in each form.
func forms(t *testing.T, who someone, dir string) map[string][]byte {
	t.Helper()
	write(t, dir, "plain.yaml", []byte(document))
	// sops itself gives the same document as JSON.
	write(t, dir, "c.yaml", run(t, who, dir, "encrypt", "--age", who.to.Text, "plain.yaml"))
	return map[string][]byte{"yaml": []byte(document), "json": run(t, who, dir, "decrypt", "--output-type", "json", "c.yaml")}
}

// What the program encrypts is read, in each form and way.
func TestReadsWhatSOPSWrites(t *testing.T) {
	who, other := newSomeone(t), newSomeone(t)
	dir := t.TempDir()
	for form, text := range forms(t, who, dir) {
		for way, options := range ways {
			name := fmt.Sprintf("%s.sops.%s", way, form)
			file := encrypt(t, who, "in."+form, text, options, who.to.Text, other.to.Text)
			for i, one := range []someone{who, other} {
				got, _, err := sops.Credential(name, file, "bmc", "fra", one.id)
				switch {
				case slices.Contains(partly, way) && (err == nil || !strings.Contains(err.Error(), "stands in the file as clear text")):
					t.Errorf("%s, identity %d: got %q, %v, and a part of it is clear", name, i, got, err)
				case !slices.Contains(partly, way) && (err != nil || string(got) != wanted):
					t.Errorf("%s, identity %d: got %q, %v", name, i, got, err)
				}
			}
			f, err := sops.Parse(name, file)
			if err != nil || !slices.Equal(f.Recipients(), []string{who.to.Text, other.to.Text}) {
				t.Errorf("%s: recipients %v, %v", name, f.Recipients(), err)
			}
			if *update && (way == "all" || way == "maconly" || way == "regex") {
				keepSample(t, name, form, text, options)
			}
		}
	}
}

// keepSample keeps a file for the tests of engine/sops, whose key is with it.
func keepSample(t *testing.T, name, form string, text []byte, options []string) {
	t.Helper()
	key := "../../engine/sops/testdata/key"
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, secret, 0o400); err != nil {
		t.Fatal(err)
	}
	id, err := sealed.Load(file, sealed.Means{})
	if err != nil {
		t.Fatal(err)
	}
	who := of(t, file, id)
	out := encrypt(t, who, "in."+form, text, options, who.to.Text)
	if err := os.WriteFile("../../engine/sops/testdata/"+name, out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What Slipway writes is read by the program, and what the program makes of that by
// Slipway again.
func TestSOPSReadsWhatIsWritten(t *testing.T) {
	who, other := newSomeone(t), newSomeone(t)
	dir := t.TempDir()
	for _, form := range []string{"yaml", "json"} {
		name := "new.sops." + form
		c, err := sops.New(name, []sealed.Recipient{who.to})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.PutCredential("access.bmc", "fra", []byte(wanted)); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name, bytesOf(t, c))
		var got map[string]map[string]map[string]string
		if err := json.Unmarshal(run(t, who, dir, "decrypt", "--output-type", "json", name), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"site": "fra", "hosts": "192.0.2.0/24, bmc.example.org", "use": "redfish", "ports": "443, 8443", "username": "admin", "secret": "pässword \"x\"\nwith lines"}
		if fmt.Sprint(got["access"]["bmc"]) != fmt.Sprint(want) {
			t.Errorf("%s: sops reads %v", name, got)
		}
		// The program sets a value, adds a recipient and makes a new key.
		run(t, who, dir, "set", name, `["access"]["bmc"]["secret"]`, `"changed"`)
		run(t, who, dir, "rotate", "-i", "--add-age", other.to.Text, name)
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := sops.Credential(name, text, "access.bmc", "fra", other.id); err != nil || !strings.HasSuffix(string(got), "\n\nchanged") {
			t.Errorf("%s after sops changed it: got %q, %v", name, got, err)
		}
	}
}

func bytesOf(t *testing.T, c *sops.Content) []byte {
	t.Helper()
	f, err := c.File(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A file of the program in which Slipway sets a credential, or changes the recipients,
// is still one, with all other values as they were.
func TestSOPSReadsWhatIsChanged(t *testing.T) {
	who, other := newSomeone(t), newSomeone(t)
	dir := t.TempDir()
	for form, text := range forms(t, who, dir) {
		for way, options := range ways {
			if way == "encsuffix" || way == "regex" {
				continue // the header of a new credential would be in clear text
			}
			name := fmt.Sprintf("%s.sops.%s", way, form)
			file := encrypt(t, who, "in."+form, text, options, who.to.Text)
			f, err := sops.Parse(name, file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := f.Open(who.id)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := c.PutCredential("os", "fra", []byte("hosts: h\nuse: ssh\n\nnew")); err != nil {
				t.Fatal(err)
			}
			if f, err = c.File(time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := f.Rekey(who.id, []sealed.Recipient{other.to}); err != nil {
				t.Fatal(err)
			}
			changed, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, name, changed)
			var before, after map[string]any
			write(t, dir, "before.sops."+form, file)
			err = errors.Join(json.Unmarshal(run(t, who, dir, "decrypt", "--output-type", "json", "before.sops."+form), &before),
				json.Unmarshal(run(t, other, dir, "decrypt", "--output-type", "json", name), &after))
			if err != nil {
				t.Fatal(err)
			}
			if set := fmt.Sprint(after["os"]); set != "map[hosts:h secret:new site:fra use:ssh]" {
				t.Errorf("%s: what was set is %s", name, set)
			}
			delete(after, "os")
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("%s: other values changed:\n%v\n%v", name, before, after)
			}
			if _, err := try(who, dir, "decrypt", name); err == nil {
				t.Errorf("%s: the former recipient still opens it", name)
			}
		}
	}
}

// Random documents are read as the program reads them: the same digest over the same
// values in the same order.
func TestRandomDocuments(t *testing.T) {
	who, dir := newSomeone(t), t.TempDir()
	seed := uint64(time.Now().UnixNano())
	dice := rand.New(rand.NewPCG(seed, 1))
	for i := range 60 {
		doc := map[string]any{"bmc": map[string]any{"site": "fra", "hosts": "h", "use": "ssh", "secret": fmt.Sprint("s", i)}, "rest": value(dice, 0)}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{"json", "yaml"} {
			in := write(t, dir, "in.json", text)
			file, err := try(who, dir, "encrypt", "--age", who.to.Text, "--output-type", form, in)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			got, _, err := sops.Credential("x.sops."+form, file, "bmc", "fra", who.id)
			if err != nil || string(got) != fmt.Sprint("hosts: h\nuse: ssh\n\ns", i) {
				t.Errorf("seed %d, document %d as %s: got %q, %v\n%s", seed, i, form, got, err, text)
			}
			f, err := sops.Parse("x.sops."+form, file)
			if err != nil {
				continue
			}
			again, err := f.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "again.sops."+form, again)
			write(t, dir, "first.sops."+form, file)
			if a, b := run(t, who, dir, "decrypt", "first.sops."+form), run(t, who, dir, "decrypt", "again.sops."+form); !bytes.Equal(a, b) {
				t.Errorf("seed %d, document %d as %s: written again it reads differently:\n%s\n%s", seed, i, form, a, b)
			}
		}
	}
}

// value is a random value of JSON.
func value(dice *rand.Rand, depth int) any {
	kinds := 9
	if depth > 4 {
		kinds = 7
	}
	switch dice.IntN(kinds) {
	case 0:
		return dice.IntN(2) == 0
	case 1:
		return dice.Int64() >> dice.IntN(63)
	case 2:
		return dice.NormFloat64() * 1000
	case 3:
		return nil
	case 4, 5, 6:
		return strange[dice.IntN(len(strange))]
	case 7:
		list := []any{}
		for range dice.IntN(4) {
			list = append(list, value(dice, depth+1))
		}
		return list
	}
	m := map[string]any{}
	for i := range dice.IntN(4) {
		m[fmt.Sprintf("%s%d", []string{"k", "a b", "ü", "x_unencrypted", "~", "true", "1.5", "-"}[dice.IntN(8)], i)] = value(dice, depth+1)
	}
	return m
}

var strange = []string{"", " ", "a", "true", "7", "0x1F", "1e3", "null", "~", "2026-11-27", "2026-11-27T15:00:00Z", "- a", "a: b", "# c", "ä\nb\n", "\ttab", "\"quoted\"", "'single'", "ENC[x]", "<&>", "yes", "\u2028", "a\r\nb"}

// Groups of keys are refused, with a sentence.
func TestGroupsAreRefused(t *testing.T) {
	who, other := newSomeone(t), newSomeone(t)
	dir := t.TempDir()
	write(t, dir, ".sops.yaml", fmt.Appendf(nil, "creation_rules:\n  - shamir_threshold: 2\n    key_groups:\n      - age: [%s]\n      - age: [%s]\n", who.to.Text, other.to.Text))
	in := write(t, dir, "in.yaml", []byte(document))
	file := run(t, who, dir, "encrypt", in)
	if _, err := sops.Parse("in.sops.yaml", file); err == nil || !strings.Contains(err.Error(), "groups of keys") {
		t.Errorf("got %v", err)
	}
}

// What the program refuses as changed is refused.
func TestChangesAreNoticedByBoth(t *testing.T) {
	who, dir := newSomeone(t), t.TempDir()
	in := write(t, dir, "in.yaml", []byte(document))
	file := run(t, who, dir, "encrypt", "--age", who.to.Text, in)
	lines := bytes.Split(file, []byte("\n"))
	end := slices.IndexFunc(lines, func(l []byte) bool { return bytes.HasPrefix(l, []byte("sops:")) })
	for i := range end {
		if bytes.HasPrefix(bytes.TrimSpace(lines[i]), []byte("#")) || !bytes.Contains(lines[i], []byte("ENC[")) {
			continue
		}
		changed := bytes.Join(slices.Concat(lines[:i], lines[i+1:]), []byte("\n"))
		name := write(t, dir, "changed.sops.yaml", changed)
		_, theirs := try(who, dir, "decrypt", name)
		_, _, ours := sops.Credential(name, changed, "bmc", "fra", who.id)
		if theirs == nil || ours == nil {
			t.Errorf("without the line %s: sops says %v, Slipway %v", lines[i], theirs, ours)
		}
	}
}
