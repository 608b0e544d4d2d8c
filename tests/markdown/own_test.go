package markdown

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/present"
)

// Slipway's own page of a pull request shows what readers see on GitHub: the same text in the same order, with the same of it
// in bold, in code, in links, in lists, in tables and folded. FuzzHostileNames holds that too, whatever others write.
func TestOwnPageShowsWhatGitHubShows(t *testing.T) {
	for name, text := range comments(t) {
		sameAsGitHub(t, name, text)
	}
}

// numbers are those of a list, which GitHub's page counts by itself.
var numbers = regexp.MustCompile(`(<ul class="numbered">|</li>)<li>\d+\. `)

func sameAsGitHub(t *testing.T, name, text string) {
	t.Helper()
	_, text, _ = strings.Cut(text, "\n") // the marker, which Slipway's page does not get
	forge, own := Render(text), Render(numbers.ReplaceAllString(present.CommentHTML(text), "$1<li>"))
	seen := func(texts ...string) (all []string) {
		for _, s := range texts {
			all = append(all, strings.Join(strings.Fields(strings.NewReplacer("[!CAUTION]", "", "\u200b", "").Replace(s)), ""))
		}
		return all
	}
	if d := cmp.Diff(seen(textOf(forge.root)), seen(textOf(own.root))); d != "" {
		t.Errorf("%s: other text (-GitHub +own)\n%s", name, d)
	}
	for there, here := range map[string]string{"strong": "b", "code": "code", "a": "a", "li": "li", "th": "th", "td": "td", "summary": "summary", "details": "details", "h3": "h2", "pre": "pre"} {
		want, got := seen(forge.Text(there)...), seen(own.Text(here)...)
		if there == "code" { // blocks of code have one in GitHub's page
			want = slices.DeleteFunc(want, func(s string) bool { return slices.Contains(seen(forge.Text("pre")...), s) })
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: other <%s> (-GitHub +own)\n%s", name, there, d)
		}
	}
	if d := cmp.Diff(forge.Links(), own.Links()); d != "" {
		t.Errorf("%s: other links (-GitHub +own)\n%s", name, d)
	}
}
