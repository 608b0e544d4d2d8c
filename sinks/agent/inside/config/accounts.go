package config

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// accounts are the names and numbers of a system's accounts and groups.
type accounts struct{ users, groups names }

type names struct {
	number map[string]int
	name   map[int]string
}

// maxAccounts bounds passwd(5) and group(5), in bytes.
const maxAccounts = 16 << 20

func readAccounts(t *tree.Tree) (*accounts, error) {
	users, err := readNames(t, "/etc/passwd")
	if err != nil {
		return nil, err
	}
	groups, err := readNames(t, "/etc/group")
	if err != nil {
		return nil, err
	}
	return &accounts{users, groups}, nil
}

func readNames(t *tree.Tree, path string) (names, error) {
	n := names{number: map[string]int{"root": 0}, name: map[int]string{0: "root"}}
	text, err := t.Read(path, maxAccounts)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.Split(line, ":")
		if len(parts) < 3 {
			continue
		}
		id, err := strconv.ParseUint(strings.TrimSpace(parts[2]), 10, 32)
		if err != nil {
			continue
		}
		if _, known := n.number[parts[0]]; !known { // the first line counts, as in getpwnam(3)
			n.number[parts[0]] = int(id)
		}
		if _, known := n.name[int(id)]; !known {
			n.name[int(id)] = parts[0]
		}
	}
	return n, nil
}

// of returns the number of a name or of a decimal number.
func (n names) of(name string) (int, bool) {
	if id, ok := n.number[name]; ok {
		return id, true
	}
	id, err := strconv.ParseUint(name, 10, 32)
	return int(id), err == nil && id != 1<<32-1
}

func (n names) text(id int) string {
	if name, ok := n.name[id]; ok {
		return name
	}
	return strconv.Itoa(id)
}

func (w *work) names() (*accounts, error) {
	if w.accounts != nil {
		return w.accounts, nil
	}
	a, err := readAccounts(w.tree)
	w.accounts = a
	return a, err
}
