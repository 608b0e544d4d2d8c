package derived_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// countingRoot is the root key of the bytes 0 to 31.
func countingRoot() []byte {
	root := make([]byte, 32)
	for i := range root {
		root[i] = byte(i)
	}
	return root
}

func load(t *testing.T, root []byte) *sitekey.Key {
	t.Helper()
	path := filepath.Join(t.TempDir(), "site.key")
	if err := os.WriteFile(path, []byte("slipway site key v1\n"+base64.StdEncoding.EncodeToString(root)+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	key, err := sitekey.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const machine = "4c4c4544-0051-4810-8057-b4c04f4a4e33"

func password(t *testing.T, root derived.Root, of derived.Of, f derived.Form) string {
	t.Helper()
	v, err := derived.Password(root, of, f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := v.Password()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func form(t *testing.T, vendor string, length int) derived.Form {
	t.Helper()
	f, err := derived.FormOf(vendor)
	if err != nil {
		t.Fatal(err)
	}
	if length > 0 {
		f.Length = length
	}
	return f
}

// The passwords of the root key 00 01 … 1f, as a program in Python gave them that was
// written from the description alone (HKDF by hmac and hashlib).
var vectors = []struct {
	site, purpose, machine string
	epoch, length          int
	want                   string
}{
	{"fra", "bmc account slipway", "4C4C4544-0051-4810-8057-B4C04F4A4E33", 1, 20, "Hy8mGItAjy_dAydo5jmt"},
	{"fra", "bmc account slipway", "4c4c4544-0051-4810-8057-b4c04f4a4e33", 2, 20, "QPmEM=klY5yQ178kmMFn"},
	{"fra", "bmc account root", "4c4c4544-0051-4810-8057-b4c04f4a4e33", 1, 20, "JDW2DQctD98X=386QjpJ"},
	{"muc", "bmc account slipway", "4c4c4544-0051-4810-8057-b4c04f4a4e33", 1, 20, "9_Ex9G=Y8=ePvpYmi87e"},
	{"fra", "bmc account slipway", "4c4c4544-0051-4810-8057-b4c04f4a4e34", 1, 20, "iiS7wdGGE-UwX3VeYtKA"},
	{"fra", "bmc account slipway", "4c4c4544-0051-4810-8057-b4c04f4a4e33", 1, 16, "hEU--2PUf6of0PmG"},
	{"fra", "bmc account slipway", "4c4c4544-0051-4810-8057-b4c04f4a4e33", 70000, 20, "PPYHe6Hrl=HgNb9MB1VT"},
}

// A password never changes for as long as its key, purpose, machine and epoch do not:
// what these say has to stay in every later release.
func TestKnownPasswords(t *testing.T) {
	key := load(t, countingRoot())
	for _, v := range vectors {
		of := derived.Of{Site: v.site, Purpose: v.purpose, Machine: v.machine, Epoch: v.epoch}
		f := form(t, "", v.length)
		got := password(t, key, of, f)
		if own := ownPassword(countingRoot(), of, f); got != v.want || own != v.want {
			t.Errorf("%+v: got %q, and %q by the test's own implementation", v, got, own)
		}
	}
}

// ownPassword is an implementation of its own: HKDF written out (RFC 5869), and the
// password found by trying runs of the fair bytes.
func ownPassword(root []byte, of derived.Of, f derived.Form) string {
	mac := func(key []byte, parts ...[]byte) []byte {
		h := hmac.New(sha256.New, key)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	info := []byte("slipway derive v1\x00password v1")
	for _, part := range append([]string{of.Site, of.Purpose, strings.ToLower(of.Machine)}, f.Classes...) {
		info = append(binary.BigEndian.AppendUint32(info, uint32(len(part))), part...)
	}
	info = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(info, uint32(of.Epoch)), uint32(f.Length))
	key, block, stream := mac(make([]byte, 32), root), []byte{}, []byte{}
	for i := byte(1); len(stream) < 255*32; i++ {
		block = mac(key, block, info, []byte{i})
		if stream = append(stream, block...); i == 255 {
			break
		}
	}
	alphabet := strings.Join(f.Classes, "")
	var fair []byte
	for _, b := range stream {
		if int(b) < len(alphabet)*(256/len(alphabet)) {
			fair = append(fair, alphabet[int(b)%len(alphabet)])
		}
	}
	for run := range slices.Chunk(fair, f.Length) {
		if !slices.ContainsFunc(f.Classes, func(c string) bool { return !strings.ContainsAny(string(run), c) }) {
			return string(run)
		}
	}
	return ""
}

// Passwords of many machines have the form of each vendor, none is another one's, and
// all characters come about equally often.
func TestFormsOfVendors(t *testing.T) {
	key := load(t, countingRoot())
	lengths := map[string]int{"": 20, "dell": 20, "hpe": 20, "lenovo": 20, "supermicro": 20, "ami": 20, "openbmc": 20, "ipmi-1.5": 16}
	for _, vendor := range append(derived.Vendors(), "") {
		f := form(t, vendor, 0)
		if f.Length != lengths[vendor] {
			t.Errorf("%s: passwords have %d characters", vendor, f.Length)
		}
	}
	if f := form(t, "", 0); !slices.Equal(f.Classes, form(t, "hpe", 0).Classes) {
		t.Error("vendors differ in their classes")
	}
	f, seen, times := form(t, "", 0), map[string]bool{}, map[rune]int{}
	const machines = 500
	for i := range machines {
		of := derived.Of{Site: "fra", Purpose: "p", Machine: "4c4c4544-0051-4810-8057-" + strings.Repeat("0", 12-3) + string("0123456789"[i/100]) + string("0123456789"[i/10%10]) + string("0123456789"[i%10]), Epoch: 1}
		p := password(t, key, of, f)
		if seen[p] || len(p) != 20 {
			t.Fatalf("machine %d: %q", i, p)
		}
		seen[p] = true
		for _, class := range f.Classes {
			if !strings.ContainsAny(p, class) {
				t.Errorf("%q has none of %q", p, class)
			}
		}
		for _, c := range p {
			times[c]++
		}
	}
	for _, c := range strings.Join(f.Classes, "") {
		if expected := machines * 20 / 66; times[c] < expected/2 || times[c] > expected*2 {
			t.Errorf("%q comes %d times, about %d are expected", c, times[c], expected)
		}
	}
}

func TestAnotherRootKeyGivesAnotherPassword(t *testing.T) {
	other := countingRoot()
	other[31] ^= 1
	of, f := derived.Of{Site: "fra", Purpose: "p", Machine: machine, Epoch: 1}, form(t, "", 0)
	if password(t, load(t, countingRoot()), of, f) == password(t, load(t, other), of, f) {
		t.Error("two root keys give one password")
	}
}

func TestWhatIsRefused(t *testing.T) {
	key, good := load(t, countingRoot()), derived.Of{Site: "fra", Purpose: "p", Machine: machine, Epoch: 1}
	with := func(change func(*derived.Of)) derived.Of { of := good; change(&of); return of }
	classes := form(t, "", 0).Classes
	for name, c := range map[string]struct {
		of   derived.Of
		form derived.Form
		want string
	}{
		"no site":        {with(func(o *derived.Of) { o.Site = "" }), form(t, "", 0), "needs a site and a purpose"},
		"no purpose":     {with(func(o *derived.Of) { o.Purpose = "" }), form(t, "", 0), "needs a site and a purpose"},
		"no machine":     {with(func(o *derived.Of) { o.Machine = "" }), form(t, "", 0), "not the UUID of a machine"},
		"a serial":       {with(func(o *derived.Of) { o.Machine = "ABC1234" }), form(t, "", 0), "not the UUID of a machine"},
		"zeros":          {with(func(o *derived.Of) { o.Machine = "00000000-0000-0000-0000-000000000000" }), form(t, "", 0), "that have no UUID"},
		"ones":           {with(func(o *derived.Of) { o.Machine = "FFFFFFFF-ffff-ffff-ffff-ffffffffffff" }), form(t, "", 0), "that have no UUID"},
		"AMI's":          {with(func(o *derived.Of) { o.Machine = "03000200-0400-0500-0006-000700080009" }), form(t, "", 0), "that have no UUID"},
		"AMI's, turned":  {with(func(o *derived.Of) { o.Machine = "00020003-0004-0005-0006-000700080009" }), form(t, "", 0), "that have no UUID"},
		"a board's":      {with(func(o *derived.Of) { o.Machine = "12345678-1234-5678-90AB-CDDEEFAABBCC" }), form(t, "", 0), "that have no UUID"},
		"epoch 0":        {with(func(o *derived.Of) { o.Epoch = 0 }), form(t, "", 0), "from 1 to 1000000"},
		"a huge epoch":   {with(func(o *derived.Of) { o.Epoch = 1<<32 + 1 }), form(t, "", 0), "from 1 to 1000000"},
		"short":          {good, derived.Form{Name: "f", Length: 3, Classes: classes}, "3 characters cannot be of 4 classes"},
		"weak":           {good, derived.Form{Name: "f", Length: 8, Classes: classes}, "could be guessed"},
		"long":           {good, derived.Form{Name: "f", Length: 200, Classes: classes}, "at most 128"},
		"no classes":     {good, derived.Form{Name: "f", Length: 20}, "has no characters"},
		"an empty class": {good, derived.Form{Name: "f", Length: 20, Classes: []string{"abc", ""}}, "has no characters"},
		"twice":          {good, derived.Form{Name: "f", Length: 20, Classes: []string{"abc", "cde"}}, "stands in it twice"},
		"a space":        {good, derived.Form{Name: "f", Length: 20, Classes: []string{"abc "}}, "is not one that can be typed"},
	} {
		v, err := derived.Password(key, c.of, c.form)
		if err == nil || !strings.Contains(err.Error(), c.want) || !v.IsZero() {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, err := derived.FormOf("acme"); err == nil || !strings.Contains(err.Error(), "dell, hpe") {
		t.Errorf("an unknown vendor: got %v", err)
	}
	for _, c := range []struct {
		least, most, length int
		want                string
	}{{0, 0, 20, ""}, {8, 0, 20, ""}, {24, 0, 24, ""}, {0, 16, 16, ""}, {16, 12, 0, "at least 16 and at most 12"}, {0, 8, 0, "could be guessed"}, {200, 0, 0, "at most 128"}} {
		f, err := form(t, "", 0).Within(c.least, c.most)
		if (err != nil) != (c.want != "") || err == nil && f.Length != c.length || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("within %d and %d: got %d, %v", c.least, c.most, f.Length, err)
		}
	}
}
