package libvirt

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// An image is a volume named after its digest and the one fetch that wrote it:
// two daemons, or one that knows the hypervisor by two names, never write the
// same. It counts once its companion is there, an empty volume of the same stem
// that is made when the digest was right.
const (
	imagePrefix = "slipway-image-"
	verified    = ".verified"
)

var (
	digest     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	imageParts = regexp.MustCompile(`^(slipway-image-([0-9a-f]{64})-[a-z2-7]{13})(\.qcow2|\.raw|\.verified)$`)
)

// newStem is what the volumes of one fetch are named.
func newStem(sha256 string) string {
	return imagePrefix + sha256 + "-" + strings.ToLower(rand.Text()[:13])
}

// imageVolume takes the name of one of our images, or of its companion, apart.
func imageVolume(name string) (stem, sum, end string, ours bool) {
	parts := imageParts.FindStringSubmatch(name)
	if parts == nil {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

// fetches are the images that are fetched now, or were in part.
type fetches struct {
	client *http.Client
	quiet  time.Duration

	mu  sync.Mutex
	all map[place]*fetch
	// using is held by installations from when they ask for an image until a
	// disk is made of it, and by whoever clears images away.
	using sync.RWMutex
}

// place is where an image is put.
type place struct {
	hypervisor address
	pool       string
	sha256     string
}

// fetch brings one image to one pool, one try at a time.
type fetch struct {
	turn chan struct{}
	download
	stem string // of the volume that it is put into; empty before the first try
	// wanted is when it was last asked for, under the lock of fetches.
	wanted time.Time
	// began counts the tries, and refusal is what the last one ended with, if
	// another would end the same way.
	mu      sync.Mutex
	began   int
	refusal error
}

// newFetches verifies certificates with the roots of this host.
func newFetches(quiet time.Duration) *fetches {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	t.ResponseHeaderTimeout = quiet
	t.DisableCompression = true
	return &fetches{client: &http.Client{Transport: t}, quiet: quiet, all: map[place]*fetch{}}
}

func (f *fetches) of(p place) *fetch {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[p]
	if one == nil {
		one = &fetch{turn: make(chan struct{}, 1), download: download{client: f.client, quiet: f.quiet}}
		f.all[p] = one
	}
	one.wanted = time.Now()
	return one
}

func (f *fetches) forget(p place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, p)
}

// underWay are the digests of the images that are there in part. What nobody has
// wanted for long is forgotten.
func (f *fetches) underWay(now time.Time) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	under := map[string]bool{}
	for p, one := range f.all {
		if len(one.turn) == 0 && now.Sub(one.wanted) > keepPartial {
			delete(f.all, p)
			continue
		}
		under[p.sha256] = true
	}
	return under
}

// image makes sure that an image is in the pool, and gives its volume. Of many
// that want the same one fetches, and the others find it done.
func (f *fetches) image(ctx context.Context, s *storage, i *site.Image) (golibvirt.StorageVol, error) {
	if !digest.MatchString(i.SHA256) {
		return golibvirt.StorageVol{}, refused("the image has no SHA-256 digest of 64 hexadecimal digits, and Slipway trusts an image only by its digest")
	}
	at := place{s.h.address, s.pool.Name, i.SHA256}
	one := f.of(at)
	waited := one.tries()
	if err := s.h.take(ctx, one.turn); err != nil {
		return golibvirt.StorageVol{}, err
	}
	defer func() { <-one.turn }()
	if v, there, err := s.image(ctx, i); there || err != nil {
		if there {
			f.forget(at)
		}
		return v, err
	}
	if err := one.refused(waited); err != nil {
		return golibvirt.StorageVol{}, err
	}
	one.url = i.URL
	v, err := one.run(ctx, s, i)
	one.ended(err)
	if err == nil {
		f.forget(at)
	}
	return v, err
}

func (f *fetch) tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.began
}

// refused is what a try was refused for that ended while this one waited.
func (f *fetch) refused(waited int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.began > waited {
		return f.refusal
	}
	return nil
}

func (f *fetch) ended(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began++
	f.refusal = nil
	if errors.Is(err, driver.ErrRefused) {
		f.refusal = err
	}
}

// image is an image of the pool that is there in whole, if one is: any that a
// fetch of this digest has made.
func (s *storage) image(ctx context.Context, i *site.Image) (golibvirt.StorageVol, bool, error) {
	all, err := s.all(ctx)
	if err != nil {
		return golibvirt.StorageVol{}, false, err
	}
	counts := map[string]bool{}
	for _, v := range all {
		if stem, _, end, ours := imageVolume(v.Name); ours && end == verified {
			counts[stem] = true
		}
	}
	for _, v := range all {
		if stem, sum, end, ours := imageVolume(v.Name); ours && sum == i.SHA256 && end == "."+i.Format && counts[stem] {
			return v, true, nil
		}
	}
	return golibvirt.StorageVol{}, false, nil
}

// mostAtOnce is how much of an image goes on one way before it is noted how far
// it came.
const mostAtOnce = 64 << 20

// run fetches what is missing of the image.
func (f *fetch) run(ctx context.Context, s *storage, i *site.Image) (golibvirt.StorageVol, error) {
	v, there, err := s.find(ctx, f.stem+"."+i.Format)
	if err != nil {
		return v, err
	}
	if !there {
		f.restart()
	}
	b, err := f.open(ctx)
	if err != nil {
		return v, err
	}
	defer b.stop()
	from := bufio.NewReaderSize(io.LimitReader(b, f.size-f.offset), mostPiece)
	if f.offset == 0 {
		if v, err = f.prepare(ctx, s, i, from); err != nil {
			return v, err
		}
	}
	for f.offset < f.size {
		if err := f.put(ctx, s, v, from); err != nil {
			return v, err
		}
	}
	return v, f.verify(ctx, s, v, i)
}

// prepare makes an empty volume for an image that is worth it.
func (f *fetch) prepare(ctx context.Context, s *storage, i *site.Image, from *bufio.Reader) (golibvirt.StorageVol, error) {
	header, err := from.Peek(int(min(headerSize, f.size)))
	if err != nil {
		return golibvirt.StorageVol{}, err
	}
	if err := checkImage(i.Format, header); err != nil {
		return golibvirt.StorageVol{}, err
	}
	if f.stem != "" { // what an earlier try left of it
		if err := s.remove(ctx, f.stem+"."+i.Format); err != nil {
			return golibvirt.StorageVol{}, err
		}
	}
	if err := s.room(ctx, "the image", f.size); err != nil {
		return golibvirt.StorageVol{}, err
	}
	f.stem = newStem(i.SHA256)
	return s.create(ctx, plain(f.stem+"."+i.Format, f.size, "0644"))
}

// room refuses what does not fit into the pool.
func (s *storage) room(ctx context.Context, what string, size int64) error {
	free, err := s.free(ctx)
	if err == nil && free < size {
		err = refused("pool %s of %s has %s free, %s needs %s; make room there, or name another pool in the design",
			s.pool.Name, s.host, roughly(free), what, roughly(size))
	}
	return err
}

// put puts the next part of the image into its volume. What came before the
// server broke off counts.
func (f *fetch) put(ctx context.Context, s *storage, v golibvirt.StorageVol, from io.Reader) error {
	sum, err := f.sum.(hash.Cloner).Clone()
	if err != nil {
		return err
	}
	length := min(mostAtOnce, f.size-f.offset)
	written, broken, err := s.upload(ctx, v, io.TeeReader(io.LimitReader(from, length), sum), f.offset, length)
	if err != nil {
		return fmt.Errorf("put the image into the pool %s of %s: %w", s.pool.Name, s.host, err)
	}
	f.offset, f.sum = f.offset+written, sum
	if broken == nil && written < length {
		broken = io.ErrUnexpectedEOF
	}
	if broken != nil {
		return fmt.Errorf("%w (%s of %s came; the next try goes on there)", broken, roughly(f.offset), roughly(f.size))
	}
	return nil
}

// verify makes an image count that has the right digest, and deletes another.
func (f *fetch) verify(ctx context.Context, s *storage, v golibvirt.StorageVol, i *site.Image) error {
	got := hex.EncodeToString(f.sum.Sum(nil))
	f.restart()
	if got != i.SHA256 {
		err := refused("the image has the SHA-256 %s, the design says %s; Slipway deleted it: check whether somebody replaced the image, or forgot to change its digest", got, i.SHA256)
		return errors.Join(err, s.remove(ctx, v.Name))
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	d, err := s.describe(ctx, v)
	if err != nil {
		return err
	}
	if d.BackingStore != nil {
		err := refused("the image refers to another file; Slipway deleted the image: use an image without a backing file")
		return errors.Join(err, s.remove(ctx, v.Name))
	}
	if is := takenFor(d); is != i.Format {
		err := refused("libvirt recognizes the image as %s, but the design says %s; Slipway deleted the image: correct its format in the design, or use another image", printable(is), i.Format)
		return errors.Join(err, s.remove(ctx, v.Name))
	}
	return s.count(ctx, f.stem)
}

// count makes an image count.
func (s *storage) count(ctx context.Context, stem string) error {
	_, err := s.create(ctx, plain(stem+verified, 0, "0644"))
	if says(err, golibvirt.ErrStorageVolExist) {
		return nil
	}
	return err
}
