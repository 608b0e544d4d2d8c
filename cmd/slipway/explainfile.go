package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// explainedFile is what a file is designed to be, and what is there.
type explainedFile struct {
	Path string `json:"path"`
	// Designed is what the design asks for, Digest names it; both are empty for a file
	// that is to be absent or whose content is not the design's.
	Digest   string       `json:"digest,omitempty"`
	Designed item.Content `json:"designed,omitzero"`
	// There is the digest of what the daemon last saw there, "absent" for nothing, and
	// Seen when. Unknown says why nobody knows.
	There   string    `json:"there,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
	Unknown string    `json:"unknown,omitempty"`
	// Differs says what besides the content is otherwise than designed: its mode, owner or
	// group.
	Differs []string `json:"differs,omitempty"`
	// Difference is a unified diff from what is there to what is designed; Withheld
	// says why there is none where they differ.
	Difference string `json:"difference,omitempty"`
	Withheld   string `json:"withheld,omitempty"`
}

// pathOfFile is the path of the file that a path in a node is of, or of a field of
// it: "/etc/motd" of "system.files./etc/motd.mode". The longest that fits is meant:
// there may be a file /etc/motd.d, too.
func pathOfFile(n *site.Node, path string) (file string) {
	for _, i := range n.Items(site.FacetConfig) {
		if item.Kind(i.Key) != item.KindFiles {
			continue
		}
		for _, of := range []string{"system." + i.Key, "families." + n.References.Family + "." + i.Key} {
			if id := item.ID(i.Key); len(id) > len(file) && (path == of || strings.HasPrefix(path, of+".")) {
				file = id
			}
		}
	}
	return file
}

// explainFile says what a file of a node is designed to be, and what a daemon has
// seen there; nil where the path is of no file.
func explainFile(ctx context.Context, state string, s *site.Site, node, path string) *explainedFile {
	n := s.Nodes[node]
	file := pathOfFile(n, path)
	if file == "" {
		return nil
	}
	x, key := &explainedFile{Path: file}, item.KindFiles+"."+file
	daemon := daemonAt(state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, s.Name)
	seen := known.Nodes[node].Observed.Facets[site.FacetConfig]
	var designed item.Item
	for _, i := range seen.Resolve(n, site.FacetConfig).Items {
		if i.Key == key {
			designed = i
		}
	}
	x.Digest = designed.Fields["content"]
	x.Designed, _ = designed.Content()
	switch {
	case err != nil:
		x.Unknown = err.Error()
		return x
	case seen.Unread[key] != "":
		x.Unknown = seen.Unread[key]
		return x
	case x.Designed.Withheld == item.IsSecret && seen.Cannot[item.Name(key, "content")] != "":
		x.Unknown = seen.Cannot[item.Name(key, "content")]
		return x
	}
	there, err := daemon.File(ctx, s.Name, node, key)
	x.Seen, x.There = seen.Seen, seen.Have[item.Name(key, "content")]
	switch {
	case err != nil:
		x.Unknown = err.Error()
	case x.There == "" && there.Withheld == present.NoFile:
		x.There, there = item.Absent, item.Content{}
	case x.There == "":
		x.Unknown = there.Withheld
	}
	if x.Unknown == "" && x.There != item.Absent {
		x.Differs = differing(designed, key, seen)
	}
	if x.Unknown == "" && x.There != x.Digest && x.Digest != "" {
		x.Difference, x.Withheld = present.Compared(there, x.Designed)
	}
	return x
}

// differing says which fields of a file besides its content are otherwise than designed, or are
// not known.
func differing(designed item.Item, key string, seen site.FacetState) (all []string) {
	for _, field := range slices.Sorted(maps.Keys(designed.Fields)) {
		name := item.Name(key, field)
		have, want := cmp.Or(seen.Have[name], "unknown"), designed.Fields[field]
		if field != "content" && have != want {
			all = append(all, fmt.Sprintf("%s is %s and is designed as %s", field, site.Printable(have), want))
		}
	}
	return all
}

// print writes what is designed, and what is there.
func (x *explainedFile) print(w *screen) {
	bold, dim := paint(w, text.Bold), paint(w, text.Faint)
	switch {
	case x.Digest == "":
		w.Println(bold("designed") + "  to be absent")
	case x.Designed.Withheld == item.IsSecret:
		w.Println(bold("designed") + "  " + x.Digest + ", not shown: " + x.Designed.Withheld)
	case x.Designed.Withheld != "":
		w.Println(bold("designed") + "  " + x.Digest + fmt.Sprintf(", %d bytes, not shown: ", x.Designed.Bytes) + x.Designed.Withheld)
	default:
		w.Println(bold("designed") + "  " + x.Digest + fmt.Sprintf(", %d bytes", x.Designed.Bytes))
		for line := range strings.Lines(present.ShownText(x.Designed.Text)) {
			w.Println("  " + strings.TrimSuffix(line, "\n"))
		}
	}
	ago := ""
	if !x.Seen.IsZero() {
		ago = dim("  seen " + age(x.Seen) + " ago")
	}
	switch {
	case x.Unknown != "":
		w.Println(bold("there") + "     unknown: " + x.Unknown)
	case len(x.Differs) > 0 && x.There == x.Digest:
		w.Println(bold("there") + "     the content as designed" + ago)
	case x.There == x.Digest || x.There == item.Absent && x.Digest == "":
		w.Println(bold("there") + "     as designed" + ago)
	case x.Withheld != "":
		w.Println(bold("there") + "     " + x.There + ago + ", difference not shown: " + x.Withheld)
	default:
		w.Println(bold("there") + "     " + x.There + ago)
		present.WriteDiff(w.Lines(), x.Difference, "  ", planPaint(w))
	}
	for _, what := range x.Differs {
		w.Println("          " + what)
	}
}
