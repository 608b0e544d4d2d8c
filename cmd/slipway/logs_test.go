package main

import (
	"bytes"
	"testing"
)

func TestNews(t *testing.T) {
	for _, c := range []struct{ last, now, want string }{
		{"", "a\nb\n", "a\nb\n"},
		{"a\nb\n", "a\nb\nc\n", "c\n"},
		{"a\nb\nc\n", "b\nc\nd\n", "b\nc\nd\n"}, // too short to be found again
		{"made anew", "other", "other"},
		{"same", "same", ""},
	} {
		if got := news([]byte(c.last), []byte(c.now)); string(got) != c.want {
			t.Errorf("after %q, %q: got %q, want %q", c.last, c.now, got, c.want)
		}
	}
}

func TestConsoleOnAScreen(t *testing.T) {
	for raw, want := range map[bool]string{false: "a\\u202eb\n", true: "a\x1b[1m\u202eb\r\n"} {
		var b bytes.Buffer
		a := app{out: &screen{&b}, output: "text"}
		if err := a.printConsole("n1", []byte("a\x1b[1m\u202eb\r\n"), logFlags{raw: raw}); err != nil || b.String() != want {
			t.Errorf("raw %t: got %q, %v, want %q", raw, b.String(), err, want)
		}
	}
}
