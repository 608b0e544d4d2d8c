package forge

import (
	"net/url"
	"strings"
)

// Marker tells comments of ours apart. It is an HTML comment, which a reader
// does not see, in the first line of a comment's body.
//
// A marker proves nothing: anybody can write one. A comment is ours when its
// author is us, too.
type Marker struct {
	Site string
	// Kind is what the comment is about: one site has one comment of each.
	Kind string
}

const markerStart, markerEnd = "<!-- slipway ", " -->"

// String is the marker as a line of Markdown, without the line's end.
func (m Marker) String() string {
	return markerStart + escaped(m.Site) + " " + escaped(m.Kind) + markerEnd
}

// escaped is a word in which nothing ends an HTML comment, or a word of it.
func escaped(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "-", "%2D")
}

// Mark puts the marker before a comment's text.
func (m Marker) Mark(text string) string { return m.String() + "\n" + text }

// ReadMarker reads a comment's marker. The forge may have changed the ends of
// lines. Only what String writes is a marker.
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
