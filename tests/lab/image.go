package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	imageSize  = 256 << 10
	maxImage   = 64 << 20
	fetchLimit = time.Minute
	// trailer begins the marker that a personalised medium ends in.
	trailer = "\nslipway-marker "
	// maxTrailer is the longest trailer with its marker.
	maxTrailer = 4 << 10
)

// image is an installation medium.
type image struct {
	content []byte
	digest  string
}

// makeImages makes the images' bytes from the seed; without any configured
// there is one, debian12.
func makeImages(c Config) map[string]image {
	if len(c.Images) == 0 {
		c.Images = []ImageConfig{{Name: "debian12"}}
	}
	images := map[string]image{}
	for _, i := range c.Images {
		content := i.Content
		if content == nil {
			content = imageBytes(c.Seed, i.Name, cmp.Or(i.Size, imageSize))
		}
		images[i.Name] = image{content, hexSum(content)}
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

// ImageSHA256 is the digest of an image of the usual size, by seed and name.
func ImageSHA256(seed, name string) string { return hexSum(imageBytes(seed, name, imageSize)) }

// ImageSHA256 is the digest of one of the fleet's images.
func (f *Fleet) ImageSHA256(name string) string { return f.images[name].digest }

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
	i, ok := f.images[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	send(w, i.content)
}

// personalImage is an image that carries the marker of one installation, as
// a site's image server makes it.
func (f *Fleet) personalImage(w http.ResponseWriter, r *http.Request) {
	number, isISO := strings.CutSuffix(r.PathValue("file"), ".iso")
	generation, err := strconv.Atoi(number)
	i, ok := f.images[r.PathValue("name")]
	if !ok || !isISO || err != nil || len(r.PathValue("node")) > maxTrailer/8 {
		http.NotFound(w, r)
		return
	}
	marker, err := json.Marshal(site.Marker{Node: r.PathValue("node"), Generation: generation, Image: i.digest})
	if err != nil {
		panic(err) // a marker is ours
	}
	send(w, i.content, []byte(trailer), marker)
}

func send(w http.ResponseWriter, parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	w.Header().Set("Content-Type", "application/x-iso9660-image")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	for _, p := range parts {
		w.Write(p)
	}
}

// fetch really fetches an inserted image, as the BMC does, and gives the disk
// that an installer makes of it.
func (f *Fleet) fetch(ctx context.Context, url string) (disk, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return disk{}, err
	}
	t := &http.Transport{DisableKeepAlives: true}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return disk{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return disk{}, fmt.Errorf("fetch %s: %s", url, resp.Status)
	}
	m := newMedium()
	n, err := io.Copy(m, io.LimitReader(resp.Body, maxImage+1))
	switch {
	case err != nil:
		return disk{}, err
	case n > maxImage:
		return disk{}, fmt.Errorf("fetch %s: it is larger than %d MiB", url, maxImage>>20)
	}
	return m.disk(), nil
}

// medium reads an image without keeping it: it hashes all but the end, in
// which the marker may be.
type medium struct {
	hash hash.Hash
	tail []byte
}

func newMedium() *medium { return &medium{hash: sha256.New()} }

func (m *medium) Write(p []byte) (int, error) {
	m.tail = append(m.tail, p...)
	if n := len(m.tail) - maxTrailer; n > 0 {
		m.hash.Write(m.tail[:n])
		m.tail = append(m.tail[:0], m.tail[n:]...)
	}
	return len(p), nil
}

// disk parts the image from its marker.
func (m *medium) disk() disk {
	var d disk
	image := m.tail
	if i := bytes.LastIndex(m.tail, []byte(trailer)); i >= 0 {
		var marker site.Marker
		if json.Unmarshal(m.tail[i+len(trailer):], &marker) == nil {
			image, d.marker = m.tail[:i], &marker
		}
	}
	m.hash.Write(image)
	d.digest = hex.EncodeToString(m.hash.Sum(nil))
	return d
}
