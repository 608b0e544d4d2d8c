package item

import "time"

// Action is the body of something that is done once in an installation: what it puts
// there, and then a command.
type Action struct {
	// Packages are items of the facet packages, Config of the facet config.
	Packages []Item `json:"packages,omitempty"`
	Config   []Item `json:"config,omitempty"`
	// Run is a program and its arguments; no shell reads them. It is empty where the
	// action ends with what it puts there.
	Run []string `json:"run,omitempty"`
	// Timeout bounds the command.
	Timeout time.Duration `json:"timeout"`
}

// What an action is, as the field of its item. Beside it are told, under the item's key,
// AttemptsField and, while its command runs, SinceField.
const (
	Done    = "done"
	NotDone = "not done"
	Running = "running"
	// Failed is one whose command ended otherwise than with exit code 0, Unfinished one
	// whose command was begun and of which nobody knows how it ended.
	Failed     = "failed"
	Unfinished = "begun, end unknown"

	AttemptsField = "attempts" // how many times the command was begun
	SinceField    = "since"    // RFC 3339
)

// Installation is the name of a value that is told beside the actions: which
// installation of the system they were done in.
const Installation = "installation"

// Once says which installation an action is done in, and the how manieth time its
// command is begun. A machine on which it was begun as often already does nothing.
type Once struct {
	Installation string `json:"installation"`
	Attempt      int    `json:"attempt"`
}
