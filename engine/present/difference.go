package present

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Difference is how a file on some machines differs from the design. It is made for
// people who look now, and is in no record and no status.
type Difference struct {
	// Field is the field of the change: "config.files./etc/motd.content".
	Field string   `json:"field"`
	Path  string   `json:"path"`
	Nodes []string `json:"nodes"`
	// Have and Want are the digests of the contents. Have is "absent" if there is
	// no file, and "?" if nobody has looked yet.
	Have      string `json:"have"`
	Want      string `json:"want"`
	HaveBytes int64  `json:"haveBytes,omitempty"`
	WantBytes int64  `json:"wantBytes,omitempty"`
	// Text is the difference as a printable unified diff without a header. Why says
	// why there is none.
	Text string `json:"text,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Differences returns the differences of the files that a plan changes, in the order
// of the plan's text. Equal differences of several machines appear once.
func Differences(p *site.Plan, v View) []Difference {
	var all []Difference
	index := map[string]int{}
	files := newFiles(v)
	for _, g := range group(p.Nodes) {
		for _, s := range g.first.Steps {
			for _, c := range s.Changes {
				d, ok := files.difference(g.nodes, c)
				if !ok {
					continue
				}
				same := strings.Join([]string{d.Field, d.Have, d.Want, d.Text, d.Why}, "\x00")
				i, known := index[same]
				if !known {
					i = len(all)
					index[same] = i
					all = append(all, d)
				}
				for _, n := range g.nodes {
					all[i].Nodes = append(all[i].Nodes, n.Node)
				}
			}
		}
	}
	return all
}

// files caches the designed files of nodes.
type files struct {
	View
	items map[string]map[string]item.Item // by node and key
}

func newFiles(v View) *files { return &files{v, map[string]map[string]item.Item{}} }

func (f *files) of(node string, seen site.FacetState) map[string]item.Item {
	if f.Site == nil || f.Site.Nodes[node] == nil {
		return nil
	}
	all, ok := f.items[node]
	if !ok {
		all = map[string]item.Item{}
		for _, i := range seen.Resolve(f.Site.Nodes[node], site.FacetConfig).Items {
			all[i.Key] = i
		}
		f.items[node] = all
	}
	return all
}

// tried is on how many equal nodes the content of a file is looked for.
const tried = 8

// difference returns the difference of the file whose content a change affects, if
// there is one. Of equal nodes it picks the first whose difference can be shown.
func (f *files) difference(nodes []site.NodePlan, c site.Change) (first Difference, isFile bool) {
	for _, n := range nodes[:min(len(nodes), tried)] {
		d, ok := f.ofNode(n.Node, c)
		if ok && d.Text != "" {
			return d, true
		}
		if ok && !isFile {
			first, isFile = d, true
		}
	}
	return first, isFile
}

func (f *files) ofNode(node string, c site.Change) (Difference, bool) {
	key, inConfig := strings.CutPrefix(c.Field, string(site.FacetConfig)+".")
	if !inConfig || item.Kind(key) != item.KindFiles {
		return Difference{}, false
	}
	seen := f.Known.Nodes[node].Observed.Facets[site.FacetConfig]
	items := f.of(node, seen)
	i, added := items[key]
	if !added {
		key = strings.TrimSuffix(key, ".content")
		i = items[key]
	}
	want, ok := i.Content()
	if !ok || !added && c.Field != plan.FieldOf(site.FacetConfig, key+".content") {
		return Difference{}, false
	}
	d := Difference{Field: c.Field, Path: item.ID(key), Have: c.Have, Want: i.Fields["content"], WantBytes: want.Bytes}
	var have item.Content
	switch {
	case c.Have == plan.Unknown:
		have.Withheld = "Slipway has not looked at it yet"
	case c.Have != item.Absent:
		have = Present(f.Before, node, seen, key)
	}
	d.HaveBytes = have.Bytes
	d.Text, d.Why = Compared(have, want)
	return d, true
}

// Present returns the content of a machine's file now, as far as it may be shown: the
// observed content, or the content in the design in force if the machine has exactly that.
func Present(inForce *site.Site, node string, seen site.FacetState, key string) item.Content {
	digest := seen.Have[item.Name(key, "content")]
	if c, told := seen.Contents[key]; told && (c.Withheld != "" || item.Digest([]byte(c.Text)) == digest) {
		return c
	}
	switch mode := seen.Have[item.Name(key, "mode")]; {
	case seen.Seen.IsZero() || digest == "" && !slices.Contains(seen.Absent, key) && seen.Have[item.Name(key, "state")] != item.Absent:
		return item.Content{Withheld: "Slipway has not looked at it yet"}
	case digest == "":
		return item.Content{Withheld: NoFile}
	case mode == "":
		return item.Content{Withheld: "there is " + digest + " in its place"}
	case !item.IsPublic(mode):
		return item.Content{Withheld: item.NotPublic}
	}
	if inForce != nil && inForce.Nodes[node] != nil {
		for _, i := range seen.Resolve(inForce.Nodes[node], site.FacetConfig).Items {
			if c, isFile := i.Content(); isFile && i.Key == key && i.Fields["content"] == digest {
				return c
			}
		}
	}
	return item.Content{Withheld: "Slipway has not read it yet"}
}

// NoFile says that there is no file to show.
const NoFile = "there is no such file"

// Compared returns the difference of two contents as a unified diff, or why there is none.
func Compared(have, want item.Content) (text, why string) {
	switch {
	case want.Withheld == item.IsSecret && have == item.Content{}:
		return "", item.IsSecret
	case want.Withheld == item.IsSecret:
		return "", "[redacted] on the machine, [redacted] as designed: the secret differs"
	case want.Withheld != "":
		return "", "as designed, " + want.Withheld
	case have.Withheld != "":
		return "", "on the machine: " + have.Withheld
	}
	for _, c := range []item.Content{have, want} {
		if what := cleartext.In(c.Text); what != "" {
			return "", "[redacted]: it holds what looks like " + what
		}
	}
	text = string(diff.Diff("have", []byte(have.Text), "want", []byte(want.Text)))
	for range 3 { // skip the header
		_, text, _ = strings.Cut(text, "\n")
	}
	return ShownText(text), ""
}

// ShownText makes a content with lines and tabs safe to show: it hides nothing
// and does not affect a terminal.
func ShownText(text string) string {
	return site.PrintableLines(strings.NewReplacer("\r", `\r`, "\v", `\v`, "\f", `\f`).Replace(text))
}

// write writes a difference in colour.
func (d Difference) write(w io.Writer, indent string, paint Paint) {
	if d.Text == "" {
		fmt.Fprintf(w, "%s%s\n", indent, paint.with(paint.Dim, "not shown ("+d.sizes()+"): "+site.Printable(d.Why)))
		return
	}
	WriteDiff(w, d.Text, indent, paint)
}

// WriteDiff writes a unified diff in colour.
func WriteDiff(w io.Writer, text, indent string, paint Paint) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch line[:1] {
		case "+":
			line = paint.with(paint.Added, line)
		case "-":
			line = paint.with(paint.Removed, line)
		case "@", "\\":
			line = paint.with(paint.Dim, line)
		}
		fmt.Fprintln(w, indent+line)
	}
}

// sizes gives the sizes of the file, for a difference that is not shown.
func (d Difference) sizes() string {
	if d.WantBytes == 0 {
		return d.Have + " → " + d.Want
	}
	if d.HaveBytes == 0 || d.HaveBytes == d.WantBytes {
		return fmt.Sprintf("%d bytes as designed", d.WantBytes)
	}
	return fmt.Sprintf("%d bytes, and %d as designed", d.HaveBytes, d.WantBytes)
}
