package item

import "time"

// Action is the body of something that is done once in an installation: the items that it puts
// there, and then a command.
type Action struct {
	// Packages are items of the facet packages, Config items of the facet config.
	Packages []Item `json:"packages,omitempty"`
	Config   []Item `json:"config,omitempty"`
	// Run is a program and its arguments; no shell interprets them. It is empty if the action only
	// puts items there.
	Run []string `json:"run,omitempty"`
	// Timeout limits the command.
	Timeout time.Duration `json:"timeout"`
}

// The states of an action, as the field of its item. The item's key also has AttemptsField and,
// while the command runs, SinceField.
const (
	Done    = "done"
	NotDone = "not done"
	Running = "running"
	// Failed: the command ended with an exit code other than 0. Unfinished: the command was begun,
	// and nobody knows how it ended.
	Failed     = "failed"
	Unfinished = "begun, end unknown"

	AttemptsField = "attempts" // how many times the command was begun
	SinceField    = "since"    // RFC 3339
)

// Installation names a value that is reported beside the actions: the installation of the system in
// which they were done.
const Installation = "installation"

// Once says in which installation an action is done, and the number of the attempt. A machine that
// has begun this attempt already does nothing.
type Once struct {
	Installation string `json:"installation"`
	Attempt      int    `json:"attempt"`
}
