package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/sealed"
)

// readable are the values that a recipient which was removed could read, and which
// are still the same.
type readable struct {
	Recipient string    `json:"recipient"`
	Commit    string    `json:"commit,omitempty"` // that removed it; empty for one that is to be made
	Removed   time.Time `json:"removed"`
	Files     []string  `json:"files"`
}

// mostCommits bounds how many changes of the list of recipients are looked at.
const mostCommits = 200

// readableByRemoved finds in Git's history which values removed recipients could read:
// those of the files that were there when it was removed and were not set since. When
// a value was set is known of a file that was opened; another one counts.
func (c *checkout) readableByRemoved(ctx context.Context, now []sealed.Recipient, states []secretState) ([]readable, error) {
	list := filepath.ToSlash(filepath.Join(c.folder, sealed.RecipientsFile))
	log, err := c.git(ctx, "log", fmt.Sprintf("--max-count=%d", mostCommits+1), "--format=%H %ct", "--", list)
	if err != nil {
		return nil, err
	}
	commits := strings.Fields(log)
	if len(commits)/2 > mostCommits {
		err = fmt.Errorf("the list of recipients changed more than %d times; only the newest changes were looked at", mostCommits)
	}
	var all []readable
	seen := map[string]bool{}
	for _, r := range now {
		seen[r.Text] = true
	}
	// note takes the recipients of one list that are not in the next.
	note := func(was, is []sealed.Recipient, commit, before string, removed time.Time) {
		for _, r := range was {
			if seen[r.Text] || slices.ContainsFunc(is, func(one sealed.Recipient) bool { return one.Text == r.Text }) {
				continue
			}
			seen[r.Text] = true
			if files := c.couldRead(ctx, before, removed, states); len(files) > 0 {
				all = append(all, readable{r.Label(), commit, removed, files})
			}
		}
	}
	note(c.listAt(ctx, "HEAD", list), now, "", "HEAD", time.Now().UTC())
	for i := 0; i+1 < min(len(commits), 2*mostCommits); i += 2 {
		commit := commits[i]
		seconds, perr := strconv.ParseInt(commits[i+1], 10, 64)
		if perr != nil {
			return all, fmt.Errorf("git log: %q is not a time", commits[i+1])
		}
		note(c.listAt(ctx, commit+"^", list), c.listAt(ctx, commit, list), commit, commit+"^", time.Unix(seconds, 0).UTC())
	}
	return all, err
}

// listAt is the list of recipients at a commit, empty where there is none.
func (c *checkout) listAt(ctx context.Context, commit, list string) []sealed.Recipient {
	text, err := c.git(ctx, "show", commit+":./"+list)
	if err != nil {
		return nil
	}
	all, _ := sealed.ParseRecipients([]byte(text), sealed.Means{}) // nobody sealed for a list that is none
	return all
}

// couldRead are the files that were there before a commit and have the same value.
func (c *checkout) couldRead(ctx context.Context, before string, removed time.Time, states []secretState) []string {
	text, err := c.git(ctx, "ls-tree", "--name-only", before, filepath.ToSlash(c.folder)+"/")
	if err != nil {
		return nil
	}
	there := strings.Split(text, "\n")
	var files []string
	for _, s := range states {
		if slices.ContainsFunc(there, func(name string) bool { return strings.HasSuffix(s.File, strings.TrimSpace(name)) && name != "" }) && (s.Set.IsZero() || s.Set.Before(removed)) {
			files = append(files, s.File)
		}
	}
	return files
}

// git runs Git on the checkout.
func (c *checkout) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", c.root}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		first, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n")
		return "", fmt.Errorf("git %s: %s", args[0], first)
	}
	return string(out), err
}
