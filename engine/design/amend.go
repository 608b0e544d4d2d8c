package design

import (
	"bytes"
	"slices"
)

// Most edits are of one node, and to parse the file around it takes far longer
// than to evaluate it. amendment is such an edit: all of it lies inside of one
// node's declaration.
type amendment struct {
	last *outline
	// part is the declaration, grown how many bytes it has more, and lines.
	part, grown, lines int
	// text is the new one of the file with every other declaration blanked, in
	// which this one begins so many bytes earlier.
	text    []byte
	earlier int
}

// amendment is the edit that made a file's text another than it was in the
// division; nil when it is none or may be more.
func (d *division) amendment(name string, src []byte) *amendment {
	if d == nil {
		return nil
	}
	i := slices.IndexFunc(d.files, func(f dividedFile) bool { return f.name == name })
	if i < 0 || d.files[i].outline.imports {
		return nil // whether an import is used is seen in the whole file
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
			return nil // its column is another too
		}
	}
	a := &amendment{last: f.outline, part: at, grown: len(src) - len(f.src)}
	a.lines = lineEnds(src[old.Start:old.End+a.grown]) - lineEnds(f.src[old.Start:old.End])
	parts := a.parts()
	text, earlier := blanked(src, parts, func(p *piece) bool { return p != &parts[at] && p.Kind != clause })
	a.text, a.earlier = text, earlier[at]
	return a
}

// parts are those of the new text, if the declaration is still one.
func (a *amendment) parts() []piece {
	parts := slices.Clone(a.last.Parts)
	parts[a.part].End += a.grown
	for i := range parts[a.part+1:] {
		p := &parts[a.part+1+i]
		p.Start, p.End, p.Line = p.Start+a.grown, p.End+a.grown, p.Line+a.lines
	}
	return parts
}

// outline is that of the new text, by the one of the blanked text; nil when the
// edit was more than it seemed. The declaration has to end where it would, or
// what follows could be anything, and to refer to nothing that no node did.
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

// alike says whether two parts are the same but for their texts.
func (p piece) alike(other piece) bool {
	return p.Kind == other.Kind && p.Name == other.Name && p.Bare == other.Bare &&
		p.Start == other.Start && p.End == other.End && p.Line == other.Line && p.Col == other.Col
}

func lineEnds(text []byte) int { return bytes.Count(text, []byte("\n")) }

// commonStart is how many bytes two texts begin with in common.
func commonStart(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// commonEnd is how many bytes two texts end with in common.
func commonEnd(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[len(a)-1-i] != b[len(b)-1-i] {
			return i
		}
	}
	return n
}
