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
	Commit string // for VerbApprove in a fork, instead of the digest: the whole ID
}

// NotACommand is the error for a comment that was meant as a command but is not
// one.
type NotACommand struct {
	// Why says what is wrong with it, in words that need no escaping.
	Why string
}

func (e *NotACommand) Error() string { return e.Why + "; write " + strings.Join(Usage, ", or ") }

// Usage lists the forms of a command, each alone in the first line of a
// comment.
var Usage = []string{address + " plan", address + " approve DIGEST", address + " disapprove DIGEST"}

// address is the word that addresses a comment to Slipway.
const address = "/slipway"

// maxCommand limits the line of a command. maxMeant is how much of a comment is
// searched for a line that was meant as one. Both are in bytes.
const maxCommand, maxMeant = 200, 16 << 10

// commit matches a whole commit ID. A shorter one could fit several commits,
// and a proposal's author can create such commits.
var commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// ReadCommand reads a comment. A comment that is not for Slipway gives no verb
// and no error. A comment that is or was meant for Slipway, but is not a valid
// command, gives a NotACommand.
//
// The command is alone in the comment's first line: "/slipway", the verb and
// its argument, separated by spaces or tabs. ReadCommand ignores the following
// lines, which may give a reason. A command that is quoted, in a code block, or
// not written exactly does not count: an approval must be written on purpose.
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
		return fmt.Sprintf("the word after the command is not a digest: a digest has %d characters, 0-9 and a-f", site.DigestDigits)
	case word != strings.ToLower(word):
		return "write the digest in small letters"
	}
	return fmt.Sprintf("the digest has %d digits and needs %d, and the ID of a fork's commit 40 or 64",
		len(word), site.DigestDigits)
}

const oddCharacter = "it has an invisible character or an unusual space: type the command by hand"

// meant returns an error if a comment has a line that was meant as a command;
// nil for other comments.
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

// isMeant reports whether a bared line begins like a command. On other lines
// than the first, a verb must follow.
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

// bared returns a line in lower case, without what people and editors put
// around a command.
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

// misplaced says why a line that was meant as a command is not one.
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

// isOdd reports whether a line has invisible or misleading characters.
func isOdd(line string) bool {
	return strings.ContainsFunc(line, func(c rune) bool {
		return isInvisible(c) || unicode.IsSpace(c) && !strings.ContainsRune(" \t\r\n", c)
	})
}

// isInvisible reports whether a character is invisible: direction marks,
// joiners, variation selectors, controls.
func isInvisible(c rune) bool {
	return !unicode.IsSpace(c) &&
		(unicode.In(c, unicode.Cf, unicode.Cc, unicode.Mn) || c == unicode.ReplacementChar || c == '\u3164' || c == '\u115f')
}
