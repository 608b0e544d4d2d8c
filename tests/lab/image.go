package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	imageSize  = 256 << 10
	maxImage   = 64 << 20
	fetchLimit = time.Minute
	// trailer begins the note that a node's own medium ends in.
	trailer = "\nslipway-note "
	// maxTrailer is the longest trailer with its note.
	maxTrailer = 4 << 10
)

// makeImages makes the images' bytes from the seed; without any configured
// there is one, debian12.
func makeImages(c Config) map[string][]byte {
	if len(c.Images) == 0 {
		c.Images = []ImageConfig{{Name: "debian12"}}
	}
	images := map[string][]byte{}
	for _, i := range c.Images {
		content := i.Content
		if content == nil {
			content = imageBytes(c.Seed, i.Name, cmp.Or(i.Size, imageSize))
		}
		images[i.Name] = content
	}
	return images
}

func imageBytes(seed, name string, size int) []byte {
	sum := sha256.Sum256([]byte("slipway lab image\x00" + seed + "\x00" + name))
	r := rand.New(rand.NewChaCha8(sum))
	b := make([]byte, 0, size+8)
	for len(b) < size {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:size]
}

// ImageSHA256 is the digest of a node's own image in a generation, by the seed
// and the name of an image of the usual size.
func ImageSHA256(seed, name, node string, generation int) string {
	return hexSum(ownImage(imageBytes(seed, name, imageSize), node, generation))
}

// ImageSHA256 is the digest of a node's own image in a generation, for one of the
// fleet's images.
func (f *Fleet) ImageSHA256(name, node string, generation int) string {
	return hexSum(ownImage(f.images[name], node, generation))
}

// note is what a node's own medium says of the installation that it is for. Its
// installer completes it with the digest of the medium, which no medium can hold.
type note struct {
	Node       string `json:"node"`
	Generation int    `json:"generation"`
}

// ownImage is an image with the note of one installation, as a site's image
// server makes it.
func ownImage(image []byte, node string, generation int) []byte {
	text, err := json.Marshal(note{node, generation})
	if err != nil {
		panic(err) // a note is ours
	}
	return slices.Concat(image, []byte(trailer), text)
}

// ImageURL is where an image is served, with the placeholders of a design.
func (f *Fleet) ImageURL(name string) string {
	return fmt.Sprintf("http://%s/images/%s/{node}/{generation}.iso", f.imageHost(), name)
}

func (f *Fleet) imageHost() string {
	return net.JoinHostPort(cmp.Or(f.config.ImageAddr, "127.0.0.1"), strconv.Itoa(f.ports.image))
}

func (f *Fleet) serveImages() error {
	l, err := net.Listen("tcp4", net.JoinHostPort(cmp.Or(f.config.ImageAddr, "127.0.0.1"), strconv.Itoa(f.config.ImagePort)))
	if err != nil {
		return fmt.Errorf("listen for the image server: %w", err)
	}
	f.ports.image = l.Addr().(*net.TCPAddr).Port
	mux := http.NewServeMux()
	mux.HandleFunc("GET /images/{name}", f.plainImage)
	mux.HandleFunc("GET /images/{name}/{node}/{file}", f.personalImage)
	srv := f.count(&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 15 * time.Second})
	f.closers = append(f.closers, srv.Close)
	f.work.Go(func() { srv.Serve(l) })
	return nil
}

func (f *Fleet) plainImage(w http.ResponseWriter, r *http.Request) {
	name, _ := strings.CutSuffix(r.PathValue("name"), ".iso")
	content, ok := f.images[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	serveImage(w, r, content)
}

// personalImage is the image of one installation.
func (f *Fleet) personalImage(w http.ResponseWriter, r *http.Request) {
	number, isISO := strings.CutSuffix(r.PathValue("file"), ".iso")
	generation, err := strconv.Atoi(number)
	content, ok := f.images[r.PathValue("name")]
	if !ok || !isISO || err != nil || len(r.PathValue("node")) > maxTrailer/8 {
		http.NotFound(w, r)
		return
	}
	serveImage(w, r, ownImage(content, r.PathValue("node"), generation))
}

func serveImage(w http.ResponseWriter, r *http.Request, content []byte) {
	w.Header().Set("Content-Type", "application/x-iso9660-image")
	w.Header().Set("ETag", strconv.Quote(hexSum(content)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// probe reads of an image what a BMC reads of it at first, see readable.
func (f *Fleet) probe(ctx context.Context, url string, most int64) error {
	r := newReader(ctx, url)
	r.most = most
	defer r.close()
	size, err := r.size()
	if err == nil {
		err = r.part(io.Discard, 0, min(size, sectors))
	}
	return err
}

// sectors is how much of a medium a machine reads at a time, a multiple of a CD's
// sector.
const sectors = 64 << 10

// fetch really fetches an image, and gives the disk that an installer makes of it.
// A medium is read in parts, as machines read a virtual CD; firmware that boots by
// HTTP reads all at once.
func (f *Fleet) fetch(ctx context.Context, url string, byHTTP bool) (disk, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	r := newReader(ctx, url)
	defer r.close()
	again := r.reconnecting
	if f.config.LaxMedia { // there was no connection yet
		again = func(read func() error) error { return read() }
	}
	m := newMedium()
	if byHTTP {
		size, err := r.size()
		if err == nil {
			err = r.whole(m, size)
		}
		return m.disk(), err
	}
	var size int64
	err := again(func() (err error) {
		size, err = r.size()
		return err
	})
	for at := int64(0); at < size && err == nil; at += sectors {
		err = again(func() error { return r.part(m, at, min(size, at+sectors)) })
	}
	return m.disk(), err
}

// reconnectEvery is how long a BMC waits before it reads again.
const reconnectEvery = 200 * time.Millisecond

// wrong is an answer that no other try makes better.
type wrong struct{ error }

func wrongly(format string, args ...any) error { return wrong{fmt.Errorf(format, args...)} }

// reconnecting repeats a read whose connection failed: a BMC keeps a medium that is
// in use while its server restarts. Firmware that boots by HTTP does not.
func (r *reader) reconnecting(read func() error) error {
	for {
		err := read()
		if err == nil || errors.As(err, new(wrong)) {
			return err
		}
		select {
		case <-r.ctx.Done():
			return err
		case <-time.After(reconnectEvery):
		}
	}
}

// reader reads an image over one connection.
type reader struct {
	ctx       context.Context
	url       string
	transport *http.Transport
	most      int64 // the bytes of the largest image that is taken
}

func newReader(ctx context.Context, url string) *reader {
	return &reader{ctx, url, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, maxImage} // as BMCs are delivered
}

func (r *reader) close() { r.transport.CloseIdleConnections() }

func (r *reader) do(method, ranges string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.ctx, method, r.url, nil)
	if err != nil {
		return nil, err
	}
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}
	return r.transport.RoundTrip(req)
}

// size is what the server says of the image's size before it is read.
func (r *reader) size() (int64, error) {
	resp, err := r.do(http.MethodHead, "")
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK:
		return 0, wrongly("HEAD of %s: %s", r.url, resp.Status)
	case resp.ContentLength <= 0 || resp.ContentLength > r.most:
		return 0, wrongly("HEAD of %s: it has %d bytes, and 1 to %d are taken", r.url, resp.ContentLength, r.most)
	}
	return resp.ContentLength, nil
}

// whole reads the image at once.
func (r *reader) whole(to io.Writer, size int64) error {
	resp, err := r.do(http.MethodGet, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET of %s: %s", r.url, resp.Status)
	}
	n, err := io.Copy(to, io.LimitReader(resp.Body, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("GET of %s: %d bytes of %d", r.url, n, size)
	}
	return err
}

// part reads a part of the image, which must be what the server says it is.
func (r *reader) part(to io.Writer, from, end int64) error {
	resp, err := r.do(http.MethodGet, fmt.Sprintf("bytes=%d-%d", from, end-1))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got, want := resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-%d/", from, end-1); resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(got, want) {
		return wrongly("GET of %s: %s with the range %q, asked for %s…", r.url, resp.Status, got, want)
	}
	bytes, err := io.ReadAll(io.LimitReader(resp.Body, end-from))
	if err != nil {
		return err
	}
	if int64(len(bytes)) != end-from {
		return wrongly("GET of %s: %d bytes of %d", r.url, len(bytes), end-from)
	}
	_, err = to.Write(bytes)
	return err
}

// medium reads an image without keeping it: it hashes all of it, and keeps the
// end, in which the note may be.
type medium struct {
	hash hash.Hash
	tail []byte
}

func newMedium() *medium { return &medium{hash: sha256.New()} }

func (m *medium) Write(p []byte) (int, error) {
	m.hash.Write(p)
	m.tail = append(m.tail, p...)
	m.tail = m.tail[max(0, len(m.tail)-maxTrailer):]
	return len(p), nil
}

// disk is what the medium's installer writes: the marker names the medium by the
// digest of what was read of it.
func (m *medium) disk() disk {
	d := disk{digest: hex.EncodeToString(m.hash.Sum(nil))}
	if i := bytes.LastIndex(m.tail, []byte(trailer)); i >= 0 {
		var n note
		if json.Unmarshal(m.tail[i+len(trailer):], &n) == nil {
			d.marker = &site.Marker{Node: n.Node, Generation: n.Generation, Image: d.digest}
		}
	}
	return d
}
