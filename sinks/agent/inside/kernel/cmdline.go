package kernel

import (
	"fmt"
	"strings"
)

// parameter is one word of a kernel's command line.
type parameter struct {
	name, value string
	bare        bool // without "="
}

// parse reads a command line like the kernel: double quotes, around a value or a whole word, keep spaces and are
// dropped. Everything after "--" is for init.
func parse(line string) (all []parameter) {
	for rest := strings.TrimLeft(line, " \t\n\r"); rest != ""; rest = strings.TrimLeft(rest, " \t\n\r") {
		end, quoted, equals := 0, false, -1
		for ; end < len(rest) && (quoted || !strings.ContainsRune(" \t\n\r", rune(rest[end]))); end++ {
			switch {
			case rest[end] == '"':
				quoted = !quoted
			case rest[end] == '=' && equals < 0:
				equals = end
			}
		}
		word := rest[:end]
		rest = rest[end:]
		if word == "--" {
			return all
		}
		p := parameter{name: word, bare: true}
		if equals >= 0 {
			p = parameter{name: word[:equals], value: unquote(word[equals+1:])}
		}
		if inner, ok := strings.CutPrefix(p.name, `"`); ok { // around the whole word
			p.name = inner
			if p.bare {
				p.name = strings.TrimSuffix(inner, `"`)
			}
			p.value = strings.TrimSuffix(p.value, `"`)
		}
		if p.name != "" {
			all = append(all, p)
		}
	}
	return all
}

func unquote(v string) string {
	if inner, ok := strings.CutPrefix(v, `"`); ok {
		return strings.TrimSuffix(inner, `"`)
	}
	return v
}

// same reports whether two names mean the same parameter: the kernel treats "-" and "_" alike.
func same(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}

// bareText is the text in designs of a parameter without a value.
const bareText = "true"

// want makes a parameter from its text.
func want(name, text string) parameter {
	if text == bareText {
		return parameter{name: name, bare: true}
	}
	return parameter{name: name, value: text}
}

// find returns the text of a parameter. The last one with the name counts.
func find(all []parameter, name string) (text string, found bool) {
	for _, p := range all {
		if same(p.name, name) {
			if text, found = p.value, true; p.bare {
				text = bareText
			}
		}
	}
	return text, found
}

// without removes a parameter from a command line.
func without(all []parameter, name string) (rest []parameter) {
	for _, p := range all {
		if !same(p.name, name) {
			rest = append(rest, p)
		}
	}
	return rest
}

// text is a parameter as written on the command line.
func (p parameter) text() string {
	switch {
	case p.bare:
		return p.name
	case strings.ContainsAny(p.value, " \t"):
		return p.name + `="` + p.value + `"`
	}
	return p.name + "=" + p.value
}

func join(all []parameter) string {
	words := make([]string, 0, len(all))
	for _, p := range all {
		words = append(words, p.text())
	}
	return strings.Join(words, " ")
}

// bad says why a parameter cannot be written; empty if it can. It rejects characters that boot loaders and shells
// interpret.
func bad(name, value string) string {
	wrong := name == "" || name == "--" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	}) || strings.HasPrefix(name, "-")
	if wrong {
		return fmt.Sprintf("%q is not a name of a kernel parameter", name)
	}
	if len(value) > 1024 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("\"'`$\\", r) }) ||
		!strings.ContainsAny(value, " ") && strings.ContainsAny(value, ";&|<>{}") || strings.Trim(value, " ") != value {
		return fmt.Sprintf("the value %q cannot be written for every boot loader: use printable ASCII without quotes, $ and \\, and at most 1024 bytes", value)
	}
	return ""
}
