package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// journal records the unfinished run, and how the last finished run changed the list of what is ours.
type journal struct {
	Begun *begun `json:"begun,omitempty"`
	Last  *run   `json:"last,omitempty"`
}

// begun is a run in progress, or one that was interrupted.
type begun struct {
	Facet string    `json:"facet"`
	Keys  []string  `json:"keys"`
	Site  string    `json:"site"`
	Term  uint64    `json:"term"`
	At    time.Time `json:"at"`
	// Owned is the digest of the list of what is ours before the first unfinished run.
	Owned string `json:"owned"`
	// Failed says why the run gave up; empty if it was interrupted.
	Failed string `json:"failed,omitempty"`
}

// run says how the list of what is ours changed, by digests.
type run struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (p *Program) readJournal() (j journal, err error) {
	text, err := os.ReadFile(p.file("journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return j, err
	}
	if json.Unmarshal(text, &j) != nil {
		return journal{}, nil // the file is always written whole, so something else wrote it; the list of what is ours does not need it
	}
	return j, nil
}

func (p *Program) begin(j *journal, r wire.Request, remove []string) error {
	from := p.Host.Owned.Digest()
	if j.Begun != nil {
		from = j.Begun.Owned
	}
	j.Begun = &begun{Facet: r.Apply.Facet, Keys: append(item.Keys(r.Apply.Items), remove...), Site: r.Site, Term: r.Term, At: p.now().UTC(), Owned: from}
	return p.writeJournal(*j)
}

func (p *Program) end(j *journal) error {
	j.Last, j.Begun = &run{j.Begun.Owned, p.Host.Owned.Digest()}, nil
	return p.writeJournal(*j)
}

// giveUp keeps the record of a run that may be half done.
func (p *Program) giveUp(j *journal, why error) error {
	j.Begun.Failed = clip(why.Error())
	if err := p.writeJournal(*j); err != nil {
		return fmt.Errorf("%w; and the journal cannot be written: %v", why, err)
	}
	return why
}

func (p *Program) writeJournal(j journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return inside.WriteFile(p.file("journal"), text, 0o600)
}

// explains reports whether our own runs have changed one list into the other: an interrupted run, or the last run,
// whose end the daemon could not record.
func (j journal) explains(recorded, found string) bool {
	return j.Begun != nil && j.Begun.Owned == recorded || j.Last != nil && j.Last.From == recorded && j.Last.To == found
}

// unended describes an unfinished run for people.
func (b *begun) unended() string {
	what := fmt.Sprintf("%s (%s), begun at %s in term %d", b.Facet, brief(b.Keys), b.At.Format("2006-01-02 15:04:05Z"), b.Term)
	if b.Failed != "" {
		return "an earlier run failed: " + what + ": " + b.Failed
	}
	return "an earlier run was cut off: " + what + "; what it left half done is done again"
}
