package repo

import "bytes"

// The limits on the cost of merging texts. Beyond them, a file that both sides
// changed is a conflict; nothing is guessed.
const (
	// maxText and maxLines are the largest file to merge by lines; maxMade is
	// the largest size of all results together.
	maxText, maxLines, maxMade = 4 << 20, 100_000, 64 << 20
	// maxSteps is how many lines are compared for one merge of two commits.
	maxSteps = 100_000_000
	// maxChain is how often a line may occur before it is too common to find
	// what two texts share. maxEdits limits, on either side of their middle,
	// how far two texts of only such lines may differ. Both are Git's values.
	// Beyond maxEdits, Git takes a path that is not the shortest.
	maxChain = 64
	maxEdits = 256
)

// differ compares texts. It numbers lines, with the same number for lines of
// the same bytes.
type differ struct {
	number map[string]int
	steps  int
	spent  bool // comparing was given up, and its result is useless
	// By line number: the first such line in the current part, and how many
	// there are.
	first, count []int
}

// text is a file as the numbers of its lines, with marks for the lines that the
// other text lacks.
type text struct {
	is    []int
	edits []bool
}

// hunk is a run of lines of one text that replaces a run of another.
type hunk struct{ at, from, to, till int } // [at, from) of the old, [to, till) of the new

func (d *differ) lines(data []byte) (lines [][]byte, is []int) {
	for line := range bytes.Lines(data) {
		n, known := d.number[string(line)]
		if !known {
			n = len(d.number)
			d.number[string(line)] = n
			d.first, d.count = append(d.first, -1), append(d.count, 0)
		}
		lines, is = append(lines, line), append(is, n)
	}
	return lines, is
}

// step counts a comparison, and reports whether to go on.
func (d *differ) step() bool {
	d.steps++
	d.spent = d.spent || d.steps > maxSteps
	return !d.spent
}

// diff returns the changes from an old text to a new one, as Git finds them: by
// the rarest lines that both have (histogram). Each run of changes moves down
// as far as possible, or up to where the other text is changed too.
func (d *differ) diff(old, new []int) []hunk {
	a, b := &text{is: old, edits: make([]bool, len(old))}, &text{is: new, edits: make([]bool, len(new))}
	d.byRarest(a, b, span{0, len(old), 0, len(new)})
	if !d.spent {
		d.settle(a, b)
		d.settle(b, a)
	}
	var all []hunk
	for i, j := 0, 0; i < len(old) || j < len(new); {
		if !a.edited(i) && !b.edited(j) {
			i, j = i+1, j+1
			continue
		}
		h := hunk{at: i, to: j}
		for a.edited(i) {
			i++
		}
		for b.edited(j) {
			j++
		}
		h.from, h.till = i, j
		all = append(all, h)
	}
	return all
}

func (t *text) edited(i int) bool { return i >= 0 && i < len(t.edits) && t.edits[i] }

func (t *text) edit(from, to int) {
	for i := from; i < to; i++ {
		t.edits[i] = true
	}
}

// span is a part of two texts.
type span struct{ a, aEnd, b, bEnd int }

// byRarest marks what differs in a part. The longest run around one of the
// rarest lines is common to both, and the text before and after it is compared
// in the same way.
func (d *differ) byRarest(a, b *text, s span) {
	for s.a < s.aEnd && s.b < s.bEnd && d.step() {
		run, found, common := d.rarest(a, b, s)
		switch {
		case !common:
			a.edit(s.a, s.aEnd)
			b.edit(s.b, s.bEnd)
			return
		case !found:
			d.byShortest(a, b, s)
			return
		}
		d.byRarest(a, b, span{s.a, run.a, s.b, run.b})
		s.a, s.b = run.aEnd, run.bEnd
	}
	a.edit(s.a, s.aEnd)
	b.edit(s.b, s.bEnd)
}

// rarest returns the run of common lines to use. found is false when all common
// lines occur too often.
func (d *differ) rarest(a, b *text, s span) (run span, found, common bool) {
	next := make([]int, s.aEnd-s.a) // of the same line, by its place in the part
	for i := s.aEnd - 1; i >= s.a; i-- {
		n := a.is[i]
		next[i-s.a], d.first[n] = d.first[n], i
		d.count[n]++
		d.step()
	}
	fewest := maxChain + 1
	for j := s.b; j < s.bEnd && d.step(); {
		n, after := b.is[j], j+1
		common = common || d.count[n] > 0
		i := d.first[n]
		if d.count[n] > fewest {
			i = -1
		}
		for i >= 0 && !d.spent {
			is, rare := d.around(a, b, s, i, j)
			after = max(after, is.bEnd)
			if is.aEnd-is.a > max(run.aEnd-run.a, 1) || rare < fewest {
				run, fewest = is, rare
			}
			for i >= 0 && i < is.aEnd {
				i = next[i-s.a]
			}
		}
		j = after
	}
	for i := s.a; i < s.aEnd; i++ {
		d.first[a.is[i]], d.count[a.is[i]] = -1, 0
	}
	return run, fewest <= maxChain, common
}

// around returns the run of common lines around a common line, and how often
// its rarest line occurs.
func (d *differ) around(a, b *text, s span, i, j int) (run span, rare int) {
	run, rare = span{i, i + 1, j, j + 1}, d.count[a.is[i]]
	for run.a > s.a && run.b > s.b && a.is[run.a-1] == b.is[run.b-1] && d.step() {
		run.a, run.b = run.a-1, run.b-1
		rare = min(rare, d.count[a.is[run.a]])
	}
	for run.aEnd < s.aEnd && run.bEnd < s.bEnd && a.is[run.aEnd] == b.is[run.bEnd] && d.step() {
		rare = min(rare, d.count[a.is[run.aEnd]])
		run.aEnd, run.bEnd = run.aEnd+1, run.bEnd+1
	}
	return run, rare
}

// settle moves each run of changes of a text down as far as possible. From
// there it moves up to the last place where the other text is changed too. Runs
// that meet become one.
func (d *differ) settle(t, other *text) {
	g, o := t.group(0), other.group(0)
	for {
		if g.begin < g.end {
			g, o = d.slide(t, other, g, o)
		}
		if g.end >= len(t.is) || d.spent {
			return
		}
		g, o = t.group(g.end+1), other.group(o.end+1)
	}
}

// group is a run of changes of a text, which may be empty. There is one before
// each unchanged line, and one at the end.
type group struct{ begin, end int }

func (t *text) group(begin int) group {
	g := group{begin, begin}
	for t.edited(g.end) {
		g.end++
	}
	return g
}

func (t *text) groupBefore(g group) group {
	g = group{g.begin - 1, g.begin - 1}
	for t.edited(g.begin - 1) {
		g.begin--
	}
	return g
}

func (d *differ) slide(t, other *text, g, o group) (group, group) {
	for {
		size, match := g.end-g.begin, -1
		for g.begin > 0 && t.is[g.begin-1] == t.is[g.end-1] && d.step() {
			g, o = t.up(g), other.groupBefore(o)
		}
		top := g.end
		if o.begin < o.end {
			match = g.end
		}
		for g.end < len(t.is) && t.is[g.begin] == t.is[g.end] && d.step() {
			g, o = t.down(g), other.group(o.end+1)
			if o.begin < o.end {
				match = g.end
			}
		}
		if g.end-g.begin != size && !d.spent {
			continue
		}
		if g.end == top || match < 0 {
			return g, o
		}
		for o.begin == o.end && d.step() {
			g, o = t.up(g), other.groupBefore(o)
		}
		return g, o
	}
}

func (t *text) up(g group) group {
	g.begin, g.end = g.begin-1, g.end-1
	t.edits[g.begin], t.edits[g.end] = true, false
	for t.edited(g.begin - 1) {
		g.begin--
	}
	return g
}

func (t *text) down(g group) group {
	t.edits[g.begin], t.edits[g.end] = false, true
	g.begin, g.end = g.begin+1, g.end+1
	for t.edited(g.end) {
		g.end++
	}
	return g
}
