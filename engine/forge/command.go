package forge

import (
	"fmt"
	"regexp"
	"strings"
)

// Verb is what a comment asks for.
type Verb string

// The verbs.
const (
	VerbPlan    Verb = "plan"    // plan again, now
	VerbApprove Verb = "approve" // approve the set of destruction with the digest, or a fork's commit
)

// Command is a comment that asks for something.
type Command struct {
	Verb   Verb
	Digest string // of VerbApprove, as site.Losses.Digest writes it
	Commit string // of VerbApprove in a fork, instead: the whole ID
}

// address is the word by which a comment turns to us.
const address = "/slipway"

// maxCommand bounds the line of a command, in bytes.
const maxCommand = 200

// A commit is named by all of its ID: what is shorter fits others, which who
// proposes can make.
var (
	digest = regexp.MustCompile(`^[0-9a-f]{16}$`)
	commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
)

// ReadCommand reads a comment. One that is not for us gives no verb and no
// error; one that is, but asks for nothing that there is, an error that says
// what there is.
//
// The command is the comment's first line and stands alone in it. What follows
// is not read, so that a reason can be given; and a command that is quoted, or
// shown in a code block, is none.
func ReadCommand(body string) (Command, error) {
	line, _, _ := strings.Cut(strings.TrimLeft(body, "\r\n"), "\n")
	if rest, ok := strings.CutPrefix(line, address); !ok || rest != "" && !strings.ContainsAny(rest[:1], " \t\r") {
		return Command{}, nil
	}
	if len(line) > maxCommand {
		return Command{}, fmt.Errorf("the line is longer than any command: %s", usage)
	}
	switch words := strings.Fields(line)[1:]; {
	case len(words) == 1 && words[0] == string(VerbPlan):
		return Command{Verb: VerbPlan}, nil
	case len(words) == 2 && words[0] == string(VerbApprove) && digest.MatchString(words[1]):
		return Command{Verb: VerbApprove, Digest: words[1]}, nil
	case len(words) == 2 && words[0] == string(VerbApprove) && commit.MatchString(words[1]):
		return Command{Verb: VerbApprove, Commit: words[1]}, nil
	case len(words) > 0 && words[0] == string(VerbApprove):
		return Command{}, fmt.Errorf("%s takes the digest of what is destroyed, 16 of 0-9 and a-f as shown above, or the whole ID of a fork's commit: %s", VerbApprove, usage)
	}
	return Command{}, fmt.Errorf("the command is not known: %s", usage)
}

const usage = "write `/slipway plan` or `/slipway approve DIGEST`, alone in the comment's first line"
