package libvirt

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// These are how long an unneeded image is kept. The next machine may soon want an image that was installed from. A
// partial one may be another daemon's work.
const (
	keepImage   = time.Hour
	keepPartial = 24 * time.Hour
)

// tidy deletes the unneeded images of a pool. It does nothing while an installation uses an image. Failures are
// left to the next time.
func (m *machine) tidy(ctx context.Context, s *storage) {
	if !m.fetches.using.TryLock() {
		return
	}
	defer m.fetches.using.Unlock()
	_ = s.tidy(ctx, m.fetches.underWay(time.Now()), time.Now())
}

func (s *storage) tidy(ctx context.Context, underWay map[string]bool, now time.Time) error {
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	old, err := s.old(ctx, now)
	if err != nil {
		return err
	}
	old = slices.DeleteFunc(old, func(i kept) bool { return underWay[i.sum] })
	if len(old) == 0 {
		return nil
	}
	needed, err := s.needed(ctx, pools)
	if err != nil {
		return err
	}
	return s.discard(ctx, slices.DeleteFunc(old, func(i kept) bool { return i.in(needed) }))
}

// discard deletes images. Another daemon notes that it needs an image before it checks whether the image is valid.
// So discard first marks the images invalid, then reads the notes again, and marks those that are needed valid
// again.
func (s *storage) discard(ctx context.Context, images []kept) error {
	var err error
	for _, i := range images {
		err = errors.Join(err, s.remove(ctx, i.stem+verified))
	}
	noted, unread := s.noted(ctx)
	err = errors.Join(err, unread)
	for _, i := range images {
		switch {
		case err == nil && !i.in(noted):
			err = s.remove(ctx, i.stem+i.end)
		case i.counts:
			err = errors.Join(err, s.count(ctx, i.stem))
		}
	}
	return err
}

// kept is an image in a pool.
type kept struct {
	stem, sum, end string
	counts         bool
}

// in reports whether a text of needs names the image. A valid image is named by its digest or volume, any other
// only by its volume.
func (i kept) in(needed string) bool {
	return strings.Contains(needed, i.stem) || i.counts && strings.Contains(needed, i.sum)
}

// old are the images that are old enough to delete.
func (s *storage) old(ctx context.Context, now time.Time) ([]kept, error) {
	all, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]bool{}
	for _, v := range all {
		if stem, _, end, ours := imageVolume(v.Name); ours && end == verified {
			counts[stem] = true
		}
	}
	var old []kept
	for _, v := range all {
		stem, sum, end, ours := imageVolume(v.Name)
		if !ours || end == verified {
			continue
		}
		d, err := s.describe(ctx, v)
		if err != nil {
			return nil, err
		}
		if age := now.Sub(changed(d)); age > keepPartial || counts[stem] && age > keepImage {
			old = append(old, kept{stem, sum, end, counts[stem]})
		}
	}
	return old, nil
}

// changed is when a volume was last written; now if unknown.
func changed(d *libvirtxml.StorageVolume) time.Time {
	if d.Target == nil || d.Target.Timestamps == nil {
		return time.Now()
	}
	seconds, _, _ := strings.Cut(d.Target.Timestamps.Mtime, ".")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Now()
	}
	return time.Unix(n, 0)
}

// needed is the text of everything that may need an image: the notes, and all volumes of the pools with their
// backing files, except images.
func (s *storage) needed(ctx context.Context, pools []*storage) (string, error) {
	var text strings.Builder
	for _, p := range pools {
		all, err := p.all(ctx)
		if err != nil {
			return "", err
		}
		for _, v := range all {
			if strings.HasPrefix(v.Name, imagePrefix) {
				continue
			}
			about, err := ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.StorageVolGetXMLDesc(v, 0) })
			if says(err, golibvirt.ErrNoStorageVol) {
				continue
			}
			if err != nil {
				return "", err
			}
			text.WriteString(about)
		}
	}
	noted, err := s.noted(ctx)
	return text.String() + noted, err
}

// noted is the text of the definitions of all machines, of any owner, including the notes in them.
func (s *storage) noted(ctx context.Context) (string, error) {
	var text strings.Builder
	err := definitions(ctx, s.c, func(_ golibvirt.Domain, about string) error {
		text.WriteString(about)
		return nil
	})
	return text.String(), err
}
