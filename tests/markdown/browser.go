package markdown

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dom "golang.org/x/net/html"

	"github.com/slipway-gitops/slipway/tests/browser"
)

// Shown is what a browser says of a page that it has laid out.
type Shown struct {
	Outline string // as Page.Outline, by the browser's own reading
	Text    string // what is to be seen, without what is folded
	Height  int    // in pixels
	Over    int    // by how many pixels it is wider than its place
}

// Wide and Narrow are how many pixels a comment has on a desk and on a phone.
const (
	Wide   = 880
	Narrow = 360
)

// browserPatience bounds one look at pages.
const browserPatience = time.Minute

// Browser is a real one.
type Browser struct {
	t       testing.TB
	program string
	dir     string
}

// Open finds Chromium for a test.
func Open(t testing.TB) *Browser {
	t.Helper()
	return &Browser{t: t, program: browser.Program(t), dir: t.TempDir()}
}

// Show lays pages out in a width, with everything unfolded if that is asked
// for.
func (b *Browser) Show(width int, unfolded bool, pages ...*Page) []Shown {
	b.t.Helper()
	out := b.run(width, 1000, "--dump-dom", b.write(width, unfolded, pages))
	root, err := dom.Parse(bytes.NewReader(out))
	if err != nil {
		b.t.Fatal(err)
	}
	var all []Shown
	for n := range root.Descendants() {
		if n.Type == dom.ElementNode && slices.Contains(n.Attr, dom.Attribute{Key: "id", Val: "said"}) {
			if err := json.Unmarshal([]byte(textOf(n)), &all); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	if len(all) != len(pages) {
		b.t.Fatalf("the browser tells of %d pages, not of %d:\n%s", len(all), len(pages), out)
	}
	return all
}

// Shoot writes a picture of a page, as PNG.
func (b *Browser) Shoot(file string, width int, unfolded bool, p *Page) {
	b.t.Helper()
	height := b.Show(width, unfolded, p)[0].Height
	file, err := filepath.Abs(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.run(width, min(height, tallest), "--screenshot="+file, b.write(width, unfolded, []*Page{p}))
	if _, err := os.Stat(file); err != nil {
		b.t.Fatal(err)
	}
}

// tallest is how many pixels of a page are shown.
const tallest = 12_000

// frame is how much wider a window is than a comment in it.
const frame = 40

// run runs the browser without a screen, a network, and anything left behind.
func (b *Browser) run(width, height int, args ...string) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), browserPatience)
	defer cancel()
	cmd := browser.Command(ctx, b.program, b.dir, append([]string{fmt.Sprintf("--window-size=%d,%d", width+frame, height+frame)}, args...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", b.program, err, complaint.String())
	}
	return out
}

// write writes the document that shows pages, and gives its address.
func (b *Browser) write(width int, unfolded bool, pages []*Page) string {
	b.t.Helper()
	var articles []template.HTML
	for _, p := range pages {
		text := strings.ReplaceAll(p.HTML(), "<blockquote>\n<p>[!CAUTION]", "<blockquote class=\"caution\">\n<p>Caution")
		if unfolded {
			text = strings.ReplaceAll(text, "<details>", "<details open>")
		}
		articles = append(articles, template.HTML(text))
	}
	var doc bytes.Buffer
	if err := document.Execute(&doc, map[string]any{"Width": width, "Articles": articles}); err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(b.dir, "page.html")
	if err := os.WriteFile(file, doc.Bytes(), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return "file://" + file
}

// document has about the measures of GitHub's: letters of 14 pixels, tables that
// scroll in themselves, and long words that are broken. Nothing is loaded and
// no script runs but its own.
var document = template.Must(template.New("").Parse(`<!DOCTYPE html>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-own'">
<style>
body { margin: 20px; font: 14px/1.5 sans-serif; color: #1f2328; background: #fff }
article { width: {{.Width}}px; box-sizing: border-box; padding: 16px; margin-bottom: 20px; border: 1px solid #d1d9e0; border-radius: 6px; overflow-wrap: break-word }
article > * { margin: 0 0 16px }
article > :last-child { margin-bottom: 0 }
ul, ol { padding-left: 2em }
h3 { font-size: 1.25em; line-height: 1.25 }
sub { color: #59636e; font-size: 12px; vertical-align: baseline }
blockquote { padding: 0 1em; border-left: .25em solid #d1d9e0; color: #59636e }
blockquote.caution { border-color: #cf222e; color: inherit; padding: 8px 16px }
blockquote > p { margin: 0 }
a { color: #0969da }
code { padding: .2em .4em; font: 85% monospace; background: #818b981f; border-radius: 6px; white-space: break-spaces }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; text-align: left }
summary { cursor: pointer }
details > ul { margin-top: 8px }
</style>
{{range .Articles}}<article>{{.}}</article>
{{end}}<pre id="said" hidden></pre>
<script nonce="own">
const outline = n => [...n.children].map(c => c.localName + (c.children.length ? "(" + outline(c) + ")" : "")).join(" ");
document.getElementById("said").textContent = JSON.stringify([...document.querySelectorAll("article")].map(a => ({
	Outline: outline(a), Text: a.innerText, Height: a.offsetHeight, Over: a.scrollWidth - a.clientWidth,
})));
</script>
`))
