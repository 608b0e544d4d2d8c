package markdown

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What GitHub does with some texts, as its documentation says.
func TestRender(t *testing.T) {
	for text, want := range map[string]struct{ outline, html string }{
		"one\ntwo":             {"p(br)", "<p>one<br/>\ntwo</p>\n"},
		"- **a**: `b`":         {"ul(li(strong code))", "<ul>\n<li><strong>a</strong>: <code>b</code></li>\n</ul>\n"},
		"|a|\n|-|\n|b&#124;c|": {"table(thead(tr(th)) tbody(tr(td)))", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>b|c</td>\n</tr>\n</tbody>\n</table>\n"},
		"<details><summary>s</summary>\n\n- x\n\n</details>": {"details(summary ul(li))", "<details><summary>s</summary>\n<ul>\n<li>x</li>\n</ul>\n</details>"},
		"~~x~~ www.example.org":                              {"p(del a)", "<p><del>x</del> <a href=\"http://www.example.org\">www.example.org</a></p>\n"},
	} {
		p := Render(text)
		if d := cmp.Diff(want.outline, p.Outline()); d != "" {
			t.Errorf("%q: outline (-want +got)\n%s", text, d)
		}
		if d := cmp.Diff(want.html, p.HTML()); d != "" {
			t.Errorf("%q: HTML (-want +got)\n%s", text, d)
		}
	}
}

// What is not let through, or not seen, is told; and so is what is made of text.
func TestWhatBecomesOfText(t *testing.T) {
	p := Render("<!-- mark -->\n<script>x()</script>\n\n<b onclick=\"x()\">@ann</b> acme/infra#7 GH-8 `@code` :smile: $x+y$ bob@0123456789\n\n- [ ] task\n\n[x](https://example.org/@eve) ![y](https://example.org/y.png)")
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"hidden", p.Hidden, []string{" mark "}},
		{"taken", p.Taken, []string{"script", "b onclick", "input"}},
		{"links", p.Links(), []string{"https://example.org/@eve", "https://example.org/y.png"}},
		{"found", p.Found(), []string{"mention @ann", "issue acme/infra#7", "issue GH-8", "commit bob@0123456789", "emoji :smile:", "formula $x+y$"}},
		{"code", p.Text("code"), []string{"@code"}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.what, d)
		}
	}
	if d := cmp.Diff([][]int{{2, 2}}, Render("|a|b|\n|-|-|\n|c|d|e|").Tables()); d != "" {
		t.Error(d)
	}
}
