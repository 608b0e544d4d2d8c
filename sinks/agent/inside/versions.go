package inside

import "strings"

// CompareVersions compares runs of digits as numbers, and other runs by character. As in dpkg and rpm, "~" sorts
// before everything.
func CompareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a = cutRun(a, false)
		y, b = cutRun(b, false)
		if c := compareText(x, y); c != 0 {
			return c
		}
		x, a = cutRun(a, true)
		y, b = cutRun(b, true)
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// cutRun cuts a run of digits, or of other characters, off the front.
func cutRun(s string, digits bool) (run, rest string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9') == digits {
		i++
	}
	return s[:i], s[i:]
}

func compareText(x, y string) int {
	rank := func(s string, i int) int {
		switch {
		case i >= len(s):
			return 0
		case s[i] == '~':
			return -1
		case s[i] >= 'a' && s[i] <= 'z', s[i] >= 'A' && s[i] <= 'Z':
			return int(s[i])
		}
		return int(s[i]) + 256
	}
	for i := 0; i < max(len(x), len(y)); i++ {
		if c := rank(x, i) - rank(y, i); c != 0 {
			return c
		}
	}
	return 0
}
