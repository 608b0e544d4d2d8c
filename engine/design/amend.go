package design

import (
	"bytes"
	"slices"
)

// Most edits change one node, and parsing the file around it takes far longer
// than evaluating the node. amendment is an edit that lies inside one node's
// declaration.
type amendment struct {
	last *outline
	// part is the declaration; grown and lines count the bytes and lines it
	// gained.
	part, grown, lines int
	// text is the new text of the file with every other declaration blanked. In
	// it, the declaration begins earlier bytes before its place in the file.
	text    []byte
	earlier int
}

// amendment returns the edit that changed a file's text since the division. It
// is nil when the text is unchanged or the edit may be larger.
func (d *division) amendment(name string, src []byte) *amendment {
	if d == nil {
		return nil
	}
	i := slices.IndexFunc(d.files, func(f dividedFile) bool { return f.name == name })
	if i < 0 || d.files[i].outline.imports {
		return nil // only the whole file shows whether an import is used
	}
	return d.files[i].amendment(src)
}

func (f *dividedFile) amendment(src []byte) *amendment {
	before := commonStart(f.src, src)
	after := commonEnd(f.src[before:], src[before:])
	at := slices.IndexFunc(f.outline.Parts, func(p piece) bool {
		return p.Kind == oneNode && p.Start < before && len(f.src)-after < p.End
	})
	if at < 0 {
		return nil
	}
	old := f.outline.Parts[at]
	end := old.Line + lineEnds(f.src[old.Start:old.End])
	for _, p := range f.outline.Parts[at+1:] {
		if p.Line <= end {
			return nil // that part's column changes too
		}
	}
	a := &amendment{last: f.outline, part: at, grown: len(src) - len(f.src)}
	a.lines = lineEnds(src[old.Start:old.End+a.grown]) - lineEnds(f.src[old.Start:old.End])
	parts := a.parts()
	text, earlier := blanked(src, parts, func(p *piece) bool { return p != &parts[at] && p.Kind != clause })
	a.text, a.earlier = text, earlier[at]
	return a
}

// parts returns the parts of the new text, if the declaration is still one
// declaration.
func (a *amendment) parts() []piece {
	parts := slices.Clone(a.last.Parts)
	parts[a.part].End += a.grown
	for i := range parts[a.part+1:] {
		p := &parts[a.part+1+i]
		p.Start, p.End, p.Line = p.Start+a.grown, p.End+a.grown, p.Line+a.lines
	}
	return parts
}

// outline returns the outline of the new text, derived from that of the blanked
// text. It is nil when the edit was larger than it seemed: the declaration must
// end where expected, and must refer only to names that some node already used.
func (a *amendment) outline(blanked *outline) *outline {
	left := slices.DeleteFunc(slices.Clone(blanked.Parts), func(p piece) bool { return p.Kind == clause })
	parts := a.parts()
	want := parts[a.part]
	want.Start, want.End = want.Start-a.earlier, want.End-a.earlier
	if blanked.Entangled != "" || len(left) != 1 || !left[0].alike(want) {
		return nil
	}
	for _, name := range blanked.Uses {
		if !slices.Contains(a.last.Uses, name) {
			return nil
		}
	}
	return &outline{Parts: parts, Uses: a.last.Uses}
}

// alike reports whether two parts are the same except for their texts.
func (p piece) alike(other piece) bool {
	return p.Kind == other.Kind && p.Name == other.Name && p.Bare == other.Bare &&
		p.Start == other.Start && p.End == other.End && p.Line == other.Line && p.Col == other.Col
}

func lineEnds(text []byte) int { return bytes.Count(text, []byte("\n")) }

// commonStart returns the length in bytes of the common prefix of two texts.
func commonStart(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// commonEnd returns the length in bytes of the common suffix of two texts.
func commonEnd(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[len(a)-1-i] != b[len(b)-1-i] {
			return i
		}
	}
	return n
}
