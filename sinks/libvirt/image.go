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

// An image is a volume named after its digest and the fetch that wrote it. So two daemons, or one that knows a
// hypervisor by two names, never write the same volume. The image is valid once its companion exists: an empty
// volume with the same stem, made after the digest was verified.
const (
	imagePrefix = "slipway-image-"
	verified    = ".verified"
)

var (
	digest     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	imageParts = regexp.MustCompile(`^(slipway-image-([0-9a-f]{64})-[a-z2-7]{13})(\.qcow2|\.raw|\.verified)$`)
)

// newStem is the common part of the volume names of one fetch.
func newStem(sha256 string) string {
	return imagePrefix + sha256 + "-" + strings.ToLower(rand.Text()[:13])
}

// imageVolume splits the name of one of our images, or of its companion.
func imageVolume(name string) (stem, sum, end string, ours bool) {
	parts := imageParts.FindStringSubmatch(name)
	if parts == nil {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

// fetches are the images that are being fetched, or were fetched in part.
type fetches struct {
	client *http.Client
	quiet  time.Duration

	mu  sync.Mutex
	all map[place]*fetch
	// using is held by installations from requesting an image until a disk is made from it, and by whoever deletes
	// images.
	using sync.RWMutex
}

// place is where an image is stored.
type place struct {
	hypervisor address
	pool       string
	sha256     string
}

// fetch brings one image to one pool, one try at a time.
type fetch struct {
	turn chan struct{}
	download
	stem string // of its volume; empty before the first try
	// wanted is when it was last requested, under the lock of fetches.
	wanted time.Time
	// began counts the tries. refusal is the error of the last try if another try would fail the same way.
	mu      sync.Mutex
	began   int
	refusal error
}

// newFetches verifies certificates with this host's roots.
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

// underWay are the digests of partly fetched images. It forgets those that nobody has requested for long.
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

// image ensures that an image is in the pool, and returns its volume. If several callers want the same image, one
// fetches it and the others find it done.
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

// refused is the refusal of a try that ended while this one waited.
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

// image finds a complete image in the pool, from any fetch of this digest.
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

// mostAtOnce is how much of an image is transferred before the progress is recorded.
const mostAtOnce = 64 << 20

// run fetches the missing part of the image.
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

// prepare makes an empty volume for an image, after checking the image's header.
func (f *fetch) prepare(ctx context.Context, s *storage, i *site.Image, from *bufio.Reader) (golibvirt.StorageVol, error) {
	header, err := from.Peek(int(min(headerSize, f.size)))
	if err != nil {
		return golibvirt.StorageVol{}, err
	}
	if err := checkImage(i.Format, header); err != nil {
		return golibvirt.StorageVol{}, err
	}
	if f.stem != "" { // leftovers of an earlier try
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

// put writes the next part of the image to its volume. Data that arrived before the server broke off counts.
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

// verify marks an image with the right digest as valid, and deletes any other.
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

// count marks an image as valid.
func (s *storage) count(ctx context.Context, stem string) error {
	_, err := s.create(ctx, plain(stem+verified, 0, "0644"))
	if says(err, golibvirt.ErrStorageVolExist) {
		return nil
	}
	return err
}
