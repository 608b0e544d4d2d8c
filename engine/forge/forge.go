// Package forge is the contract with a forge: the place where people propose
// changes of a site's repository, talk about them and merge them, such as
// GitHub. It holds the values that pass between us and one, and what is read of
// and written into its comments.
//
// A forge is reached through interfaces of a few methods, each of them for one
// repository. Everything read from one was written by others and is material to
// judge, never an instruction by itself.
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

// Proposals are what people want to change.
type Proposals interface {
	// Open lists the open proposals for a branch, the latest changed first.
	Open(ctx context.Context, base string) ([]site.Proposal, error)
	// Proposal is one of them by its number, also when it is not open any
	// more. ErrGone is wrapped when there is none.
	Proposal(ctx context.Context, number int) (site.Proposal, error)
	// Decision is how it came that a proposal was merged. site.ErrNotYet is
	// wrapped as long as the forge does not tell.
	Decision(ctx context.Context, number int) (site.Decision, error)
}

// Proposer proposes a branch of the repository to be merged into another one.
type Proposer interface {
	// Proposed is the last proposal of a branch, whatever became of it; false where there was none.
	Proposed(ctx context.Context, branch string) (site.Proposal, bool, error)
	// Propose opens a proposal. Where one is open for the branch already it gives that.
	Propose(ctx context.Context, d Draft) (site.Proposal, error)
}

// Draft is what a proposal is opened with.
type Draft struct {
	Branch, Base string
	// Title is one line of plain text, Body is Markdown. What is of others in them must be safe
	// there: a forge also makes commit messages of them, which can close what they name.
	Title, Body string
}

// Checks tell a commit's readers whether it may be merged.
type Checks interface {
	// Check says how a commit stands under a name. What it said before under
	// that name is replaced, and saying the same again writes nothing.
	Check(ctx context.Context, c Check) error
}

// Verdict is how a commit stands.
type Verdict string

// The verdicts. Only Success lets a commit be merged where the check is
// required.
const (
	Pending    Verdict = "pending"
	Success    Verdict = "success"
	Failure    Verdict = "failure"    // something is wrong with the commit
	Error      Verdict = "error"      // something went wrong on our side
	Superseded Verdict = "superseded" // another commit has taken its place
)

// Check is a verdict on a commit.
type Check struct {
	Commit  string
	Name    string // "slipway/site1"
	Verdict Verdict
	// Title is one line of plain text. What is too long for the forge is cut
	// and ends with an ellipsis.
	Title string
	// Summary is Markdown, shown where the forge has room for it.
	Summary string
	// URL is where more is to be read; it may be empty.
	URL string
	// Notes are shown at their lines by forges that can do so.
	Notes []Note
}

// Level is how grave a note is.
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

// Talk is what is written about a proposal.
type Talk interface {
	// Keep makes the one comment of ours with a marker have a body. It tells how
	// that was found, nil for none, and how it is then. The comment is the one
	// with the id, or without one that of ours with the marker; it is edited where
	// it is, and written anew when there is none. The body does not contain the
	// marker. Saying the same again writes nothing. Keep is called by one
	// goroutine at a time.
	Keep(ctx context.Context, number int, id int64, m Marker, body string) (before *Kept, is Kept, err error)
	// Kept is that comment as it is now: people may have changed it. ErrGone is
	// wrapped when there is none, and site.ErrNotYet as long as that is in doubt.
	Kept(ctx context.Context, number int, id int64, m Marker) (Kept, error)
	// React answers a comment with a small picture. Doing so twice is as once.
	React(ctx context.Context, comment int64, r Reaction) error
}

// Kept is a comment of ours as the forge has it.
type Kept struct {
	ID int64
	// Body is what it says, without the marker where that is in its place.
	Body string
	// Written is when it was written or edited last, by the forge's clock.
	Written time.Time
	// Hidden says why people see it folded; empty when they do not.
	Hidden string
}

// Reading is a comment of ours as it is recorded. A forge may keep other line
// ends, and spaces at the end: the digest is free of these.
func (k Kept) Reading() site.Reading {
	sum := sha256.Sum256([]byte(Trimmed(k.Body)))
	return site.Reading{Comment: k.ID, Text: hex.EncodeToString(sum[:]), Written: k.Written.UTC(), Hidden: k.Hidden}
}

// Trimmed is a text without what a forge may change of it.
func Trimmed(body string) string {
	return strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n"))
}

// Comments are what people write about proposals.
type Comments interface {
	// CommentsSince are the comments that were written or changed since a time,
	// the oldest first. Where a forge numbers other things in one row with
	// proposals, those on them may be there too.
	CommentsSince(ctx context.Context, since time.Time) ([]Comment, error)
}

// Comment is what somebody wrote about a proposal.
type Comment struct {
	ID      int64
	Number  int    // of the proposal
	Author  string // empty when the account is gone
	Bot     bool   // written by a program
	Via     string // the program that wrote it in the author's name, if one did, also one of ours
	Body    string
	URL     string
	Written time.Time
	// Changed is when it was edited last, or written.
	Changed time.Time
}

// Edited says whether it does not read as it did when it was written.
func (c Comment) Edited() bool { return !c.Changed.IsZero() && !c.Changed.Equal(c.Written) }

// Reaction is a small picture under a comment.
type Reaction string

// The reactions.
const (
	Seen     Reaction = "seen"     // it is being done
	Done     Reaction = "done"     // it was done
	Refused  Reaction = "refused"  // its writer may not, or it makes no sense now
	Confused Reaction = "confused" // it is not understood
)

// People are those who work on a repository.
type People interface {
	// Permission is what somebody may do to the repository now.
	Permission(ctx context.Context, login string) (Permission, error)
}

// Permission is what somebody may do to a repository.
type Permission int

// The permissions, each with those before it.
const (
	None Permission = iota
	Read
	Write
	Admin
)

// What a forge answers, beside what is worth a later attempt as it is.
var (
	// ErrDenied is wrapped when we may not do something: a person has to give
	// us another token or more rights.
	ErrDenied = errors.New("denied")
	// ErrGone is wrapped when what is meant does not exist, or not any more. It is
	// a site.ErrNotFound.
	ErrGone error = gone{}
	// ErrRefused is wrapped when the forge will never take a request as it is.
	ErrRefused = errors.New("refused")
)

type gone struct{}

func (gone) Error() string { return "gone" }
func (gone) Unwrap() error { return site.ErrNotFound }

// Limited is the error of a request that was not sent, or not answered, because
// the forge wants no more of them for some time.
type Limited struct {
	Until time.Time // when to try again
	Why   string    // in the forge's words, or ours
}

func (l *Limited) Error() string {
	return fmt.Sprintf("Slipway sends the forge no requests until %s: %s", l.Until.UTC().Format(time.RFC3339), l.Why)
}
