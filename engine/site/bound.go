package site

import (
	"strconv"
	"strings"
)

// Bound parses a bound of the design: a count ("2") or a percentage of the
// given number ("25%", rounded down). It returns 0 for text that it cannot
// parse. A caller that needs at least 1 applies its own minimum.
func Bound(text string, of int) int {
	share, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(share)
	switch {
	case err != nil || n < 0:
		return 0
	case isShare:
		return min(n, 100) * of / 100
	}
	return n
}
