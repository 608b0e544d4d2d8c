package forge

import (
	"net/url"
	"strings"
)

// Marker distinguishes our comments from each other. It is an HTML comment,
// invisible to readers, in the first line of a comment's body.
//
// A marker proves nothing, because anyone can write one. A comment is ours only
// if we are its author, too.
type Marker struct {
	Site string
	// Kind is the comment's subject: a site has one comment of each kind.
	Kind string
}

const markerStart, markerEnd = "<!-- slipway ", " -->"

// String returns the marker as a line of Markdown, without a line end.
func (m Marker) String() string {
	return markerStart + escaped(m.Site) + " " + escaped(m.Kind) + markerEnd
}

// escaped returns a word that cannot end an HTML comment, or a word in it.
func escaped(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "-", "%2D")
}

// Mark returns the text of a comment with the marker before it.
func (m Marker) Mark(text string) string { return m.String() + "\n" + text }

// ReadMarker reads a comment's marker. The forge may have changed the line
// ends. Only the output of String is a marker.
func ReadMarker(body string) (Marker, bool) {
	line, _, _ := strings.Cut(body, "\n")
	line = strings.TrimSuffix(line, "\r")
	rest, starts := strings.CutPrefix(line, markerStart)
	words, ends := strings.CutSuffix(rest, markerEnd)
	if !starts || !ends {
		return Marker{}, false
	}
	site, kind, _ := strings.Cut(words, " ")
	var m Marker
	var err error
	if m.Site, err = url.QueryUnescape(site); err != nil {
		return Marker{}, false
	}
	if m.Kind, err = url.QueryUnescape(kind); err != nil || m.String() != line {
		return Marker{}, false
	}
	return m, true
}
