package present

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The picture of the order has one row per node, or per role if there are more
// nodes than rows. A long critical path shows only its ends.
const (
	pictureRows = 20
	pathEnds    = 4
)

func writeForecast(w io.Writer, p *site.Plan, v View) {
	f := p.Forecast
	if len(f.Order) > 0 {
		fmt.Fprintln(w, v.Paint.with(v.Paint.Bold, "How it runs: "+headline(f)))
		rows := rowsOf(f, v.Site)
		if v.Width > 0 {
			writePicture(w, rows, f, v)
		} else {
			writeRows(w, rows)
		}
		if len(f.Order) > 1 {
			fmt.Fprintln(w, "  Critical path:")
			for _, line := range pathLines(f) {
				fmt.Fprintln(w, "    "+line)
			}
		}
		fmt.Fprintln(w, v.Paint.with(v.Paint.Dim, "  "+f.Basis))
	}
	for _, warning := range f.Warnings {
		fmt.Fprintf(w, "  %s %s\n", v.Paint.with(v.Paint.Reboot, "warning:"), site.Printable(warning))
	}
	if len(f.Order)+len(f.Warnings) > 0 {
		fmt.Fprintln(w)
	}
}

// headline says how long the plan takes, and when it begins if it has to wait.
func headline(f *site.Forecast) string {
	begins := begin(f)
	if begins > 0 {
		return fmt.Sprintf("begins in %s, then takes about %s", say.Rough(begins), say.Rough(time.Duration(f.Makespan)))
	}
	return "about " + say.Rough(time.Duration(f.Makespan))
}

func begin(f *site.Forecast) time.Duration {
	if len(f.Order) == 0 {
		return 0
	}
	return time.Duration(f.Order[0].From)
}

// row is one node, or the nodes of a role, over time.
type row struct {
	name     string
	what     string
	from, to site.Duration
	parts    []site.Stretch
}

func rowsOf(f *site.Forecast, s *site.Site) []row {
	if len(f.Order) <= pictureRows {
		var rows []row
		for _, x := range f.Order {
			rows = append(rows, row{x.Node, x.What, x.From, x.To, []site.Stretch{x}})
		}
		return rows
	}
	return rowsByRole(f, s)
}

func rowsByRole(f *site.Forecast, s *site.Site) []row {
	byRole := map[string]*row{}
	for _, x := range f.Order {
		role := "no role"
		if n := s.Nodes[x.Node]; n != nil {
			role = cmp.Or(n.Role, role)
		}
		r := byRole[role]
		if r == nil {
			r = &row{name: role, from: x.From}
			byRole[role] = r
		}
		r.from, r.to = min(r.from, x.From), max(r.to, x.To)
		r.parts = append(r.parts, x)
	}
	var rows []row
	for _, role := range slices.Sorted(maps.Keys(byRole)) {
		r := byRole[role]
		r.what = say.Count(len(r.parts), "node")
		rows = append(rows, *r)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.from, b.from) })
	return rows
}

// writeRows writes the order without a picture.
func writeRows(w io.Writer, rows []row) {
	shown := rows[:min(len(rows), pictureRows)]
	for _, r := range shown {
		fmt.Fprintf(w, "  %s to %s  %s: %s\n", since(r.from), since(r.to), r.name, r.what)
	}
	if more := len(rows) - len(shown); more > 0 {
		fmt.Fprintf(w, "  … %d more\n", more)
	}
}

// writePicture draws the rows over the time from the first step to the last.
func writePicture(w io.Writer, rows []row, f *site.Forecast, v View) {
	shown := rows[:min(len(rows), pictureRows)]
	wide := 0
	for _, r := range shown {
		wide = max(wide, utf8.RuneCountInString(r.name))
	}
	cells := max(10, min(60, v.Width-wide-24))
	for _, r := range shown {
		fmt.Fprintf(w, "  %-*s %s %s to %s\n", wide, r.name, v.Paint.with(v.Paint.Online, bar(r, f, cells)), since(r.from), since(r.to))
	}
	if more := len(rows) - len(shown); more > 0 {
		fmt.Fprintf(w, "  … %d more\n", more)
	}
}

// since is a time relative to the beginning.
func since(d site.Duration) string { return say.Rough(time.Duration(d)) }

var shades = []string{" ", "░", "▒", "▓", "█"}

// bar shows in each cell how many nodes of a row are worked on, with a full
// block for the maximum.
func bar(r row, f *site.Forecast, cells int) string {
	from, length := begin(f), max(1, time.Duration(f.Makespan))
	cell := func(d site.Duration) int {
		return max(0, min(cells-1, int(float64(cells)*float64(time.Duration(d)-from)/float64(length))))
	}
	counts := make([]int, cells+1)
	for _, s := range r.parts {
		counts[cell(s.From)]++
		counts[max(cell(s.From), cell(s.To-1))+1]--
	}
	most, now := 1, 0
	for i, change := range counts {
		now += change
		counts[i] = now
		most = max(most, now)
	}
	var b strings.Builder
	for _, n := range counts[:cells] {
		b.WriteString(shades[(n*(len(shades)-1)+most-1)/most])
	}
	return b.String()
}

// pathLines returns the stretches of the critical path, or the first and last
// of many.
func pathLines(f *site.Forecast) []string {
	var lines []string
	for i, s := range f.Path {
		if more := len(f.Path) - 2*pathEnds; more > 1 && i >= pathEnds && i < len(f.Path)-pathEnds {
			if i == pathEnds {
				lines = append(lines, fmt.Sprintf("… %d more", more))
			}
			continue
		}
		lines = append(lines, fmt.Sprintf("%s to %s  %s: %s", since(s.From), since(s.To), s.Node, s.What))
	}
	return lines
}
