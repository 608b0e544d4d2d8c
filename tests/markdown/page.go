package markdown

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	dom "golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

var github = goldmark.New(
	goldmark.WithExtensions(extension.GFM, extension.Footnote),
	goldmark.WithRendererOptions(html.WithUnsafe(), html.WithHardWraps()),
)

// Page is a comment as its readers see it.
type Page struct {
	root *dom.Node
	// Taken are the elements and attributes that GitHub takes out.
	Taken []string
	// Hidden are the HTML comments, which no reader sees.
	Hidden []string
}

// Render makes the page of a comment.
func Render(text string) *Page {
	var b bytes.Buffer
	if err := github.Convert([]byte(text), &b); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	p := &Page{root: &dom.Node{Type: dom.ElementNode, DataAtom: atom.Div, Data: "div"}}
	nodes, err := dom.ParseFragment(&b, p.root)
	if err != nil {
		panic(err) // nor does reading it fail
	}
	for _, n := range nodes {
		p.root.AppendChild(n)
	}
	p.sanitize(p.root)
	return p
}

// kept are the elements that GitHub lets through.
var kept = strings.Fields(`h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p picture ol ul
	table thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt rp li tr td th s strike summary details caption figure
	figcaption abbr bdo cite dfn mark small source span time wbr`)

// keptAttributes are those that a comment may have.
var keptAttributes = strings.Fields("href src alt title align open start")

func (p *Page) sanitize(n *dom.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case c.Type == dom.CommentNode:
			p.Hidden = append(p.Hidden, c.Data)
			n.RemoveChild(c)
		case c.Type == dom.ElementNode && !slices.Contains(kept, c.Data):
			p.Taken = append(p.Taken, c.Data)
			n.RemoveChild(c)
		default:
			p.sanitizeAttributes(c)
			p.sanitize(c)
		}
		c = next
	}
}

func (p *Page) sanitizeAttributes(n *dom.Node) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a dom.Attribute) bool {
		keep := slices.Contains(keptAttributes, a.Key) && !strings.HasPrefix(strings.ToLower(a.Val), "javascript:")
		if !keep {
			p.Taken = append(p.Taken, n.Data+" "+a.Key)
		}
		return !keep
	})
}

// HTML is the page without anything around it.
func (p *Page) HTML() string {
	var b strings.Builder
	for c := range p.root.ChildNodes() {
		if err := dom.Render(&b, c); err != nil {
			panic(err) // a strings.Builder takes everything
		}
	}
	return b.String()
}

// Outline is the page's elements, without their text: "p(br code)ul(li(strong))".
func (p *Page) Outline() string { return outline(p.root) }

func outline(n *dom.Node) string {
	var parts []string
	for c := range n.ChildNodes() {
		if c.Type != dom.ElementNode {
			continue
		}
		part := c.Data
		if within := outline(c); within != "" {
			part += "(" + within + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// Links are the addresses to which the page leads, or from which it takes
// pictures.
func (p *Page) Links() (all []string) {
	for n := range p.root.Descendants() {
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" {
				all = append(all, a.Val)
			}
		}
	}
	return all
}

// Text is what the elements of a name say, each with what is in it.
func (p *Page) Text(element string) (all []string) {
	for n := range p.root.Descendants() {
		if n.Type == dom.ElementNode && n.Data == element {
			all = append(all, textOf(n))
		}
	}
	return all
}

func textOf(n *dom.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == dom.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// Tables are how many cells each row of each table has.
func (p *Page) Tables() (tables [][]int) {
	for n := range p.root.Descendants() {
		switch n.Data {
		case "table":
			tables = append(tables, nil)
		case "tr":
			count := 0
			for c := range n.ChildNodes() {
				if c.Type == dom.ElementNode {
					count++
				}
			}
			last := len(tables) - 1
			tables[last] = append(tables[last], count)
		}
	}
	return tables
}

// Found is what GitHub makes something of in the text, which is not in code or
// a link: whom it pings, and what it links or shows as a picture.
func (p *Page) Found() (all []string) {
	for n := range p.root.Descendants() {
		if n.Type == dom.TextNode && !within(n, "code", "pre", "a", "tt", "kbd", "samp") {
			all = append(all, found(n.Data)...)
		}
	}
	return all
}

func within(n *dom.Node, names ...string) bool {
	for a := range n.Ancestors() {
		if slices.Contains(names, a.Data) {
			return true
		}
	}
	return false
}

func found(text string) (all []string) {
	for _, x := range signs {
		for _, m := range x.what.FindAllStringSubmatch(text, -1) {
			all = append(all, fmt.Sprintf("%s %s", x.kind, m[1]))
		}
	}
	return all
}
