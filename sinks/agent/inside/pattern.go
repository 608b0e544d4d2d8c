package inside

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first used. The helper is started for each look and needs
// few of them. An invalid pattern panics at its first use.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
