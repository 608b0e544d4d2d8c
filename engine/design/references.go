package design

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// longestText limits the filled content of a file, in bytes. A short template
// can refer to a long value many times.
const longestText = 1 << 20

// inTemplate matches a reference in a text: {rack}, but not ${HOME}, which
// belongs to the shell.
var inTemplate = regexp.MustCompile(`\$?\{[A-Za-z][A-Za-z0-9._/-]*\}`)

// references resolves the names in a node's design.
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

// fill adds the filled templates to the texts. A rule reports references
// without a value.
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

// filled returns a text with its references replaced by values, and whether it
// fits.
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

// value returns the value of a reference; a list is joined with ", ".
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
