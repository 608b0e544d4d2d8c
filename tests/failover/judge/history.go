// Package judge decides whether controllers of a site kept their promises while hosts failed. It knows
// nothing of Slipway's code: it reads the log of what the machines were asked, the history of the records,
// the log of the status branch, and what the people of the test did and were told.
package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// History is all that the judge knows.
type History struct {
	Calls  []Call  // in the order in which they ended
	Writes []Write // of records, by revision
	Events []Event // by time
	Branch Branch
}

// Call is a request that a machine's BMC received. Status is its answer.
type Call struct {
	When    time.Time `json:"when"`   // it arrived
	Source  string    `json:"source"` // IP:PORT
	Machine string    `json:"machine"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Status  int       `json:"status"`
	Reset   string    `json:"reset"` // the ResetType that is asked for
}

// Write is a write of a key of the records. At is when it was first seen in the log of a member, by the
// clock of the test: those of the members may be wrong. A write is there before it counts.
type Write struct {
	Revision, Sub int64
	Key, Value    string
	Deleted       bool
	At            time.Time
}

// Event is what the people of the test did, or were told.
type Event struct {
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`
	// Address is a member's, for Started and Fault. PID is its new process's.
	Address string `json:"address,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// What is the kind of a fault.
	What string `json:"what,omitempty"`
	// Leads is set if the fault is of the member that led, so that another has to lead. GoesOn is set if
	// machines have to be changed soon, by that member or another one.
	Leads  bool `json:"leads,omitempty"`
	GoesOn bool `json:"goesOn,omitempty"`
	// SetBack is set if a clock was set back.
	SetBack bool `json:"setBack,omitempty"`
	// Set is the digest of what was approved, Nodes what it was for.
	Set   string   `json:"set,omitempty"`
	Nodes []string `json:"nodes,omitempty"`
}

// Kind is a kind of event.
type Kind string

// The kinds of events.
const (
	Started  Kind = "started"
	Fault    Kind = "fault"
	Approved Kind = "approved" // a daemon has said that it recorded an approval
)

// Branch is the status branch. Updates are what it went from and to, in their order, the first from an empty
// string. Parents are those of all commits.
type Branch struct {
	Updates [][2]string         `json:"updates"`
	Parents map[string][]string `json:"parents"`
}

// The files of a folder with a history.
const (
	callsFile  = "calls.jsonl"
	writesFile = "records.jsonl"
	eventsFile = "events.jsonl"
	branchFile = "branch.json"
)

// Read reads the history in a folder.
func Read(dir string) (h History, err error) {
	text, berr := os.ReadFile(filepath.Join(dir, branchFile))
	if berr == nil {
		berr = json.Unmarshal(text, &h.Branch)
	}
	return h, errors.Join(berr, readLines(dir, callsFile, &h.Calls), readLines(dir, writesFile, &h.Writes), readLines(dir, eventsFile, &h.Events))
}

func readLines[T any](dir, name string, into *[]T) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var line T
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*into = append(*into, line)
	}
}

// Save writes a history into a folder, which it makes.
func (h History) Save(dir string) error {
	branch, err := json.Marshal(h.Branch)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, branchFile), branch, fs.FileMode(0o600)),
		saveLines(dir, callsFile, h.Calls), saveLines(dir, writesFile, h.Writes), saveLines(dir, eventsFile, h.Events))
}

func saveLines[T any](dir, name string, lines []T) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, line := range lines {
		if err := e.Encode(line); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}
