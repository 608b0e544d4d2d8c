package markdown

import "regexp"

// signs are what GitHub finds in text that is rendered; addresses it finds
// before. Where its rules are not documented they find more than it does, but
// for what a space without width keeps apart.
var signs = []struct {
	kind string
	what *regexp.Regexp
}{
	{"mention", regexp.MustCompile(`(?i)(?:^|[^a-z0-9_])(@[a-z0-9][a-z0-9-]*(?:/[a-z0-9_.-]+)?)`)},
	{"issue", regexp.MustCompile(`(?i)((?:[a-z0-9-]+(?:/[a-z0-9_.-]+)?)?#\d+)`)},
	{"issue", regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(gh-\d+)`)},
	{"commit", regexp.MustCompile(`(?i)([a-z0-9-]+(?:/[a-z0-9_.-]+)?@[0-9a-f]{7,40})`)},
	{"emoji", regexp.MustCompile(`(?i)(:[a-z0-9_+-]+:)`)},
	{"formula", regexp.MustCompile(`(\$[^$\s\x{200b}][^$]*\$)`)},
}
