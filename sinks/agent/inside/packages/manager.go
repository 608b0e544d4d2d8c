package packages

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// manager is a package manager: apt or dnf.
type manager interface {
	// check says why a name cannot be one of its packages.
	check(name string) error
	// inventory lists what is installed, and changes nothing.
	inventory(ctx context.Context, h *inside.Host) (inventory, error)
	// repair finishes what an interruption left half done, also removals of the packages that are to go. It installs
	// nothing more.
	repair(ctx context.Context, h *inside.Host, inv inventory, going []string) error
	// refresh fetches the lists of the named repositories, or of all.
	refresh(ctx context.Context, h *inside.Host, names []string, all bool) error
	// simulate lists all effects of a change, and does nothing.
	simulate(ctx context.Context, h *inside.Host, c change) ([]effect, error)
	// run makes a change in one transaction.
	run(ctx context.Context, h *inside.Host, c change) error
	// hold sets or lifts the hold of packages.
	hold(ctx context.Context, h *inside.Host, names []string, on bool) error
	// fetch fetches the lists of all repositories. missed says which lists could not be fetched, and why.
	fetch(ctx context.Context, h *inside.Host) (missed []string, err error)
	// upgrades lists the upgrades in the machine's lists, with the packages that come with them, and changes
	// nothing.
	upgrades(ctx context.Context, h *inside.Host, inv inventory, snapshot string) ([]effect, error)
	// restartFor says whether an upgrade needs a restart, without regard to libraries.
	restartFor(h *inside.Host, inv inventory, u item.Upgrade) string
	// bringing are those of the packages that contain one of the files. The paths of the files lack a leading /usr.
	bringing(ctx context.Context, h *inside.Host, inv inventory, names []string, files map[string]bool) map[string]bool
	// files lists the files of a package on the system.
	files(ctx context.Context, h *inside.Host, inv inventory, name string) ([]string, error)
	// listsTime is when the lists were fetched; zero if unknown.
	listsTime(h *inside.Host) time.Time
	// stamp changes when upgrades could return something else. It is empty if nothing that is quick to read shows
	// that.
	stamp(h *inside.Host) string
	// byHand are the packages that a person requested, as far as the system knows.
	byHand(ctx context.Context, h *inside.Host) ([]string, error)
	// surveySources reports repositories that are not the distribution's own.
	surveySources(ctx context.Context, h *inside.Host, found *item.Found)
	// repositoryFiles are the paths of a repository's files.
	repositoryFiles(h *inside.Host, name string) repositoryFiles
}

// change is one transaction.
type change struct {
	install  map[string]string // the version by name; "" for any
	remove   []string
	held     bool     // part of it is held now
	upgrade  bool     // names only installed packages
	repair   bool     // may install dependencies that an interruption left unmet
	snapshot string   // the repositories to use, for upgrades
	pinned   []string // packages that upgrades leave at the designed version
}

func (c change) empty() bool { return len(c.install)+len(c.remove) == 0 }

// effect is what a transaction does to one package.
type effect struct {
	name     string
	from, to string // versions; "" if not installed before or after
	security bool   // from a source of security updates
}

// family says which package manager the system has, by its database.
func family(h *inside.Host) (manager, error) {
	switch {
	case exists(h, dpkgStatus):
		return apt{}, nil
	case exists(h, "/usr/lib/sysimage/rpm"), exists(h, "/var/lib/rpm"):
		return dnf{}, nil
	}
	return nil, errNoManager
}

var errNoManager = errors.New("the system has neither dpkg's nor rpm's database, so Slipway manages no packages in it")
