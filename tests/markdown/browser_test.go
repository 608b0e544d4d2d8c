package markdown

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A browser reads a comment as we do, shows the verdict first and the details
// only to who asks for them, and has room for it, on a phone too. With
// SLIPWAY_SHOTS it leaves pictures in that folder.
func TestProveCommentsInABrowser(t *testing.T) {
	b := Open(t)
	texts := comments(t)
	maps.Copy(texts, hostile("<img src=x onerror=alert(1)>@ann", "</details>\n\n| `long` "+strings.Repeat("verylongword", 30)))
	names := slices.Sorted(maps.Keys(texts))
	var pages []*Page
	for _, name := range names {
		pages = append(pages, Render(texts[name]))
	}
	for _, width := range []int{Wide, Narrow} {
		for i, is := range b.Show(width, false, pages...) {
			p := pages[i]
			if want := p.Outline(); is.Outline != want {
				t.Errorf("%s: the browser reads\n%s\nnot\n%s", names[i], is.Outline, want)
			}
			if is.Over > 0 {
				t.Errorf("%s: on %d pixels it is %d too wide", names[i], width, is.Over)
			}
			first := p.Text("p")[0]
			if headings := p.Text("h3"); len(headings) > 0 {
				first = headings[0]
			}
			if !strings.HasPrefix(is.Text, first+"\n") && is.Text != first {
				t.Errorf("%s: it shows %q before %q", names[i], is.Text[:min(len(is.Text), 100)], first)
			}
			if strings.Contains(is.Text, "Critical path") || strings.Contains(is.Text, "differs from the design") {
				t.Errorf("%s: details are to be seen:\n%s", names[i], is.Text)
			}
		}
	}
	if folder := os.Getenv("SLIPWAY_SHOTS"); folder != "" {
		for i, p := range pages {
			b.Shoot(filepath.Join(folder, names[i]+".png"), Wide, false, p)
			b.Shoot(filepath.Join(folder, names[i]+"-unfolded.png"), Wide, true, p)
			b.Shoot(filepath.Join(folder, names[i]+"-phone.png"), Narrow, false, p)
		}
	}
}
