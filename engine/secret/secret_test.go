package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const canary = "hunter2-canary"

// holder keeps a value where package fmt can call no method on it.
type holder struct{ value Value }

type exported struct{ Value Value }

func TestValueIsNeverPrinted(t *testing.T) {
	v := New("admin-"+canary, canary)
	for name, x := range map[string]any{
		"value": v, "pointer": &v, "slice": []Value{v}, "map": map[string]Value{"k": v},
		"unexported field": holder{v}, "pointer to unexported field": &holder{v},
		"exported field": exported{v}, "error": fmt.Errorf("log in with %v: %w", v, errors.New("denied")),
	} {
		var out bytes.Buffer
		for _, verb := range "vTtbcdoOqxXUeEfFgGsp" {
			for _, flags := range []string{"", "+", "#", "-20", "020.3", "# +"} {
				fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", x)
			}
		}
		fmt.Fprintln(&out, x)
		if b, err := json.Marshal(x); err == nil {
			out.Write(b)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "x", x, slog.Group("g", "x", x))
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "x", x, slog.Group("g", "x", x))
		if strings.Contains(out.String(), canary) {
			t.Errorf("%s: the value shows in %q", name, out.String())
		}
	}
}

func TestValuePrintsRedacted(t *testing.T) {
	v := New("admin", canary)
	text, _ := v.MarshalText()
	for _, got := range []string{
		fmt.Sprintf("%v", v), fmt.Sprintf("%d", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%x", v),
		v.String(), v.GoString(), v.LogValue().String(), string(text),
	} {
		if got != "[redacted]" {
			t.Errorf("got %q, want [redacted]", got)
		}
	}
}

func TestValuesAreEqualByContent(t *testing.T) {
	for _, c := range []struct {
		a, b Value
		want bool
	}{
		{New("a", "b"), New("a", "b"), true},
		{New("a", "b"), New("a", "c"), false},
		{New("a", "b"), New("b", "b"), false},
	} {
		if got := c.a == c.b; got != c.want {
			t.Errorf("%q and %q are equal: got %v, want %v", c.a.Reveal(), c.b.Reveal(), got, c.want)
		}
	}
	var none Value
	if !none.IsZero() || !New("", "").IsZero() || New("a", "").IsZero() {
		t.Error("only a value without content is zero")
	}
	if none.Username() != "" || none.Reveal() != "" {
		t.Error("the zero value has content")
	}
}
