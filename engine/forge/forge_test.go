package forge

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

// set is the digest of a set, as long as digests are.
var set = strings.Repeat("0123456789abcdef", 4)[:site.DigestDigits]

func TestCommands(t *testing.T) {
	approve := Command{Verb: VerbApprove, Digest: set}
	sha1, sha256 := strings.Repeat("0a", 20), strings.Repeat("0a", 32)
	for _, c := range []struct {
		name, body string
		want       Command
	}{
		{"plan", "/slipway plan", Command{Verb: VerbPlan}},
		{"as browsers send it", "/slipway plan\r\n", Command{Verb: VerbPlan}},
		{"with a reason", "/slipway approve " + set + "\n\nChassis is empty, asked Mona.", approve},
		{"after empty lines, spaced", "\r\n\n/slipway   approve\t" + set + "  ", approve},
		{"disapprove", "/slipway disapprove " + set, Command{Verb: VerbDisapprove, Digest: set}},
		{"a fork's commit", "/slipway approve " + sha1, Command{Verb: VerbApprove, Commit: sha1}},
		{"a fork's commit of SHA-256", "/slipway approve " + sha256 + "\r\nread it", Command{Verb: VerbApprove, Commit: sha256}},
		{"a command is not looked for behind another", "/slipway plan\n/slipway approve " + set, Command{Verb: VerbPlan}},
		{"nothing", "", Command{}},
		{"talk", "I would write /slipway plan", Command{}},
		{"talk on a later line", "Hello\n/slipway is nice", Command{}},
		{"the command of a shell", "slipway approve " + set, Command{}},
		{"another word", "/slipways plan", Command{}},
		{"a path", "/slipway/docs/github.md says so", Command{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := ReadCommand(c.body); got != c.want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// What almost is a command is none, and whoever wrote it can be told why.
func TestNearMisses(t *testing.T) {
	sha1 := strings.Repeat("0a", 20)
	for _, c := range []struct{ name, body, why string }{
		{"no command", "/slipway", "missing"},
		{"unknown", "/slipway aprove " + set, "no such command"},
		{"unknown, and endless", "/slipway plan" + strings.Repeat(" ", 1000), "longer than any"},
		{"more words", "/slipway plan now", "something follows"},
		{"no digest", "/slipway approve", "digest is missing, which approve needs"},
		{"nothing to disapprove", "/slipway disapprove", "digest is missing, which disapprove needs"},
		{"a short digest", "/slipway approve 0123", "has 4 digits"},
		{"a digest with one digit less", "/slipway approve " + set[1:], "digits and needs"},
		{"a digest with one digit more", "/slipway approve " + set + "0", "digits and needs"},
		{"a digest in capitals", "/slipway approve " + strings.ToUpper(set), "small letters"},
		{"no digest at all", "/slipway approve everything", "is not a digest"},
		{"two digests", "/slipway approve " + set + " " + set, "something follows the digest"},
		{"a reason in the line", "/slipway approve " + set + " please", "something follows the digest"},
		{"the beginning of a commit", "/slipway approve " + sha1[:39], "digits and needs"},
		{"more than a commit", "/slipway approve " + sha1 + "0a", "digits and needs"},
		{"a commit to disapprove", "/slipway disapprove " + sha1, "digits and needs"},
		{"a space before it", " /slipway approve " + set, "a space before it"},
		{"capital", "/Slipway approve " + set, "small letters"},
		{"a capital verb", "/slipway Approve " + set, "no such command"},
		{"in backticks", "`/slipway approve " + set + "`", "as code"},
		{"in a code block", "```\n/slipway plan\n```", "not in the first line"},
		{"indented code", "    /slipway plan", "as code"},
		{"quoted", "> /slipway plan", "in a quote"},
		{"quoted, later", "You wrote\n\n> /slipway approve " + set + "\n\nWhy?", "in a quote"},
		{"on a later line", "Hello\n/slipway plan", "not in the first line"},
		{"a non-breaking space", "/slipway\u00a0approve " + set, "invisible"},
		{"a non-breaking space before the digest", "/slipway approve\u00a0" + set, "invisible"},
		{"a form feed", "/slipway approve\f" + set, "invisible"},
		{"no width before it", "\u200b/slipway approve " + set, "invisible"},
		{"no width in the digest", "/slipway approve " + set[:4] + "\u200b" + set[4:], "invisible"},
		{"a mark of direction", "/slipway approve \u202e" + set, "invisible"},
		{"a byte order mark", "\ufeff/slipway plan", "invisible"},
		{"another slash", "／slipway approve " + set, "before /slipway"},
		{"a colon", "/slipway: plan", "a space"},
		{"bold", "**/slipway plan**", "before /slipway"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadCommand(c.body)
			var miss *NotACommand
			if got != (Command{}) || !errors.As(err, &miss) || !strings.Contains(miss.Why, c.why) {
				t.Fatalf("got %v, %v, want %q", got, err, c.why)
			}
			if !strings.Contains(err.Error(), "/slipway approve DIGEST") {
				t.Errorf("%v does not say what there is", err)
			}
		})
	}
}

// exact are the lines that are commands. The rest of a comment counts for
// nothing.
var exact = regexp.MustCompile(`^[\r\n]*/slipway[ \t]+(plan|(approve|disapprove)[ \t]+[0-9a-f]+)[ \t\r]*(\n|$)`)

// Whatever is done to a command, it is one in its exact form alone; and where it
// still looks like one it is not passed over in silence.
func TestNoNearMissIsACommand(t *testing.T) {
	spoil := []rune{' ', '\t', '\n', '>', '`', '*', '\u00a0', '\u200b', '\u200d', '\u202e', '\ufeff', '\u2003', '\f', '\v', 0, 'x', '0', 'A', 'é', '／'}
	commands := []string{"/slipway plan", "/slipway approve " + set, "/slipway disapprove " + set, "/slipway approve " + strings.Repeat("0a", 20)}
	dice := rand.New(rand.NewPCG(15, 3))
	for range 100_000 {
		body := []rune(commands[dice.IntN(len(commands))])
		for range 1 + dice.IntN(3) {
			at := dice.IntN(len(body) + 1)
			if dice.IntN(2) == 0 {
				at = min(at, len("/slipway approve "))
			}
			switch dice.IntN(4) {
			case 0:
				body = slices.Delete(body, min(at, len(body)-1), min(at, len(body)-1)+1)
			case 1:
				i := min(at, len(body)-1)
				body[i] = unicode.ToUpper(body[i])
			default:
				body = slices.Insert(body, at, spoil[dice.IntN(len(spoil))])
			}
		}
		checkCommand(t, string(body))
	}
}

func checkCommand(t *testing.T, body string) {
	t.Helper()
	c, err := ReadCommand(body)
	if c != (Command{}) && err != nil {
		t.Fatalf("%q is both %v and %v", body, c, err)
	}
	if c.Verb != "" && !exact.MatchString(body) {
		t.Errorf("%q is read as %v", body, c)
	}
	if c.Digest != "" && !site.IsDigest(c.Digest) || c.Commit != "" && c.Verb != VerbApprove {
		t.Errorf("%q is read as %v", body, c)
	}
	first, _, _ := strings.Cut(strings.TrimLeft(body, "\r\n"), "\n")
	want := map[Verb]string{VerbPlan: "/slipway plan", VerbApprove: "/slipway approve " + c.Digest + c.Commit, VerbDisapprove: "/slipway disapprove " + c.Digest}
	if got := strings.Join(strings.Fields(first), " "); c.Verb != "" && got != want[c.Verb] {
		t.Errorf("%q is read as %v", body, c)
	}
	looks := strings.HasPrefix(strings.ToLower(strings.TrimLeft(first, " >`*\u200b\ufeff")), "/slipway ")
	if looks && c.Verb == "" && err == nil {
		t.Errorf("%q is passed over in silence", body)
	}
}

func FuzzReadCommand(f *testing.F) {
	for _, s := range []string{"/slipway plan", "/slipway approve " + set + "\nbecause", "\r\n/slipway\tplan\r", "> /slipway plan", "/slipway\u00a0plan", "/slipway approve", "/slipway approve " + strings.Repeat("0a", 20)} {
		f.Add(s)
	}
	f.Fuzz(checkCommand)
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
