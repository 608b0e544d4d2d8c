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
	// name says whether a name can be one of its packages.
	check(name string) error
	// inventory tells what is installed, and changes nothing.
	inventory(ctx context.Context, h *inside.Host) (inventory, error)
	// repair brings to an end what a cut left half done; it installs nothing more.
	repair(ctx context.Context, h *inside.Host, inv inventory) error
	// refresh fetches the lists of repositories: of those named, or of all.
	refresh(ctx context.Context, h *inside.Host, names []string, all bool) error
	// simulate tells what a change would do, all of it, and does nothing.
	simulate(ctx context.Context, h *inside.Host, c change) ([]effect, error)
	// run makes a change in one transaction.
	run(ctx context.Context, h *inside.Host, c change) error
	// hold sets or lifts the hold of packages.
	hold(ctx context.Context, h *inside.Host, names []string, on bool) error
	// fetch fetches the lists of all repositories, and says of those that could not be
	// fetched why.
	fetch(ctx context.Context, h *inside.Host) (missed []string, err error)
	// upgrades tells which upgrades the lists on the machine have, with the packages that
	// come with them, and changes nothing.
	upgrades(ctx context.Context, h *inside.Host, inv inventory, snapshot string) ([]effect, error)
	// restartFor says what an upgrade asks of the machine, without regard to libraries.
	restartFor(h *inside.Host, inv inventory, u item.Upgrade) string
	// bringing are those of some packages that have one of some files, which are without
	// the /usr that they begin with.
	bringing(ctx context.Context, h *inside.Host, inv inventory, names []string, files map[string]bool) map[string]bool
	// files are those that a package has on the system.
	files(ctx context.Context, h *inside.Host, inv inventory, name string) ([]string, error)
	// listsTime is when the lists were fetched; zero where nobody can tell.
	listsTime(h *inside.Host) time.Time
	// stamp changes when upgrades could tell something else; empty where nothing
	// that is quick to read shows that.
	stamp(h *inside.Host) string
	// byHand are the packages that a person asked for, as far as the system knows it.
	byHand(ctx context.Context, h *inside.Host) ([]string, error)
	// surveySources tells of repositories that are not the distribution's own.
	surveySources(ctx context.Context, h *inside.Host, found *item.Found)
	// repositoryFiles are the files of a repository, by path.
	repositoryFiles(h *inside.Host, name string) repositoryFiles
}

// change is one transaction.
type change struct {
	install  map[string]string // the version by name; "" for any
	remove   []string
	held     bool     // something of it is held now
	upgrade  bool     // nothing that is not installed is named
	repair   bool     // dependencies that a cut left unmet may be installed
	snapshot string   // the repositories that count, for upgrades
	pinned   []string // packages that upgrades leave at the version that the design gives
}

func (c change) empty() bool { return len(c.install)+len(c.remove) == 0 }

// effect is what a transaction does to one package.
type effect struct {
	name     string
	from, to string // versions; "" where it is not installed before or after
	security bool   // it comes from a place for security updates
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
