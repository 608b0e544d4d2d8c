package access

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

const mostPolicy = 1 << 20

// File is an access file of the host, read again when it has changed. One that cannot be read, or is
// wrong, allows nothing until it is right: a line that was meant to take a right away must not be
// without effect.
type File struct {
	Path string
	// Owner is who has to own the file: root.
	Owner uint32

	mu     sync.Mutex
	stamp  hostfile.Stamp
	policy *Policy
	err    error
}

// Policy is what the file says now. With an error it is one that denies everything to callers from the
// network.
func (f *File) Policy() (*Policy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var now hostfile.Stamp
	if info, err := os.Stat(f.Path); err == nil {
		now = hostfile.StampOf(info)
	}
	if f.policy != nil && now == f.stamp {
		return f.policy, f.err
	}
	f.stamp = now
	f.policy, f.err = f.read()
	if f.err != nil {
		f.policy = &Policy{}
	}
	return f.policy, f.err
}

func (f *File) read() (*Policy, error) {
	text, err := hostfile.Read(f.Path, f.Owner, mostPolicy, "who may give orders")
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no access file %s, so nobody may use the API: write one, see docs/api-access.md: %w", f.Path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("access file: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("access file %s:%w", f.Path, err)
	}
	return p, nil
}
