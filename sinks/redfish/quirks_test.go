package redfish

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages on quirks and the tests of quirks are of the same.
func TestQuirksAreDocumentedAndTested(t *testing.T) {
	read := func(pattern string) (text string) {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		}
		return text
	}
	tests, pages := read("*_test.go"), read("../../docs/redfish.md")+read("../../docs/bios.md")
	for _, name := range regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(pages, -1) {
		if !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("the pages name %s, which there is not", name)
		}
	}
	for _, f := range regexp.MustCompile(`func (TestQuirk[A-Z]\w+)`).FindAllStringSubmatch(tests, -1) {
		if !strings.Contains(pages, f[1]) {
			t.Errorf("no page names %s", f[1])
		}
	}
}

func TestQuirksByVendorModelAndFirmware(t *testing.T) {
	for name, c := range map[string]struct {
		of       makers
		has, not []quirk
	}{
		"idrac9":            {makers{root: "Dell", manufacturer: "Dell Inc.", model: "PowerEdge R750", firmware: "6.00.30.00"}, []quirk{serviceTag}, []quirk{slowPowerOn, patchMedia}},
		"idrac10":           {makers{root: "Dell", model: "PowerEdge R770", firmware: "1.20.25.00"}, []quirk{serviceTag, slowPowerOn, firstSlot}, nil},
		"firmware unread":   {makers{manufacturer: "Dell Inc.", model: "PowerEdge R750"}, []quirk{slowPowerOn}, nil},
		"xcc":               {makers{root: "Lenovo", model: "ThinkSystem SR670 V2"}, []quirk{patchMedia, noContinuous}, []quirk{serviceTag}},
		"ilo5":              {makers{manufacturer: "HPE", model: "ProLiant DL385 Gen10 Plus v2"}, nil, []quirk{leastOverride}},
		"dl160":             {makers{manufacturer: "Hewlett Packard Enterprise", model: "ProLiant DL160 Gen10"}, []quirk{leastOverride}, nil},
		"x10":               {makers{manufacturer: "Supermicro", model: "X10DRT-P"}, []quirk{noMode}, []quirk{plainInsert}},
		"BMC of another":    {makers{root: "AMI", manufacturer: "NVIDIA", model: "DGXH100"}, []quirk{fullOverride}, []quirk{staleInserted}},
		"unknown, careful":  {makers{manufacturer: "Acme"}, careful, []quirk{patchMedia}},
		"nothing, careful":  {makers{}, careful, nil},
		"a vendor's prefix": {makers{manufacturer: "Undella"}, careful, []quirk{serviceTag}},
	} {
		t.Run(name, func(t *testing.T) {
			var h habits
			h.learn(c.of)
			for _, q := range c.has {
				if !h.has(q) {
					t.Errorf("has no %s", q)
				}
			}
			for _, q := range c.not {
				if h.has(q) {
					t.Errorf("has %s", q)
				}
			}
			if slices.Sort(h.fired); len(h.fired) != len(c.has) {
				t.Errorf("came up: %v, want %v", h.fired, c.has)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"iLO 5 v2.72", "2.8", 1}, {"TGBT42S 2.83 2023-07-05", "2.83", 0}, {"6.00.30.00", "6.10", -1},
		{"", "1.0", -1}, {"rev", "1.0", -1}, {"99999999999999999999.1", "1.0", 1},
	} {
		if got := compareVersions(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
