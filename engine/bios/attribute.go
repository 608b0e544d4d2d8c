package bios

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// accept returns a designed value in canonical form, or says what is wrong with
// it.
func (a Attribute) accept(v string) (string, error) {
	switch a.Type {
	case "Enumeration":
		return a.choose(v)
	case "Integer":
		return a.count(v)
	case "Boolean":
		if v != "true" && v != "false" {
			return "", fmt.Errorf("%q is neither true nor false", v)
		}
	case "String":
		return v, a.measure(v)
	case "Password":
		return "", fmt.Errorf("it is a password, which does not belong in Git and cannot be read back; set it by hand")
	}
	return v, nil
}

func (a Attribute) choose(v string) (string, error) {
	if c := a.ChoiceOf(v); c != "" || len(a.Choices) == 0 {
		return orText(c, v), nil
	}
	names := make([]string, 0, 12)
	for _, c := range a.Choices[:min(len(a.Choices), 12)] {
		names = append(names, c.Name)
	}
	return "", fmt.Errorf("%q is not one of its values: %s", v, brief(strings.Join(names, ", ")))
}

// ChoiceOf returns the name of a value, given its name or its display text;
// empty for no such value.
func (a Attribute) ChoiceOf(v string) string {
	for _, by := range []func(Choice) string{func(c Choice) string { return c.Name }, func(c Choice) string { return c.Display }} {
		for _, c := range a.Choices {
			if by(c) == v {
				return c.Name
			}
		}
	}
	return ""
}

func (a Attribute) count(v string) (string, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is not a whole number", v)
	case a.Lower != nil && n < *a.Lower, a.Upper != nil && n > *a.Upper:
		return "", fmt.Errorf("%d is not within %s", n, a.bounds())
	case a.Step > 1 && a.Lower != nil && (n-*a.Lower)%a.Step != 0:
		return "", fmt.Errorf("%d is not %d and a multiple of %d more", n, *a.Lower, a.Step)
	}
	return strconv.FormatInt(n, 10), nil
}

func (a Attribute) bounds() string {
	switch {
	case a.Upper == nil:
		return fmt.Sprintf("%d or more", *a.Lower)
	case a.Lower == nil:
		return fmt.Sprintf("%d or less", *a.Upper)
	}
	return fmt.Sprintf("%d to %d", *a.Lower, *a.Upper)
}

func (a Attribute) measure(v string) error {
	n := int64(len(v))
	switch {
	case n < a.Least && n > 0, a.Most > 0 && n > a.Most:
		return fmt.Errorf("it has %d letters, and may have %d to %d", n, a.Least, a.Most)
	case !matches(a.Pattern, v):
		return fmt.Errorf("it does not match %s", brief(a.Pattern))
	}
	return nil
}

// matches reports whether a text matches a pattern. Vendors write patterns in
// several dialects; a pattern that is not valid in Go matches everything.
func matches(pattern, text string) bool {
	p, err := regexp.Compile(pattern)
	return err != nil || p.MatchString(text)
}

// Canonical returns the name of a value that the machine shows, even if the
// machine shows the display text.
func (a Attribute) Canonical(shown string) string {
	if a.Type == "Enumeration" {
		return orText(a.ChoiceOf(shown), shown)
	}
	return shown
}
