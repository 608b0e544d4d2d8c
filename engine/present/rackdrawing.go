package present

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Measures of the picture of a rack, in pixels.
const (
	rackWide   = 244
	unitHigh   = 18
	numbers    = 24  // the column with the numbers of the units
	badgeWide  = 16  // the part of a machine with the sign of its state
	roomyFrom  = 120 // a box with room for a name and a mark beside it
	letterWide = 7.0
	markWide   = 6.0 // of the smaller letters of a mark
)

// longestTitle bounds the sentence about a node.
const longestTitle = 300

// stateShapes are the shapes of the states, in a square of 10 pixels. Each has a shape of its
// own, so that colour alone tells nothing.
var stateShapes = map[site.State]string{
	site.InSync:      "M1 5.5l3 3L9.5 2",
	site.Progressing: "M2 1l7 4-7 4z",
	site.Retrying:    "M8.5 6.5A4 4 0 1 1 8 2.5M8.5 .5v2.5H6",
	site.Blocked:     "M1.5 1h7L5 5l3.5 4h-7L5 5z",
	site.Stalled:     "M1.5 1.5l7 7M8.5 1.5l-7 7",
	site.Foreign:     "M5 .5L9.5 5 5 9.5 .5 5z",
	site.Paused:      "M3 1v8M7 1v8",
	site.Unknown:     "M2.5 3A2.5 2.5 0 1 1 5 5.5V7M5 8.5v1",
}

// rackDrawing is the picture of a rack while it is drawn.
type rackDrawing struct {
	e     *Elevation
	units int
	top   int // the upper edge of the highest unit
	has   Symbols
	body  strings.Builder
}

// Symbols are the shapes that a document has already, by id: the pictures in it draw each once, and use it. Equal ids
// are of equal shapes.
type Symbols map[string]string

// SVG is a picture that shows nothing, and defines all shapes for those that use them.
func (s Symbols) SVG() string {
	var b strings.Builder
	b.WriteString(`<svg class="hide" width="0" height="0" aria-hidden="true"><defs>`)
	for _, id := range slices.Sorted(maps.Keys(s)) {
		b.WriteString(s[id])
	}
	b.WriteString("</defs></svg>\n")
	return b.String()
}

// use places a shape, whose upper left corner is at 0 0.
func (d *rackDrawing) use(id string, x, y int, shape func() string) {
	d.define(id, shape)
	d.put(`<use href="#%s" x="%d" y="%d"/>`, id, x, y)
}

// define defines a shape where the document does not have it yet.
func (d *rackDrawing) define(id string, shape func() string) {
	if _, has := d.has[id]; has {
		return
	}
	d.has[id] = shape()
	if !d.e.view.Apart {
		d.put(`<defs>%s</defs>`, d.has[id])
	}
}

func (d *rackDrawing) put(format string, args ...any) { fmt.Fprintf(&d.body, format, args...) }

func (d *rackDrawing) svg() string {
	d.top = 20
	d.put(`<text class="name" x="%d" y="14">%s</text>`+"\n", numbers, inSVG(middleCut(d.e.Rack, rackWide-numbers, 7.4)))
	if place := d.e.Design.Location; place != "" {
		d.line(place)
	}
	if d.units > 0 {
		d.frame()
	}
	for _, p := range d.e.Placed {
		d.placed(p)
	}
	high := d.loose(d.top + d.units*unitHigh)
	e := d.e
	label := inSVG(endCut("Rack "+e.Rack+": "+e.Summary(), longestTitle, 1))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="rack" viewBox="0 0 %d %d" width="%d" height="%d" role="group" aria-label="%s">`+"\n", rackWide, high, rackWide, high, label)
	if e.view.StandAlone {
		fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n", label, ElevationStyle)
	}
	b.WriteString(d.body.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// line writes a line below the name of the rack.
func (d *rackDrawing) line(text string) {
	d.put(`<text class="dim" x="%d" y="%d">%s</text>`+"\n", numbers, d.top+7, inSVG(endCut(text, rackWide-numbers, markWide)))
	d.top += 14
}

// frame draws the units with their numbers, all of them empty.
func (d *rackDrawing) frame() {
	if d.e.Design.Units == 0 {
		d.line("its height is not in the design")
	}
	id := fmt.Sprintf("u%d", d.units)
	d.use(id, 0, d.top, func() string {
		var b, lines strings.Builder
		fmt.Fprintf(&b, `<g id="%s" class="rackshape">`, id)
		for unit := d.units; unit >= 1; unit-- {
			y := (d.units - unit) * unitHigh
			fmt.Fprintf(&b, `<text class="unit" x="%d" y="%d">%d</text>`, numbers-4, y+13, unit)
			if unit < d.units {
				fmt.Fprintf(&lines, "M%d %dh%d", numbers, y, rackWide-numbers)
			}
		}
		fmt.Fprintf(&b, "\n"+`<rect class="frame" x="%d.5" y=".5" width="%d" height="%d"/>`, numbers, rackWide-numbers-1, d.units*unitHigh-1)
		fmt.Fprintf(&b, `<path class="slots" d="%s"/></g>`, lines.String())
		return b.String()
	})
	d.put("\n")
}

// edge is the upper edge of a unit.
func (d *rackDrawing) edge(unit int) int { return d.top + (d.units-unit)*unitHigh }

func (d *rackDrawing) placed(p Placed) {
	inner := rackWide - numbers - 2
	x := numbers + 1 + p.Column*inner/p.Columns
	wide := (p.Column+1)*inner/p.Columns - p.Column*inner/p.Columns
	at := p.Node.Position
	d.machine(p.Node, x, d.edge(at.Top()), wide, (at.Top()-at.Unit+1)*unitHigh)
}

// loose draws the nodes without a position from y on, in two columns, and returns where
// the picture ends.
func (d *rackDrawing) loose(y int) int {
	all := d.e.Loose
	if len(all)+d.e.More == 0 {
		return y + 4
	}
	if len(d.e.Placed) > 0 || d.units > 0 {
		y += 16
		d.put(`<text class="dim" x="%d" y="%d">position unknown</text>`+"\n", numbers, y-4)
	}
	shown := all[:min(len(all), mostLoose)]
	wide := (rackWide - numbers - 1) / 2
	for i, n := range shown {
		d.machine(n, numbers+1+i%2*wide, y+i/2*unitHigh, wide, unitHigh)
	}
	y += (len(shown) + 1) / 2 * unitHigh
	if more := len(all) - len(shown) + d.e.More; more > 0 {
		y += 14
		d.put(`<text class="dim" x="%d" y="%d">… %d more</text>`+"\n", numbers, y-2, more)
	}
	return y + 4
}

// machine draws one node in a box.
func (d *rackDrawing) machine(n *site.NodeStatus, x, y, wide, high int) {
	l := d.e.view.lookOf(n)
	mark := endCut(l.mark, rackWide/2, markWide)
	var classes []string
	if mark != "" {
		classes = append(classes, l.class)
	}
	if !d.e.view.chooses(n) {
		classes = append(classes, "other")
	}
	class := ""
	if len(classes) > 0 {
		class = fmt.Sprintf(` class="%s"`, strings.Join(classes, " "))
	}
	open, shut := "<g"+class+">", "</g>"
	if link := d.e.view.Link; link != nil && !d.e.view.Merging[n.Name].New { // a new node has no page yet
		open, shut = fmt.Sprintf(`<a%s href="%s">`, class, inSVG(link(n.Name))), "</a>"
	}
	d.put(`%s<title>%s</title>`, open, inSVG(endCut(l.about, longestTitle, 1)))
	d.box(l, x, y, wide, high)
	d.words(n, l, mark, x, y, wide, high)
	d.put("%s\n", shut)
}

// look is how a machine is drawn.
type look struct {
	class, sign string // its colour, and its shape
	unseen      bool
	id          string // of the shape, different for different looks
	mark, about string // in a few words, and in a sentence
	alert       bool   // that somebody should look at it
}

// lookOf is the look of a node: its state, or what merging a proposal does to it.
func (v ElevationView) lookOf(n *site.NodeStatus) look {
	if v.Merging != nil {
		return mergingLook(v.mergingOf(n))
	}
	l := stateLook(n.State)
	l.mark, l.about, l.alert, l.unseen = Mark(n), description(n), len(Troubles(n)) > 0, n.Seen.IsZero()
	if l.unseen {
		l.id = "n" + l.id
	}
	return l
}

// stateLook is what all machines in a state have in common that were seen.
func stateLook(state site.State) look {
	if stateShapes[state] == "" {
		state = site.Unknown
	}
	return look{class: string(state), sign: stateShapes[state], id: fmt.Sprintf("s%d", slices.Index(site.States, state))}
}

// box draws the box of a machine, with the sign of its state.
func (d *rackDrawing) box(l look, x, y, wide, high int) {
	id, shape := l.shape(wide, high)
	if d.e.view.Apart && d.e.view.Merging == nil { // the shapes stay as they are when a machine is the first one in a state
		for _, state := range site.States {
			d.define(stateLook(state).shape(wide, high))
		}
	}
	d.use(id, x, y, shape)
}

// shape is the box of a look and a size, and its id.
func (l look) shape(wide, high int) (id string, draw func() string) {
	class, id := l.class, fmt.Sprintf("%s-%d", l.id, wide)
	if high != unitHigh {
		id += fmt.Sprintf("x%d", high)
	}
	if l.unseen {
		class += " unseen"
	}
	return id, func() string {
		return fmt.Sprintf(`<g id="%s" class="rackshape %s"><rect class="box" x="1" y="1" width="%d" height="%d" rx="2"/><rect class="badge" x="1" y="1" width="%d" height="%d" rx="2"/><path class="sign" transform="translate(3 4)" d="%s"/></g>`,
			id, class, wide-2, high-2, badgeWide-2, high-2, l.sign)
	}
}

// words writes a machine's name and mark: the mark at the right, or below the name where
// it is narrow and high enough.
func (d *rackDrawing) words(n *site.NodeStatus, l look, mark string, x, y, wide, high int) {
	left, right := x+badgeWide+3, x+wide-3
	if l.alert {
		right -= 14
		d.put(`<path class="alert" transform="translate(%d %d)" d="M5 .5l5 9H0zM5 4v2.5M5 7.5v1"/>`, right+2, y+4)
	}
	markAt := right - int(markWide*float64(utf8.RuneCountInString(mark)))
	switch {
	case mark == "":
	case markAt >= left+roomyFrom/2 && wide >= roomyFrom:
		d.put(`<text class="mark" x="%d" y="%d" text-anchor="end">%s</text>`, right, y+13, inSVG(mark))
		right = markAt - 4
	case high >= 2*unitHigh:
		d.put(`<text class="mark" x="%d" y="%d">%s</text>`, left, y+unitHigh+12, inSVG(endCut(mark, x+wide-3-left, markWide)))
	}
	class, letter := "", letterWide
	if wide < roomyFrom/2 {
		class, letter = ` class="small"`, markWide
	}
	d.put(`<text%s x="%d" y="%d">%s</text>`, class, left, y+13, inSVG(middleCut(n.Name, right-left, letter)))
}

// inSVG escapes a text for SVG. What a person cannot see in it is shown by its number.
func inSVG(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(site.Printable(text))) // a builder takes everything
	return b.String()
}

// middleCut shortens a name to a width in its middle: names differ mostly at their ends.
func middleCut(name string, wide int, letter float64) string {
	runes := []rune(bounded(name))
	if widthOf(runes, letter) <= float64(wide) {
		return string(runes)
	}
	room := float64(wide) - letter
	head, tail := 0, len(runes)
	for head < tail {
		next, last := widthOf(runes[head:head+1], letter), widthOf(runes[tail-1:tail], letter)
		if room -= last; room < 0 {
			break
		}
		tail--
		if room -= next; room < 0 || head >= tail {
			break
		}
		head++
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}

// endCut shortens a text to a width at its end.
func endCut(text string, wide int, letter float64) string {
	runes := []rune(bounded(text))
	if widthOf(runes, letter) <= float64(wide) {
		return string(runes)
	}
	room := float64(wide) - letter
	for i := range runes {
		if room -= widthOf(runes[i:i+1], letter); room < 0 {
			return string(runes[:i]) + "…"
		}
	}
	return string(runes)
}

// bounded is a foreign text in printable form, of a length that is worth measuring.
func bounded(text string) string {
	text = site.Printable(strings.ToValidUTF8(text[:min(len(text), 4*longestText)], "\ufffd"))
	return shorten(text)
}

// widthOf estimates the width of letters of which most are as wide as given.
func widthOf(runes []rune, letter float64) (wide float64) {
	for _, r := range runes {
		switch {
		case r >= 0x1100: // writing with letters as wide as high
			wide += 1.75 * letter
		case strings.ContainsRune("ijlIt.,:;|'!-() ", r):
			wide += .6 * letter
		case strings.ContainsRune("mwMW@%", r):
			wide += 1.5 * letter
		case r >= 'A' && r <= 'Z':
			wide += 1.2 * letter
		default:
			wide += letter
		}
	}
	return wide
}
