package forge

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestCommands(t *testing.T) {
	approve := Command{Verb: VerbApprove, Digest: "0123456789abcdef"}
	sha1, sha256 := strings.Repeat("0a", 20), strings.Repeat("0a", 32)
	for _, c := range []struct {
		name, body string
		want       Command
		wrong      string
	}{
		{"plan", "/slipway plan", Command{Verb: VerbPlan}, ""},
		{"as browsers send it", "/slipway plan\r\n", Command{Verb: VerbPlan}, ""},
		{"with a reason", "/slipway approve 0123456789abcdef\n\nChassis is empty, asked Mona.", approve, ""},
		{"after empty lines, spaced", "\r\n\n/slipway   approve\t0123456789abcdef  ", approve, ""},
		{"a fork's commit", "/slipway approve " + sha1, Command{Verb: VerbApprove, Commit: sha1}, ""},
		{"a fork's commit of SHA-256", "/slipway approve " + sha256 + "\r\nread it", Command{Verb: VerbApprove, Commit: sha256}, ""},
		{"the beginning of a commit", "/slipway approve " + sha1[:39], Command{}, "the whole ID"},
		{"more than a commit", "/slipway approve " + sha1 + "0a", Command{}, "the whole ID"},
		{"nothing", "", Command{}, ""},
		{"talk", "I would write /slipway plan", Command{}, ""},
		{"quoted", "> /slipway plan", Command{}, ""},
		{"code block", "```\n/slipway plan\n```", Command{}, ""},
		{"indented code", "    /slipway plan", Command{}, ""},
		{"on a later line", "Hello\n/slipway plan", Command{}, ""},
		{"another word", "/slipways plan", Command{}, ""},
		{"no verb", "/slipway", Command{}, "not known"},
		{"unknown verb", "/slipway aprove 0123456789abcdef", Command{}, "not known"},
		{"more words", "/slipway plan now", Command{}, "not known"},
		{"no digest", "/slipway approve", Command{}, "takes the digest"},
		{"short digest", "/slipway approve 0123", Command{}, "takes the digest"},
		{"digest in capitals", "/slipway approve 0123456789ABCDEF", Command{}, "takes the digest"},
		{"two digests", "/slipway approve 0123456789abcdef 0123456789abcdef", Command{}, "takes the digest"},
		{"an endless line", "/slipway plan" + strings.Repeat(" ", 1000), Command{}, "longer than any"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadCommand(c.body)
			if got != c.want || (err != nil) != (c.wrong != "") {
				t.Fatalf("got %v, %v, want %v", got, err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), "/slipway approve DIGEST")) {
				t.Errorf("got %v, want %q and what there is", err, c.wrong)
			}
		})
	}
}

func FuzzReadCommand(f *testing.F) {
	for _, s := range []string{"/slipway plan", "/slipway approve 0123456789abcdef\nbecause", "\r\n/slipway\tplan\r", "> /slipway plan", "/slipway\u00a0plan", "/slipway approve", "/slipway approve " + strings.Repeat("0a", 20)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c, err := ReadCommand(body)
		if c != (Command{}) && err != nil {
			t.Fatalf("%q is both %v and %v", body, c, err)
		}
		first, _, _ := strings.Cut(strings.TrimLeft(body, "\r\n"), "\n")
		if (c != (Command{}) || err != nil) && !strings.HasPrefix(first, "/slipway") {
			t.Errorf("%q is a command", body)
		}
		want := map[Verb]string{VerbPlan: "/slipway plan", VerbApprove: "/slipway approve " + c.Digest + c.Commit, "": ""}
		if got := strings.Join(strings.Fields(first), " "); c.Verb != "" && got != want[c.Verb] {
			t.Errorf("%q is read as %v", body, c)
		}
	})
}

func TestMarker(t *testing.T) {
	m := Marker{"berlin-1", "plan"}
	if got, want := m.String(), "<!-- slipway berlin%2D1 plan -->"; got != want {
		t.Errorf("the marker is %q, want %q", got, want)
	}
	for _, body := range []string{m.Mark("text"), m.String(), m.String() + "\r\ntext"} {
		if got, ok := ReadMarker(body); !ok || got != m {
			t.Errorf("%q has %v, %v, want %v", body, got, ok, m)
		}
	}
	for _, body := range []string{
		"", "text\n" + m.String(), " " + m.String(), "> " + m.String(), m.String() + " and more",
		"<!-- slipway berlin-1 plan -->", "<!-- slipway berlin%2d1 plan -->", "<!-- slipway %zz plan -->", "<!-- slipway plan -->", "<!-- slipway a b c -->",
	} {
		if got, ok := ReadMarker(body); ok {
			t.Errorf("%q has the marker %v", body, got)
		}
	}
}

func FuzzMarker(f *testing.F) {
	f.Add("berlin-1", "plan", "<!-- slipway berlin%2D1 plan -->\ntext")
	f.Add("--> <b>", "\n", "<!-- slipway  -->")
	f.Add("", "", "<!-- slipway a+b c%2Dd -->\r\n")
	f.Fuzz(func(t *testing.T, site, kind, body string) {
		m := Marker{site, kind}
		line := m.String()
		if inner := strings.TrimSuffix(strings.TrimPrefix(line, "<!--"), "-->"); strings.ContainsAny(inner, "<>\n\r@") || strings.Contains(inner, "-") {
			t.Errorf("%q and %q break out of %q", site, kind, line)
		}
		if got, ok := ReadMarker(m.Mark(body)); !ok || got != m {
			t.Errorf("%v is read as %v, %v", m, got, ok)
		}
		if got, ok := ReadMarker(body); ok && !strings.HasPrefix(body, got.String()) {
			t.Errorf("%q has %v, which is written %q", body, got, got)
		}
	})
}

func TestEqualHintsAreOne(t *testing.T) {
	h := NewHints()
	one, two := Hint{About: AboutProposal, Number: 1}, Hint{About: AboutBranch, Branch: "main"}
	for range 40 {
		h.Add(one)
		h.Add(two)
	}
	if got := drain(t, h); len(got) != 2 || got[0] != one || got[1] != two {
		t.Errorf("got %v, want one of each in order", got)
	}
	h.Add(one)
	if got := drain(t, h); len(got) != 1 {
		t.Errorf("a hint after it was taken is lost: %v", got)
	}
}

// Too many hints are not dropped: they become one that is about anything.
func TestManyHints(t *testing.T) {
	h := NewHints()
	for n := range 10 * maxHints {
		h.Add(Hint{About: AboutProposal, Number: n})
	}
	if got := drain(t, h); len(got) != 1 || got[0].About != AboutAnything {
		t.Errorf("got %d hints, want one about anything", len(got))
	}
}

func drain(t *testing.T, h *Hints) []Hint {
	t.Helper()
	var all []Hint
	for {
		x, ok := h.take()
		if !ok {
			return all
		}
		all = append(all, x)
	}
}

func TestHintsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHints()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan Hint, 2)
		ended := make(chan error, 1)
		go func() {
			for {
				x, err := h.Next(ctx)
				if err != nil {
					ended <- err
					return
				}
				got <- x
			}
		}()
		synctest.Wait()
		h.Add(Hint{About: AboutAnything})
		if x := <-got; x.About != AboutAnything {
			t.Errorf("got %v", x)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's end", err)
		}
	})
}
