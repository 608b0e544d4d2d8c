package site

import (
	"strconv"
	"strings"
)

// Bound parses a bound of the design: a count ("2") or a percentage of the
// given number ("25%", rounded down). It returns 0 for text that it cannot
// parse. A caller that needs at least 1 applies its own minimum.
func Bound(text string, of int) int { return ReadLimit(text).Of(of) }

// Limit is a bound that was read before, for those who ask for it again and again. The zero value allows none.
type Limit struct {
	n       int
	isShare bool // n is in percent
}

// ReadLimit returns the limit that a text of the design sets.
func ReadLimit(text string) Limit {
	share, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(share)
	if err != nil || n < 0 {
		return Limit{}
	}
	return Limit{n, isShare}
}

// Of returns how many of that many nodes the limit allows, as Bound does.
func (l Limit) Of(of int) int {
	if l.isShare {
		return min(l.n, 100) * of / 100
	}
	return l.n
}
