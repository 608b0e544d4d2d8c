package design

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// longestText bounds what the content of a file may come to, in bytes: a short
// template can name a long value many times.
const longestText = 1 << 20

// inTemplate is a reference in a text: {rack}, but not ${HOME}, which is the
// shell's.
var inTemplate = regexp.MustCompile(`\$?\{[A-Za-z][A-Za-z0-9._/-]*\}`)

// references are what the names in a node's design stand for.
func (sh *shared) references(n *node, found *findings) site.References {
	r := sh.site.ReferencesOf(n.effective)
	texts := map[string]string{}
	n.fill(texts, "system.", n.effective.System, n.effective.Origins, found)
	for family, system := range n.effective.Families {
		n.fill(texts, "families."+family+".", system, n.effective.Origins, found)
	}
	for name, a := range r.Actions {
		n.fill(texts, "bootActions."+name+".", site.System{Files: a.Files}, sh.site.Origins, found)
	}
	if len(texts) > 0 {
		r.Texts = texts
	}
	return r
}

// fill puts what templates come to among the texts. A rule finds what stands for
// nothing in them.
func (n *node) fill(texts map[string]string, path string, s site.System, origins *site.Origins, found *findings) {
	for name, f := range s.Files {
		if !f.Template || f.Content == nil {
			continue
		}
		at := path + "files." + name + ".content"
		text, fits := n.filled(*f.Content)
		if !fits {
			found.of(n.name, origins.Of(at), site.Finding{
				Code: "file-template", Path: at,
				Message: fmt.Sprintf("the content of %s is larger than %d bytes", name, longestText),
				Why:     "The values that it refers to are part of the design of every node, and are sent to each of them.",
				Fix:     "Refer to shorter values, or write the file as an artifact.",
			})
			continue
		}
		texts[at] = text
	}
}

// filled is a text with values in the place of references, and whether it fits.
func (n *node) filled(text string) (string, bool) {
	var to strings.Builder
	last := 0
	for _, ref := range inTemplate.FindAllStringIndex(text, -1) {
		if text[ref[0]] == '$' {
			continue
		}
		value, ok := n.value(text[ref[0]+1 : ref[1]-1])
		if !ok {
			continue
		}
		to.WriteString(text[last:ref[0]])
		to.WriteString(value)
		if last = ref[1]; to.Len() > longestText {
			return "", false
		}
	}
	to.WriteString(text[last:])
	return to.String(), to.Len() <= longestText
}

// value is what a reference stands for; a list is written with ", " between.
func (n *node) value(path string) (string, bool) {
	if path == "name" {
		return n.name, true
	}
	t := n.merged.at(path)
	if t == nil || t.value == nil {
		return "", false
	}
	list, isList := t.value.([]any)
	if !isList {
		return fmt.Sprint(t.value), true
	}
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, ", "), true
}
