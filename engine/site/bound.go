package site

import (
	"strconv"
	"strings"
)

// Bound reads a bound as the design writes it: a count ("2") or a share of so
// many ("25%", rounded down). What cannot be read is 0; whoever needs at least
// one takes the greater.
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
