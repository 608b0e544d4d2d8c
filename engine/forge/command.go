package forge

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Verb is what a comment asks for.
type Verb string

// The verbs.
const (
	VerbPlan       Verb = "plan"       // plan again, now
	VerbApprove    Verb = "approve"    // approve the set of destruction with the digest, or a fork's commit
	VerbDisapprove Verb = "disapprove" // end the approval of the set with the digest
)

// Command is a comment that asks for something.
type Command struct {
	Verb   Verb
	Digest string // as site.Losses.Digest writes it
	Commit string // of VerbApprove in a fork, in the place of the digest: the whole ID
}

// NotACommand is the error of a comment that was meant as a command and is none.
type NotACommand struct {
	// Why says what is wrong with it, in words that need no escaping.
	Why string
}

func (e *NotACommand) Error() string { return e.Why + "; write " + strings.Join(Usage, ", or ") }

// Usage are the forms of a command, each alone in the first line of a comment.
var Usage = []string{address + " plan", address + " approve DIGEST", address + " disapprove DIGEST"}

// address is the word by which a comment turns to us.
const address = "/slipway"

// maxCommand bounds the line of a command, maxMeant how much of a comment is
// searched for a line that was meant as one, in bytes.
const maxCommand, maxMeant = 200, 16 << 10

// A commit is named by all of its ID: what is shorter fits others, which who
// proposes can make.
var commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// ReadCommand reads a comment. One that is not for us gives no verb and no
// error; one that is, or that somebody meant to be, and is no command, gives a
// NotACommand.
//
// The command is the comment's first line and stands alone in it: "/slipway", the
// verb and what it is about, with spaces or tabs between them. What follows is
// not read, so that a reason can be given. A command that is quoted, shown in a
// code block, or almost written like one is none: an approval is what a person
// wrote on purpose.
func ReadCommand(body string) (Command, error) {
	line, _, _ := strings.Cut(strings.TrimLeft(body, "\r\n"), "\n")
	words := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" \t\r", c) })
	if !strings.HasPrefix(line, address) || words[0] != address {
		return Command{}, meant(body)
	}
	if len(line) > maxCommand {
		return Command{}, &NotACommand{"the line is longer than any command"}
	}
	c, why := parse(words[1:])
	if why != "" && isOdd(line) {
		why = oddCharacter
	}
	if why != "" {
		return Command{}, &NotACommand{why}
	}
	return c, nil
}

// parse reads the words of a command, or says what is wrong with them.
func parse(words []string) (c Command, why string) {
	if len(words) == 0 {
		return c, "the command itself is missing"
	}
	verb, about := Verb(words[0]), words[1:]
	switch {
	case verb == VerbPlan && len(about) == 0:
		return Command{Verb: verb}, ""
	case verb == VerbPlan:
		return c, "something follows the command on its line: put it on the next one"
	case verb != VerbApprove && verb != VerbDisapprove:
		return c, "there is no such command"
	case len(about) == 0:
		return c, fmt.Sprintf("the digest is missing, which %s needs", verb)
	case len(about) > 1:
		return c, "something follows the digest on its line: put it on the next one"
	case site.IsDigest(about[0]):
		return Command{Verb: verb, Digest: about[0]}, ""
	case verb == VerbApprove && commit.MatchString(about[0]):
		return Command{Verb: verb, Commit: about[0]}, ""
	}
	return c, wrongDigest(about[0])
}

func wrongDigest(word string) string {
	switch {
	case strings.Trim(strings.ToLower(word), "0123456789abcdef") != "":
		return fmt.Sprintf("what follows it is not a digest, which has %d of 0-9 and a-f", site.DigestDigits)
	case word != strings.ToLower(word):
		return "write the digest in small letters"
	}
	return fmt.Sprintf("the digest has %d digits and needs %d, and the ID of a fork's commit 40 or 64",
		len(word), site.DigestDigits)
}

const oddCharacter = "there is an invisible character in it, or a space that is not the one of the keyboard"

// meant says that a comment has a line that somebody meant as a command; it is
// nil for one that is talk.
func meant(body string) error {
	if len(body) > maxMeant {
		body = body[:maxMeant]
	}
	first := true
	for line := range strings.Lines(body) {
		bare := bared(line)
		if bare == "" && strings.Trim(line, "\r\n") == "" {
			continue
		}
		if isMeant(bare, first) {
			return &NotACommand{misplaced(line, first)}
		}
		first = false
	}
	return nil
}

// isMeant says whether a bared line begins like a command. On the first line that
// is enough; on others the line has to go on like one.
func isMeant(bare string, first bool) bool {
	rest, is := strings.CutPrefix(bare, address)
	if !is || rest != "" && !strings.ContainsAny(rest[:1], " :,") {
		return false
	}
	verb, _, _ := strings.Cut(strings.TrimLeft(rest, " :,"), " ")
	switch Verb(strings.Trim(verb, "`*_.,;:")) {
	case VerbPlan, VerbApprove, VerbDisapprove:
		return true
	}
	return first
}

// bared is a line without what people and editors put around a command, in small
// letters.
func bared(line string) string {
	clean := strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case isInvisible(c):
			return -1
		case c == '／' || c == '∕' || c == '⁄' || c == '\\':
			return '/'
		}
		return unicode.ToLower(c)
	}, line)
	return strings.TrimRight(strings.TrimLeft(clean, " >`*_~-+\"'@("), " ")
}

// misplaced says why a line that was meant as a command is none.
func misplaced(line string, first bool) string {
	shown := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(shown, ">"):
		return "it is in a quote"
	case !first:
		return "it is not in the first line of the comment"
	case strings.HasPrefix(shown, "`"), strings.HasPrefix(shown, "~"),
		strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"):
		return "it is written as code"
	case isOdd(line):
		return oddCharacter
	case shown != line:
		return "there is a space before it"
	case strings.HasPrefix(strings.ToLower(line), address) && !strings.HasPrefix(line, address):
		return "write /slipway in small letters"
	case strings.HasPrefix(line, address):
		return "write a space after /slipway"
	}
	return "there is something before /slipway"
}

// isOdd says whether a line has characters that look like others or like none.
func isOdd(line string) bool {
	return strings.ContainsFunc(line, func(c rune) bool {
		return isInvisible(c) || unicode.IsSpace(c) && !strings.ContainsRune(" \t\r\n", c)
	})
}

// isInvisible says whether nothing is seen of a character: marks of direction,
// joiners, selectors of variants, controls.
func isInvisible(c rune) bool {
	return !unicode.IsSpace(c) &&
		(unicode.In(c, unicode.Cf, unicode.Cc, unicode.Mn) || c == unicode.ReplacementChar || c == '\u3164' || c == '\u115f')
}
