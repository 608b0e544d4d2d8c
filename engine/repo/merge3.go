package repo

import (
	"bytes"
	"fmt"
	"slices"
)

// region is a part in which at least one of two sides differs from the old
// text, with its lines in ours and in theirs.
type region struct {
	whose             whose
	ours, oursEnd     int
	theirs, theirsEnd int
}

// whose says whose lines a region uses.
type whose int

const (
	nobodys whose = iota // each side has its own: a conflict
	oneSides
	otherSides
	boths // they are the same
)

// merge3 is the merge of two sides' changes to an old text.
type merge3 struct {
	ours, theirs [][]byte
	regions      []region
}

// merge compares two sides with the old text, line by line. It takes the
// changes of either side. If both changed the same or neighbouring lines, they
// must have made the same change.
func (d *differ) merge(old, ours, theirs []byte) merge3 {
	d.number, d.first, d.count = map[string]int{}, nil, nil
	_, was := d.lines(old)
	m := merge3{}
	var one, other []int
	m.ours, one = d.lines(ours)
	m.theirs, other = d.lines(theirs)
	m.regions = regions(d.diff(was, one), d.diff(was, other), one, other)
	for i := range m.regions {
		r := &m.regions[i]
		mine, its := one[r.ours:r.oursEnd], other[r.theirs:r.theirsEnd]
		if r.whose == nobodys && len(mine) > 0 && slices.Equal(mine, its) {
			r.whose = boths
		}
	}
	return m
}

// regions merges the changes of two sides into one order. Changes that touch
// become one region.
func regions(ours, theirs []hunk, one, other []int) (all []region) {
	add := func(r region) {
		if last := len(all) - 1; last >= 0 && (r.ours <= all[last].oursEnd || r.theirs <= all[last].theirsEnd) {
			if r.whose != all[last].whose {
				all[last].whose = nobodys
			}
			all[last].oursEnd, all[last].theirsEnd = r.oursEnd, r.theirsEnd
			return
		}
		all = append(all, r)
	}
	// How many more lines than the old text each side has so far.
	more, moreOther := 0, 0
	for len(ours) > 0 || len(theirs) > 0 {
		switch {
		case len(theirs) == 0 || len(ours) > 0 && ours[0].from < theirs[0].at:
			h := ours[0]
			add(region{oneSides, h.to, h.till, h.at + moreOther, h.from + moreOther})
			more, ours = h.till-h.from, ours[1:]
		case len(ours) == 0 || theirs[0].from < ours[0].at:
			h := theirs[0]
			add(region{otherSides, h.at + more, h.from + more, h.to, h.till})
			moreOther, theirs = h.till-h.from, theirs[1:]
		default:
			h, o := ours[0], theirs[0]
			if h.at != o.at || h.from != o.from || !slices.Equal(one[h.to:h.till], other[o.to:o.till]) {
				at, end := min(h.at, o.at), max(h.from, o.from)
				add(region{nobodys, h.to - (h.at - at), h.till + (end - h.from), o.to - (o.at - at), o.till + (end - o.from)})
			}
			if h.from <= o.from {
				more, ours = h.till-h.from, ours[1:]
			}
			if o.from <= h.from {
				moreOther, theirs = o.till-o.from, theirs[1:]
			}
		}
	}
	return all
}

// conflict returns the first region in which each side has its own lines; false
// if there is none.
func (m merge3) conflict() (region, bool) {
	i := slices.IndexFunc(m.regions, func(r region) bool { return r.whose == nobodys })
	if i < 0 {
		return region{}, false
	}
	return m.regions[i], true
}

// text returns the merged text, without conflicts.
func (m merge3) text() []byte {
	var all bytes.Buffer
	at := 0
	put := func(lines [][]byte) {
		for _, line := range lines {
			all.Write(line)
		}
	}
	for _, r := range m.regions {
		if r.whose == otherSides {
			put(m.ours[at:r.ours])
			put(m.theirs[r.theirs:r.theirsEnd])
			at = r.oursEnd
		}
	}
	put(m.ours[at:])
	return all.Bytes()
}

// labels are the names of the sides in conflict markers of a merge base that
// has several bases itself, as in Git.
const (
	markOurs, markMiddle, markTheirs = '<', '=', '>'
	labelOurs, labelTheirs           = "Temporary merge branch 1", "Temporary merge branch 2"
	markerLength                     = 7
)

// marked returns the merged text, with each conflict between markers. The
// markers are longer characters longer than usual. The text equals Git's byte
// for byte, because other texts are compared with it.
func (d *differ) marked(m merge3, old [][]byte, longer int) []byte {
	var all bytes.Buffer
	at := 0
	put := func(lines [][]byte) {
		for _, line := range lines {
			all.Write(line)
		}
	}
	for _, r := range d.narrowed(m) {
		switch r.whose {
		case otherSides:
			put(m.ours[at:r.ours])
			put(m.theirs[r.theirs:r.theirsEnd])
		case nobodys:
			end := m.markerEnd(r, old)
			mark := func(what byte, label string) {
				all.Write(bytes.Repeat([]byte{what}, markerLength+longer))
				if label != "" {
					all.WriteString(" " + label)
				}
				all.WriteString(end)
			}
			whole := func(lines [][]byte) {
				put(lines)
				if n := len(lines); n > 0 && !bytes.HasSuffix(lines[n-1], []byte("\n")) {
					all.WriteString(end)
				}
			}
			put(m.ours[at:r.ours])
			mark(markOurs, labelOurs)
			whole(m.ours[r.ours:r.oursEnd])
			mark(markMiddle, "")
			whole(m.theirs[r.theirs:r.theirsEnd])
			mark(markTheirs, labelTheirs)
		default:
			continue
		}
		at = r.oursEnd
	}
	put(m.ours[at:])
	return all.Bytes()
}

// narrowed returns the regions, with each conflict narrowed to the lines that
// differ. It joins conflicts with at most three lines between them.
func (d *differ) narrowed(m merge3) (all []region) {
	const near = 3
	_, ours := d.lines(bytes.Join(m.ours, nil))
	_, theirs := d.lines(bytes.Join(m.theirs, nil))
	for _, r := range m.regions {
		if r.whose != nobodys || r.ours == r.oursEnd || r.theirs == r.theirsEnd {
			all = append(all, r)
			continue
		}
		for _, h := range d.diff(ours[r.ours:r.oursEnd], theirs[r.theirs:r.theirsEnd]) {
			all = append(all, region{nobodys, r.ours + h.at, r.ours + h.from, r.theirs + h.to, r.theirs + h.till})
		}
	}
	joined := all[:0]
	for _, r := range all {
		if n := len(joined) - 1; n >= 0 && r.whose == nobodys && joined[n].whose == nobodys && r.ours-joined[n].oursEnd <= near {
			joined[n].oursEnd, joined[n].theirsEnd = r.oursEnd, r.theirsEnd
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// endsInCR reports whether a line ends as on Windows, and whether that is
// known. It is unknown if there is no line, or only one without a line end.
func endsInCR(lines [][]byte, at int) (is, known bool) {
	at = max(at, 0)
	if at < len(lines) && !bytes.HasSuffix(lines[at], []byte("\n")) {
		at--
	}
	if at < 0 || at >= len(lines) {
		return false, false
	}
	return bytes.HasSuffix(lines[at], []byte("\r\n")), true
}

// markerEnd returns the line end of the markers around a conflict.
func (m merge3) markerEnd(r region, old [][]byte) string {
	ours, known := endsInCR(m.ours, r.ours-1)
	theirs, alsoKnown := endsInCR(m.theirs, r.theirs-1)
	before, _ := endsInCR(old, 0)
	if before && (ours || !known) && (theirs || !alsoKnown) {
		return "\r\n"
	}
	return "\n"
}

// where names our lines in a region.
func (r region) where() string {
	switch n := r.oursEnd - r.ours; n {
	case 0:
		return fmt.Sprintf("after line %d", r.ours)
	case 1:
		return fmt.Sprintf("line %d", r.ours+1)
	default:
		return fmt.Sprintf("lines %d to %d", r.ours+1, r.oursEnd)
	}
}

// isBinary reports whether Git treats a file as binary.
func isBinary(data []byte) bool {
	const looked = 8000
	return bytes.IndexByte(data[:min(len(data), looked)], 0) >= 0
}
