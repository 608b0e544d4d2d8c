package repo

// byShortest marks what differs in a part of two texts whose common lines all
// occur often. It uses the fewest changes (E. Myers, "An O(ND) Difference
// Algorithm and Its Variations"). First it sets aside the lines that the other
// part lacks, and very common lines among them.
func (d *differ) byShortest(a, b *text, s span) {
	count := len(d.number)
	whole := [2]int{s.aEnd - s.a, s.bEnd - s.b}
	inA, inB := make([]int, count), make([]int, count)
	for _, n := range a.is[s.a:s.aEnd] {
		inA[n]++
	}
	for _, n := range b.is[s.b:s.bEnd] {
		inB[n]++
	}
	for s.a < s.aEnd && s.b < s.bEnd && a.is[s.a] == b.is[s.b] {
		s.a, s.b = s.a+1, s.b+1
	}
	for s.a < s.aEnd && s.b < s.bEnd && a.is[s.aEnd-1] == b.is[s.bEnd-1] {
		s.aEnd, s.bEnd = s.aEnd-1, s.bEnd-1
	}
	m := middle{d: d, a: a, b: b, atA: a.telling(s.a, s.aEnd, inB, whole[0]), atB: b.telling(s.b, s.bEnd, inA, whole[1])}
	size := len(m.atA) + len(m.atB) + 3
	m.forth, m.back = make([]int, size), make([]int, size)
	m.diff(span{0, len(m.atA), 0, len(m.atB)})
}

// How often the other text has a line: never, sometimes, or so often that the
// line says little.
const (
	lineAlone = iota
	lineTells
	lineIsCommon
)

// telling lists the lines of a part to compare, and marks the others as
// changed. A line that is common in the other text is marked too if most of its
// neighbours are missing there.
func (t *text) telling(begin, end int, other []int, whole int) (at []int) {
	many := min(roughRoot(whole), 1024)
	kinds := make([]int, end-begin)
	for i := range kinds {
		switch n := other[t.is[begin+i]]; {
		case n >= many:
			kinds[i] = lineIsCommon
		case n > 0:
			kinds[i] = lineTells
		}
	}
	for i, kind := range kinds {
		if kind == lineTells || kind == lineIsCommon && !isAmongAlone(kinds, i) {
			at = append(at, begin+i)
		} else {
			t.edits[begin+i] = true
		}
	}
	return at
}

// roughRoot returns a power of two near the square root.
func roughRoot(n int) int {
	root := 1
	for ; n > 0; n >>= 2 {
		root <<= 1
	}
	return root
}

// isAmongAlone reports whether a common line has lines on both sides that the
// other text lacks, and at least three of them for each common line.
func isAmongAlone(kinds []int, at int) bool {
	const window, share = 100, 4
	run := func(step int) (alone, common int) {
		for i := at + step; i >= 0 && i < len(kinds) && (i-at)*step <= window; i += step {
			switch kinds[i] {
			case lineAlone:
				alone++
			case lineIsCommon:
				common++
			default:
				return alone, common
			}
		}
		return alone, common
	}
	before, common := run(-1)
	after, more := run(1)
	if before == 0 || after == 0 {
		return false
	}
	common += more + 2 // the line itself counts for either side
	return common*share < common+before+after
}

// middle finds the shortest path from one list of lines to another through the
// point where the paths from both ends meet.
type middle struct {
	d        *differ
	a, b     *text
	atA, atB []int
	// By diagonal: the line of a that was reached from the beginning and from
	// the end.
	forth, back []int
}

func (m *middle) same(i, j int) bool { return m.a.is[m.atA[i]] == m.b.is[m.atB[j]] }

func (m *middle) diff(s span) {
	for s.a < s.aEnd && s.b < s.bEnd && m.same(s.a, s.b) && m.d.step() {
		s.a, s.b = s.a+1, s.b+1
	}
	for s.a < s.aEnd && s.b < s.bEnd && m.same(s.aEnd-1, s.bEnd-1) && m.d.step() {
		s.aEnd, s.bEnd = s.aEnd-1, s.bEnd-1
	}
	if s.a == s.aEnd || s.b == s.bEnd {
		for _, i := range m.atA[s.a:s.aEnd] {
			m.a.edits[i] = true
		}
		for _, j := range m.atB[s.b:s.bEnd] {
			m.b.edits[j] = true
		}
		return
	}
	i, j := m.meet(s)
	if m.d.spent {
		return
	}
	m.diff(span{s.a, i, s.b, j})
	m.diff(span{i, s.aEnd, j, s.bEnd})
}

// diagonals are the diagonals to look at, every second one.
type diagonals struct{ least, most int }

// widen adds one more diagonal on either side or, at the border of the part,
// removes one. It sets the reach of the next one to a value that never counts.
func (k *diagonals) widen(border diagonals, reach func(int) *int, never int) {
	if k.least > border.least {
		k.least--
		*reach(k.least - 1) = never
	} else {
		k.least++
	}
	if k.most < border.most {
		k.most++
		*reach(k.most + 1) = never
	} else {
		k.most--
	}
}

func (m *middle) meet(s span) (i, j int) {
	zero := len(m.atB) + 1
	forth := func(k int) *int { return &m.forth[zero+k] }
	back := func(k int) *int { return &m.back[zero+k] }
	border := diagonals{s.a - s.bEnd, s.aEnd - s.b}
	ahead, behind := diagonals{s.a - s.b, s.a - s.b}, diagonals{s.aEnd - s.bEnd, s.aEnd - s.bEnd}
	odd := (ahead.least-behind.least)%2 != 0
	*forth(ahead.least), *back(behind.least) = s.a, s.aEnd
	for range maxEdits {
		ahead.widen(border, forth, -1)
		for k := ahead.most; k >= ahead.least && m.d.step(); k -= 2 {
			i := *forth(k + 1)
			if left := *forth(k - 1); left >= i {
				i = left + 1
			}
			for i < s.aEnd && i-k < s.bEnd && m.same(i, i-k) && m.d.step() {
				i++
			}
			*forth(k) = i
			if odd && behind.least <= k && k <= behind.most && *back(k) <= i {
				return i, i - k
			}
		}
		behind.widen(border, back, maxText*2)
		for k := behind.most; k >= behind.least && m.d.step(); k -= 2 {
			i := *back(k + 1) - 1
			if left := *back(k - 1); left <= i {
				i = left
			}
			for i > s.a && i-k > s.b && m.same(i-1, i-k-1) && m.d.step() {
				i--
			}
			*back(k) = i
			if !odd && ahead.least <= k && k <= ahead.most && i <= *forth(k) {
				return i, i - k
			}
		}
	}
	m.d.spent = true
	return 0, 0
}
