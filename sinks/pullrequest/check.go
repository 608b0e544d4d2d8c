package pullrequest

import (
	"strings"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the bounds of a check, of texts in characters. The title with its commits fits GitHub's limit for a
// status.
const (
	maxVerdict = 105 // characters
	maxLine    = 4000
	maxNotes   = 500
	maxNote    = 1000
)

// pending is the check of a proposal that is being planned.
func pending(name string, p site.Proposal, base string) forge.Check {
	return forge.Check{
		Commit: p.Head, Name: name, Verdict: forge.Pending, URL: p.URL,
		Title: "planning " + commits(p.Head, base),
	}
}

// unread is the check of a proposal until its comment names what merging it destroys.
func unread(name string, v *site.Review) forge.Check {
	return forge.Check{
		Commit: v.Proposal.Head, Name: name, Verdict: forge.Pending, URL: v.Proposal.URL,
		Title: "recording the losses of " + commits(v.Proposal.Head, v.Base),
	}
}

// unwritten is the check of a proposal whose comment should say what is destroyed, and cannot be written.
func unwritten(c forge.Check, verdict forge.Verdict, why string) forge.Check {
	return forge.Check{
		Commit: c.Commit, Name: c.Name, Verdict: verdict, URL: c.URL,
		Title:   "the comment that says what is destroyed cannot be written; see `slipway status`",
		Summary: "Slipway cannot write the comment: " + why,
	}
}

// muted is a good check while the comment cannot be written. It is not good while people cannot read what is
// destroyed.
func muted(c forge.Check, unread bool, why string) forge.Check {
	if unread {
		return unwritten(c, forge.Pending, why)
	}
	const note = "no comment, see `slipway status`: "
	title, about := c.Title, ""
	if i := strings.LastIndex(title, " ("); i >= 0 { // the commits
		title, about = title[:i], title[i:]
	}
	first, _, _ := strings.Cut(c.Summary, "\n\n")
	c.Title = note + site.Shorten(title, maxVerdict-len(note)) + about
	c.Summary = first + "\n\nSlipway cannot write the comment: " + why
	return c
}

// superseded is the check of a commit that another commit has replaced.
func superseded(name, commit, by string) forge.Check {
	return forge.Check{Commit: commit, Name: name, Verdict: forge.Superseded, Title: "superseded by " + short(by)}
}

// spent is the last check of a commit, before the forge may accept no more.
func spent(c forge.Check) forge.Check {
	return forge.Check{
		Commit: c.Commit, Name: c.Name, Verdict: forge.Error, URL: c.URL,
		Title: "the forge accepts no more checks for this commit: push a new commit",
	}
}

// verdictOf is the check of a review. Its title names the commits, and says in one line the verdict, or why there
// is no plan.
func verdictOf(name string, v *site.Review) forge.Check {
	first := site.Shorten(v.Verdict, maxLine)
	title := site.PlainLine(first)
	if v.Problem != "" {
		title = "no plan: " + v.Problem
	}
	about := commits(v.Proposal.Head, v.Base)
	return forge.Check{
		Commit: v.Proposal.Head, Name: name, Verdict: verdict(v), URL: v.Proposal.URL, Notes: notes(v.Findings),
		Title:   site.Shorten(title, maxVerdict) + " (" + about + ")",
		Summary: first + "\n\nThis is about " + about + ". The whole review is the comment on the proposal.",
	}
}

// verdict is pending if a person must first allow the plan.
func verdict(v *site.Review) forge.Verdict {
	switch {
	case v.Allow != "":
		return forge.Pending
	case v.Ours:
		return forge.Error
	case v.Planned():
		return forge.Success
	}
	return forge.Failure
}

// notes converts the findings that have a line in the repository.
func notes(all []site.Finding) []forge.Note {
	var some []forge.Note
	for _, f := range all {
		if f.Line == 0 || strings.HasPrefix(f.File, "schema/") {
			continue
		}
		if len(some) == maxNotes {
			break
		}
		text := f.Message
		for _, more := range []string{f.Others(), f.Fix} {
			if more != "" {
				text += "; " + more
			}
		}
		some = append(some, forge.Note{File: f.File, Line: f.Line, Level: levelOf[f.Severity], Title: f.Code, Text: site.Shorten(text, maxNote)})
	}
	return some
}

var levelOf = map[site.Severity]forge.Level{
	site.SeverityError: forge.LevelFailure, site.SeverityWarning: forge.LevelWarning, site.SeverityNote: forge.LevelNotice,
}

func commits(head, base string) string { return short(head) + " on " + short(base) }

func short(commit string) string { return site.Revision{ID: commit}.Short() }
