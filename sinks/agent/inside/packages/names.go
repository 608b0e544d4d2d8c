package packages

import (
	"errors"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These are short names of the states of a package.
const (
	statePresent = item.Present
	stateAbsent  = item.Absent
	stateHeld    = item.Held
)

// These are the forms of names and versions. Each starts with a letter or a digit, so none reads as an option. None
// has a blank, a quote or a "/".
var (
	debianName    = inside.Pattern(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9][a-z0-9-]*)?$`)
	rpmName       = inside.Pattern(`^[A-Za-z0-9][A-Za-z0-9+._-]*$`)
	anyVersion    = inside.Pattern(`^[A-Za-z0-9][A-Za-z0-9.+:~^_-]*$`)
	entryName     = inside.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	pythonName    = inside.Pattern(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pythonVersion = inside.Pattern(`^[A-Za-z0-9][A-Za-z0-9.+!_-]*$`)
)

// maxName bounds a name or a version, in bytes.
const maxName = 200

// check says what is wrong with a name.
func check(form *regexp.Regexp, name string) error {
	if len(name) > maxName {
		return errors.New("the name is too long")
	}
	if !form.MatchString(name) {
		return errors.New("the package manager has no names like that")
	}
	return nil
}
