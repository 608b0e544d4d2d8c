package site_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"ab", 1, "…"}, {"\xff\xff\xff", 2, "\xff…"},
	} {
		if got := site.Shorten(c.text, c.most); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"plain text, 3 of 4":                "plain text, 3 of 4",
		"Größe ☃ 漢字 שלום مرحبا":             "Größe ☃ 漢字 שלום مرحبا",
		"e\u0301 \u0939\u093f":              "e\u0301 \u0939\u093f",
		"\x1b[31mred\x1b[0m":                `\u001b[31mred\u001b[0m`,
		"\x1b]0;title\a":                    `\u001b]0;title\u0007`,
		"\u009b2J\u009d0;x\u009c":           `\u009b2J\u009d0;x\u009c`,
		"a\x7f\bb\x00":                      `a\u007f\u0008b\u0000`,
		"\u202eabc\u202c \u2066x\u2069":     `\u202eabc\u202c \u2066x\u2069`,
		"\u200e\u200f\u061c":                `\u200e\u200f\u061c`,
		"a\u200bb\u200c\u200d\ufeff\u00ad":  `a\u200bb\u200c\u200d\ufeff\u00ad`,
		"\u2060\u3164\uffa0\u115f\u034f":    `\u2060\u3164\uffa0\u115f\u034f`,
		"\u2028x\u2029y\u0085z":             " x y z",
		"one\r\n\ttwo\n":                    "one two ",
		"a\u00a0b\u3000c\u2003d":            "a b c d",
		"\U000e0041\U000e0001":              `\udb40\udc41\udb40\udc01`,
		"\ue000 \ufff9":                     `\ue000 \ufff9`,
		"⚠\ufe0f x\ufe0f":                   `⚠ x\ufe0f`,
		"bad \xff\xfe byte":                 `bad \u00ff\u00fe byte`,
		"z\u0301\u0302\u0303\u0304\u0305":   "z\u0301\u0302\u0303\u0304" + `\u0305`,
		"\u2800":                            `\u2800`,
		strings.Repeat("x", 10) + "\u202ey": strings.Repeat("x", 10) + `\u202ey`,
	} {
		if got := site.Printable(text); got != want {
			t.Errorf("%+q: got %+q, want %+q", text, got, want)
		}
	}
	if got, want := site.PrintableLines("a\tb\nc\x1bd\r\n"), "a\tb\nc\\u001bd \n"; got != want {
		t.Errorf("lines: got %q, want %q", got, want)
	}
}

// FuzzPrintable holds that nothing is left that cannot be seen, that it is done once, and that JSON stays the JSON that
// it was.
func FuzzPrintable(f *testing.F) {
	for _, text := range []string{"", "a\x1b[0m\u202e\U000e0001\n\t\xff", "⚠\ufe0f\u200d", "\"\\u0041", "e\u0301\u0301\u0301\u0301\u0301\u0301"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, shown := range []string{site.Printable(text), strings.NewReplacer("\n", "", "\t", "").Replace(site.PrintableLines(text))} {
			for _, r := range shown {
				if !unicode.IsPrint(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
					t.Errorf("%q is shown with %U", text, r)
				}
			}
			if again := site.Printable(shown); again != shown {
				t.Errorf("%q is changed again to %q", shown, again)
			}
		}
		encoded, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]string
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(site.PrintableJSON(encoded), &got); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
		for _, r := range string(site.PrintableJSON(encoded)) {
			if !unicode.IsPrint(r) {
				t.Errorf("the JSON of %q has %U", text, r)
			}
		}
	})
}
