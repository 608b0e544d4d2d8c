// Package say puts amounts into words: counts, lists of names, sizes, durations and times.
package say

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Count returns a number of things: "1 node", "3 nodes".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	switch {
	case strings.HasSuffix(what, "ss"):
		what += "e"
	case strings.HasSuffix(what, "ry"):
		what = strings.TrimSuffix(what, "y") + "ie"
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// OrNone returns the text, or "none" if it is empty.
func OrNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Some returns the first names of a list, up to most, and how many more there are.
func Some(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Few sorts the names and returns all of them, or, if there are more than 4, the first three
// and how many there are.
func Few(names []string) string {
	slices.Sort(names)
	if len(names) > 4 {
		return fmt.Sprintf("%s, … (%d nodes)", strings.Join(names[:3], ", "), len(names))
	}
	return strings.Join(names, ", ")
}

// Brief returns a duration without its zero parts: "3m", not "3m0s".
func Brief[D ~int64](d D) string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Rough returns a duration rounded to the second, or to the minute if it is longer than an
// hour.
func Rough(d time.Duration) string {
	if d > time.Hour {
		return Brief(d.Round(time.Minute))
	}
	return Brief(d.Round(time.Second))
}

// Size returns a drive's size as vendors print it, in GB or TB of powers of ten; empty if
// unknown.
func Size(bytes int64) string {
	switch {
	case bytes <= 0:
		return ""
	case bytes < 1e12:
		return fmt.Sprintf("%d GB", bytes/1e9)
	}
	return strconv.FormatFloat(math.Round(float64(bytes)/1e10)/100, 'f', -1, 64) + " TB"
}

// Clock returns a time with its day and zone: "Mon 2006-01-02 15:04 UTC".
func Clock(t time.Time) string { return t.Format("Mon 2006-01-02 15:04 MST") }
