package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// canvas is a picture of a stretch of time that is being drawn, from top to bottom.
type canvas struct {
	left, right float64 // of the time
	timeline
	y    float64 // where the next thing is drawn
	body strings.Builder
}

func (c *canvas) put(format string, args ...any) { fmt.Fprintf(&c.body, format, args...) }

// fits is how many characters have room in a width.
func (c *canvas) fits(wide float64) int { return max(8, int(wide/glyph)) }

func (c *canvas) text(x, y float64, class, text string) {
	c.put("<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, inSVG(text))
}

// at is where a time is drawn.
func (c *canvas) at(t time.Time) float64 { return c.left + c.timeline.at(t) }

// axis draws the scale: days above times.
func (c *canvas) axis() {
	days, times := c.y+lineHigh, c.y+2*lineHigh
	if c.left > margin {
		c.text(margin, times, "dim", "UTC")
	}
	last := -1e9
	for _, tick := range c.ticks() {
		x := c.at(tick.at)
		if tick.day != "" && x-last > 12*glyph {
			c.text(x, days, "dim", tick.day)
			last = x
		}
		if tick.label != "" && x+float64(len(tick.label))*glyph <= c.right+margin {
			c.text(x, times, "dim", tick.label)
		}
	}
	c.y = times + 6
}

// grid draws the ticks over all that was drawn from a height on.
func (c *canvas) grid(top float64) {
	for _, tick := range c.ticks() {
		x := c.at(tick.at)
		c.put("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", x, x, top, c.y)
	}
}

func (c *canvas) band(class string, s site.Span, y, high float64) {
	from, to := c.at(s.From), c.at(s.To)
	c.put("<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, from, y, max(2, to-from), high)
}
