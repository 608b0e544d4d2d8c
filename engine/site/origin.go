package site

import (
	"fmt"
	"strconv"
	"strings"
	"unique"
)

// Origin is where a value was set. Its strings are interned: a site holds one
// origin per value and few different files and layers.
type Origin struct {
	// File is a slash-separated path inside the revision, or
	// "schema/<file>" for a default of the schema.
	File unique.Handle[string]
	Line int
	Col  int
	// Layer names what set the value: "profile/NAME", "node/NAME", "site" or
	// "schema".
	Layer unique.Handle[string]
}

// Before reports whether o is in the same file as other and precedes it.
func (o Origin) Before(other Origin) bool {
	return o.File == other.File && (o.Line < other.Line || o.Line == other.Line && o.Col < other.Col)
}

// At returns the origin with these fields.
func At(file string, line, col int, layer string) Origin {
	return Origin{File: unique.Make(file), Line: line, Col: col, Layer: unique.Make(layer)}
}

// IsZero reports whether the origin is unset.
func (o Origin) IsZero() bool { return o == Origin{} }

// String is the origin as file:line:col, empty when it is unset.
func (o Origin) String() string {
	if o.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", o.File.Value(), o.Line, o.Col)
}

// LayerName returns the layer that set the value, empty if it is unset.
func (o Origin) LayerName() string {
	if o.IsZero() {
		return ""
	}
	return o.Layer.Value()
}

// MarshalText writes "file:line:col layer".
func (o Origin) MarshalText() ([]byte, error) {
	if o.IsZero() {
		return nil, nil
	}
	return []byte(o.String() + " " + o.Layer.Value()), nil
}

// UnmarshalText reads what MarshalText writes.
func (o *Origin) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*o = Origin{}
		return nil
	}
	place, layer, _ := cutLast(string(text), " ")
	rest, col, ok1 := cutLast(place, ":")
	file, line, ok2 := cutLast(rest, ":")
	l, err1 := strconv.Atoi(line)
	c, err2 := strconv.Atoi(col)
	if !ok1 || !ok2 || err1 != nil || err2 != nil {
		return fmt.Errorf("origin %q is not file:line:col layer", text)
	}
	*o = At(file, l, c, layer)
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
