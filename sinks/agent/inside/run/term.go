package run

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// terms are the highest terms of writes, by site.
type terms map[string]uint64

func (p *Program) readTerms() (terms, error) {
	all := terms{}
	text, err := os.ReadFile(p.file("term"))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, refused("%s, which records the daemon that wrote last, cannot be read: %v; if no other daemon of this site runs, remove that file", p.file("term"), err)
	}
	return all, nil
}

// highest is the highest term of a site that the system has seen.
func (p *Program) highest(site string) (uint64, error) {
	all, err := p.readTerms()
	return all[site], err
}

// fence refuses a write of an older term. It stores a newer term on the disk before it returns, so that older terms
// are refused from then on. The caller holds the lock.
func (p *Program) fence(site string, term uint64) error {
	all, err := p.readTerms()
	if err != nil {
		return err
	}
	switch seen := all[site]; {
	case term < seen:
		return refused("a daemon of term %d of the site %q has written to this machine, and this daemon is of term %d, so its records are older; stop one of the two", seen, site, term)
	case term == seen:
		return nil
	}
	all[site] = term
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return inside.WriteFile(p.file("term"), text, 0o600)
}
