package libvirt

import (
	"context"
	"strconv"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// How long an image is kept that nothing needs: one that was installed from may
// be wanted by the next machine soon, and one that is there in part may be
// another daemon's work.
const (
	keepImage   = time.Hour
	keepPartial = 24 * time.Hour
)

// tidy deletes the images of a pool that nothing needs. It is not done while an
// installation uses one, and what fails is left to the next time.
func (m *machine) tidy(ctx context.Context, s *storage) {
	if !m.fetches.using.TryLock() {
		return
	}
	defer m.fetches.using.Unlock()
	_ = s.tidy(ctx, m.fetches.underWay(), time.Now())
}

func (s *storage) tidy(ctx context.Context, underWay map[string]bool, now time.Time) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	old, err := s.old(ctx, all, now)
	if err != nil || len(old) == 0 {
		return err
	}
	needed, err := s.needed(ctx, all)
	if err != nil {
		return err
	}
	for sum, names := range old {
		if underWay[sum] || strings.Contains(needed, sum) {
			continue
		}
		for _, name := range names {
			if err := s.remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// old are the images that are old enough to go, by their digests: the volumes of
// each, the one that makes it count first.
func (s *storage) old(ctx context.Context, all []golibvirt.StorageVol, now time.Time) (map[string][]string, error) {
	companions, images := map[string]bool{}, map[string]golibvirt.StorageVol{}
	for _, v := range all {
		sum, end, ours := imageDigest(v.Name)
		switch {
		case !ours:
		case end == verified:
			companions[sum] = true
		default:
			images[sum] = v
		}
	}
	old := map[string][]string{}
	for sum, v := range images {
		d, err := s.describe(ctx, v)
		if err != nil {
			return nil, err
		}
		switch age := now.Sub(changed(d)); {
		case companions[sum] && age > keepImage:
			old[sum] = []string{imagePrefix + sum + verified, v.Name}
		case !companions[sum] && age > keepPartial:
			old[sum] = []string{v.Name}
		}
	}
	return old, nil
}

// imageDigest takes the name of one of our images apart.
func imageDigest(name string) (sum, end string, ours bool) {
	rest, ours := strings.CutPrefix(name, imagePrefix)
	if !ours || len(rest) < 64 {
		return "", "", false
	}
	sum, end = rest[:64], rest[64:]
	return sum, end, digest.MatchString(sum) && (end == verified || end == ".qcow2" || end == ".raw")
}

// changed is when a volume was last written to; now for one that does not say.
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

// needed is the text of everything that may need an image: the definitions of
// all machines, whoever's they are, with what is noted in them, and of all other
// volumes, with what they build on.
func (s *storage) needed(ctx context.Context, all []golibvirt.StorageVol) (string, error) {
	var text strings.Builder
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
	machines, err := list(ctx, s.c, 0)
	if err != nil {
		return "", err
	}
	for _, d := range machines {
		for _, flags := range []golibvirt.DomainXMLFlags{0, golibvirt.DomainXMLInactive} {
			about, err := ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.DomainGetXMLDesc(d, flags) })
			if says(err, golibvirt.ErrNoDomain) {
				continue
			}
			if err != nil {
				return "", err
			}
			text.WriteString(about)
		}
	}
	return text.String(), nil
}
