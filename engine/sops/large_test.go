package sops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/sops"
)

// largest are files of the largest size that is read, which would take long without bounds, and what
// is said of them.
func largest() map[string]large {
	const most = sealed.MostFile
	fill := func(before, each, behind string) string {
		return before + strings.Repeat(each, (most-len(before)-len(behind))/len(each)) + behind
	}
	meta := `sops: {age: [{recipient: x, enc: y}], mac: z, lastmodified: "2026-11-27T15:00:00Z"`
	var keys, texts strings.Builder
	for i := 0; keys.Len() < most-2000; i++ {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
		fmt.Fprintf(&texts, "k%d: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", i)
	}
	return map[string]large{
		"numbers of JSON":     {"a.sops.json", fill(`{"a":[0`, ",0", "]}")},
		"lists of JSON":       {"a.sops.json", fill(`{"a":[[]`, ",[]", "]}")},
		"deep JSON":           {"a.sops.json", fill(`{"a":`, "[", "")},
		"lines of JSON":       {"a.sops.json", fill(`{"a":[0`, "\n,0", "]}")},
		"flow of YAML":        {"a.sops.yaml", fill("a: ", "[", "")},
		"maps of YAML":        {"a.sops.yaml", fill("a: ", "{", "")},
		"flow of pairs":       {"a.sops.yaml", fill("a: [", "a: 1,", "]")},
		"blocks of YAML":      {"a.sops.yaml", fill("a:\n", "- ", "")},
		"questions":           {"a.sops.yaml", fill("", "? ", "")},
		"lists of YAML":       {"a.sops.yaml", fill("a: [[]", ",[]", "]")},
		"keys of YAML":        {"a.sops.yaml", keys.String() + meta + "}\n"},
		"quotes":              {"a.sops.yaml", fill("a: '", "''", "'")},
		"anchors":             {"a.sops.yaml", fill("a: &a [1]\nb: [*a", ",*a", "]")},
		"tags":                {"a.sops.yaml", fill("a: ", "!a ", "")},
		"documents":           {"a.sops.yaml", fill("a: 1\n", "---\n", "")},
		"a large rule":        {"a.sops.yaml", texts.String()[:strings.LastIndexByte(texts.String()[:70000], '\n')] + "\n" + meta + `, unencrypted_regex: "((((a{10}){10}){10}){10}){10}"}` + "\n"},
		"a long rule":         {"a.sops.yaml", texts.String()[:strings.LastIndexByte(texts.String()[:70000], '\n')] + "\n" + meta + `, unencrypted_regex: "` + strings.Repeat("(a|b)*", 30000) + "\"}\n"},
		"comments":            {"a.sops.yaml", fill("a: 1\n", "#\n", "")},
		"a key of JSON twice": {"a.sops.json", fill(`{`, `"a":0,`, `"b":0}`)},
	}
}

type large struct{ file, text string }

// Each is refused for what makes it take long, by a bound or by its form.
func TestLargeFilesAreRefused(t *testing.T) {
	for name, c := range largest() {
		_, err := sops.Parse(c.file, []byte(c.text))
		if err == nil || !slices.ContainsFunc([]string{"more than 10000 values", "more than 1000 characters", "is not JSON", "is not YAML", "several documents", "anchor or alias", "cannot be read", `no key "sops"`},
			func(why string) bool { return strings.Contains(err.Error(), why) }) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkLargeFiles(b *testing.B) {
	for name, c := range largest() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = sops.Parse(c.file, []byte(c.text))
			}
		})
	}
}
