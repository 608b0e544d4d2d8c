package packages

import (
	"errors"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/item"
)

// The states of a package, by short names.
const (
	statePresent = item.Present
	stateAbsent  = item.Absent
	stateHeld    = item.Held
)

// What names and versions are made of. Each begins with a letter or a digit, so
// that none reads as an option, and holds no blank, quote or "/".
var (
	debianName    = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9][a-z0-9-]*)?$`)
	rpmName       = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+._-]*$`)
	anyVersion    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+:~^_-]*$`)
	entryName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	pythonName    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	pythonVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+!_-]*$`)
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
