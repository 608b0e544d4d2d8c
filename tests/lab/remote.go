package lab

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// remote is a medium of a real machine. Its BMC reads of it what the machine reads, in parts as
// those of simulated machines do, and keeps the last few of them.
type remote struct {
	fleet     context.Context
	url       string
	transport *http.Transport

	mu    sync.Mutex
	size  int64
	parts []part // the one that was read last at the end
}

// part is what was read at an offset.
type part struct {
	at    int64
	bytes []byte
}

const (
	maxMedium = 16 << 30
	mostParts = 64
	// sizeLimit is how long a BMC looks for a medium while the machine waits.
	sizeLimit = 10 * time.Second
)

func newRemote(fleet context.Context, url string) *remote {
	t := newReader(fleet, url).transport
	t.IdleConnTimeout = 10 * time.Second
	context.AfterFunc(fleet, t.CloseIdleConnections)
	return &remote{fleet: fleet, url: url, transport: t}
}

// Size implements qemu.Medium.
func (r *remote) Size(ctx context.Context) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size > 0 {
		return r.size, nil
	}
	err := r.during(ctx, sizeLimit, func(from *reader) (err error) {
		r.size, err = from.size()
		return err
	})
	return r.size, err
}

// ReadAt implements qemu.Medium.
func (r *remote) ReadAt(ctx context.Context, p []byte, at int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.during(ctx, fetchLimit, func(from *reader) error {
		for len(p) > 0 {
			got, err := r.part(from, at/sectors*sectors)
			if err != nil {
				return err
			}
			n := copy(p, got[at%sectors:])
			p, at = p[n:], at+int64(n)
		}
		return nil
	})
}

// part is the part at an offset.
func (r *remote) part(from *reader, at int64) ([]byte, error) {
	i := slices.IndexFunc(r.parts, func(p part) bool { return p.at == at })
	if i >= 0 {
		got := r.parts[i]
		r.parts = append(slices.Delete(r.parts, i, i+1), got)
		return got.bytes, nil
	}
	var b bytes.Buffer
	err := from.reconnecting(func() error { b.Reset(); return from.part(&b, at, min(r.size, at+sectors)) })
	if err != nil {
		return nil, err
	}
	if len(r.parts) == mostParts {
		r.parts = slices.Delete(r.parts, 0, 1)
	}
	r.parts = append(r.parts, part{at, b.Bytes()})
	return b.Bytes(), nil
}

// during reads while the fleet and the drive are there, for so long at most.
func (r *remote) during(ctx context.Context, limit time.Duration, do func(*reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(r.fleet, cancel)()
	return do(&reader{ctx: ctx, url: r.url, transport: r.transport, most: maxMedium})
}
