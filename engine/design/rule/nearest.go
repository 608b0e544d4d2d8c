package rule

import (
	"fmt"
	"strings"
)

// DidYouMean returns "; did you mean …?" when one of the known names is near,
// and an empty text otherwise.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// many limits the known names for "did you mean" where there can be many wrong
// names. A site with more gets no such hints, so that the time for a check
// grows with the site and not with its square.
const many = 1000

// didYouMean is DidYouMean for the names of a section.
func didYouMean[V any](name string, in map[string]V) string {
	if len(in) > many {
		return ""
	}
	return DidYouMean(name, keys(in))
}

// Nearest returns the known name most similar to name, or an empty text when
// none is near.
func Nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance returns how many letters must be added, removed, replaced or swapped
// with a neighbour to turn a into b (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(cut(a)), []rune(cut(b))
	var before []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		next := make([]int, len(y)+1)
		next[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			next[j+1] = min(next[j]+1, row[j+1]+1, row[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}

// cut limits the length of compared names; no name of Slipway is longer.
func cut(s string) string { return s[:min(len(s), 64)] }
