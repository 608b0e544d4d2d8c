// Package forge is the contract with a forge, such as GitHub: the place where people propose
// changes of a site's repository, talk about them and merge them. It holds the values that Slipway
// and a forge exchange, and the format of comments.
//
// A forge is reached through small interfaces, each for one repository. Other people write what is
// read from a forge. Slipway must check it, and must never take it as an instruction by itself.
package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Proposals provides the changes that people propose.
type Proposals interface {
	// Open lists the open proposals for a branch, most recently changed first.
	Open(ctx context.Context, base string) ([]site.Proposal, error)
	// Proposal returns a proposal by its number, even if it is no longer open. ErrGone is wrapped
	// when there is none.
	Proposal(ctx context.Context, number int) (site.Proposal, error)
	// Decision returns how a proposal came to be merged. site.ErrNotYet is wrapped until the forge
	// knows.
	Decision(ctx context.Context, number int) (site.Decision, error)
}

// Proposer proposes to merge one branch of the repository into another.
type Proposer interface {
	// Proposed returns the last proposal of a branch, in any state; false if there was none.
	Proposed(ctx context.Context, branch string) (site.Proposal, bool, error)
	// Propose opens a proposal, or returns the one that is already open for the branch.
	Propose(ctx context.Context, d Draft) (site.Proposal, error)
}

// Draft is the content of a new proposal.
type Draft struct {
	Branch, Base string
	// Title is one line of plain text, Body is Markdown. Text from other people must be made safe:
	// a forge also uses it in commit messages, which can close the issues that they name.
	Title, Body string
}

// Checks tell the readers of a commit whether it may be merged.
type Checks interface {
	// Check sets the state of a commit under a name, and replaces the previous one. Setting the
	// same state again writes nothing.
	Check(ctx context.Context, c Check) error
}

// Verdict is the state of a commit.
type Verdict string

// The verdicts. If the check is required, only Success allows merging a commit.
const (
	Pending    Verdict = "pending"
	Success    Verdict = "success"
	Failure    Verdict = "failure"    // something is wrong with the commit
	Error      Verdict = "error"      // something went wrong in Slipway
	Superseded Verdict = "superseded" // another commit has replaced it
)

// Check is a verdict on a commit.
type Check struct {
	Commit  string
	Name    string // "slipway/site1"
	Verdict Verdict
	// Title is one line of plain text. If it is too long for the forge, it is cut and ends with an
	// ellipsis.
	Title string
	// Summary is Markdown, shown if the forge has room for it.
	Summary string
	// URL leads to details; it may be empty.
	URL string
	// Notes are shown at their lines by forges that support it.
	Notes []Note
}

// Level is the severity of a note.
type Level string

// The levels of notes.
const (
	LevelNotice  Level = "notice"
	LevelWarning Level = "warning"
	LevelFailure Level = "failure"
)

// Note is a remark at a line of a file.
type Note struct {
	File  string // from the root of the repository
	Line  int    // from 1
	Level Level
	Title string
	Text  string
}

// Talk writes about a proposal.
type Talk interface {
	// Keep makes the one comment of ours with a marker have a body. It returns the comment before,
	// nil for none, and after. The comment is the one with the id or, without an id, ours with the
	// marker. Keep edits it in place, or writes a new one if there is none. The body does not
	// contain the marker. Keeping the same body again writes nothing. Keep is called by one
	// goroutine at a time.
	Keep(ctx context.Context, number int, id int64, m Marker, body string) (before *Kept, is Kept, err error)
	// Kept returns that comment as it is now, because people may have changed it. ErrGone is
	// wrapped when there is none, and site.ErrNotYet while that is uncertain.
	Kept(ctx context.Context, number int, id int64, m Marker) (Kept, error)
	// React adds a reaction to a comment. Adding it twice has no further effect.
	React(ctx context.Context, comment int64, r Reaction) error
}

// Kept is a comment of ours as the forge has it.
type Kept struct {
	ID int64
	// Body is its text, without the marker if that is in its place.
	Body string
	// Written is when it was last written or edited, by the forge's clock.
	Written time.Time
	// Hidden says why the forge shows it folded; empty if it does not.
	Hidden string
}

// Reading returns the recorded form of a comment of ours. A forge may change line ends, and spaces
// at the end; the digest ignores these.
func (k Kept) Reading() site.Reading {
	sum := sha256.Sum256([]byte(Trimmed(k.Body)))
	return site.Reading{Comment: k.ID, Text: hex.EncodeToString(sum[:]), Written: k.Written.UTC(), Hidden: k.Hidden}
}

// Trimmed returns a text without what a forge may change in it.
func Trimmed(body string) string {
	return strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))
}

// Comments provides what people write about proposals.
type Comments interface {
	// CommentsSince returns the comments written or changed since a time, oldest first. If the
	// forge numbers other things together with proposals, their comments may be included.
	CommentsSince(ctx context.Context, since time.Time) ([]Comment, error)
}

// Comment is what somebody wrote about a proposal.
type Comment struct {
	ID      int64
	Number  int    // of the proposal
	Author  string // empty when the account is gone
	Bot     bool   // written by a program
	Via     string // the program that wrote it in the author's name, if any; it may be one of ours
	Body    string
	URL     string
	Written time.Time
	// Changed is when it was last edited, or else written.
	Changed time.Time
}

// Edited reports whether a comment was edited after it was written.
func (c Comment) Edited() bool { return !c.Changed.IsZero() && !c.Changed.Equal(c.Written) }

// Reaction is a small picture under a comment.
type Reaction string

// The reactions.
const (
	Seen     Reaction = "seen"     // in progress
	Done     Reaction = "done"     // it was done
	Refused  Reaction = "refused"  // its author may not do this, or it makes no sense now
	Confused Reaction = "confused" // Slipway does not understand it
)

// People are those who work on a repository.
type People interface {
	// Permission returns what somebody may currently do to the repository.
	Permission(ctx context.Context, login string) (Permission, error)
}

// Permission is what somebody may do to a repository.
type Permission int

// The permissions, each including those before it.
const (
	None Permission = iota
	Read
	Write
	Admin
)

// Errors of a forge. Other errors are worth a retry.
var (
	// ErrDenied is wrapped when Slipway may not do something: a person must give it another token
	// or more rights.
	ErrDenied = errors.New("denied")
	// ErrGone is wrapped when something does not exist, or no longer. It is a site.ErrNotFound.
	ErrGone error = gone{}
	// ErrRefused is wrapped when the forge will never accept a request as it is.
	ErrRefused = errors.New("refused")
)

type gone struct{}

func (gone) Error() string { return "gone" }
func (gone) Unwrap() error { return site.ErrNotFound }

// Limited is the error of a request that was not sent or not answered, because the forge accepts no
// more requests for some time.
type Limited struct {
	Until time.Time // when to try again
	Why   string    // in the words of the forge or Slipway
}

func (l *Limited) Error() string {
	return fmt.Sprintf("Slipway sends the forge no requests until %s: %s", l.Until.UTC().Format(time.RFC3339), l.Why)
}
