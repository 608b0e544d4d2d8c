package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// ImageConfig is an installation medium that the lab's image server has.
type ImageConfig struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"` // in bytes, 256 KiB by default
}

const (
	imageSize  = 256 << 10
	maxImage   = 64 << 20
	fetchLimit = time.Minute
	// trailer begins the marker that a personalised medium ends in.
	trailer = "\nslipway-marker "
)

// makeImages makes the images' bytes from the seed; without any configured
// there is one, debian12.
func makeImages(c Config) map[string][]byte {
	if len(c.Images) == 0 {
		c.Images = []ImageConfig{{Name: "debian12"}}
	}
	images := map[string][]byte{}
	for _, i := range c.Images {
		images[i.Name] = imageBytes(c.Seed, i.Name, orDefault(i.Size, imageSize))
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
func (f *Fleet) ImageSHA256(name string) string { return hexSum(f.images[name]) }

// ImageURL is where an image is served, with the placeholders of a design.
func (f *Fleet) ImageURL(name string) string {
	return fmt.Sprintf("http://%s/images/%s/{node}/{generation}.iso", f.imageHost(), name)
}

func (f *Fleet) imageHost() string {
	return net.JoinHostPort(orDefault(f.config.ImageAddr, "127.0.0.1"), strconv.Itoa(f.ports.image))
}

func (f *Fleet) serveImages() error {
	l, err := net.Listen("tcp4", net.JoinHostPort(orDefault(f.config.ImageAddr, "127.0.0.1"), strconv.Itoa(f.config.ImagePort)))
	if err != nil {
		return fmt.Errorf("listen for the image server: %w", err)
	}
	f.ports.image = l.Addr().(*net.TCPAddr).Port
	mux := http.NewServeMux()
	mux.HandleFunc("GET /images/{name}", f.plainImage)
	mux.HandleFunc("GET /images/{name}/{node}/{file}", f.personalImage)
	f.web = &http.Server{Handler: mux, ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second}
	f.closers = append(f.closers, f.web.Close)
	f.work.Go(func() { f.web.Serve(l) })
	return nil
}

func (f *Fleet) plainImage(w http.ResponseWriter, r *http.Request) {
	name, _ := strings.CutSuffix(r.PathValue("name"), ".iso")
	if f.images[name] == nil {
		http.NotFound(w, r)
		return
	}
	w.Write(f.images[name])
}

// personalImage is an image that carries the marker of one installation, as
// a site's image server makes it.
func (f *Fleet) personalImage(w http.ResponseWriter, r *http.Request) {
	number, isISO := strings.CutSuffix(r.PathValue("file"), ".iso")
	generation, err := strconv.Atoi(number)
	base := f.images[r.PathValue("name")]
	if base == nil || !isISO || err != nil {
		http.NotFound(w, r)
		return
	}
	marker, err := json.Marshal(site.Marker{Node: r.PathValue("node"), Generation: generation, Image: hexSum(base)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(base)
	io.WriteString(w, trailer)
	w.Write(marker)
}

// fetch really fetches an inserted image, as the BMC does.
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
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxImage+1))
	if err != nil || len(body) > maxImage {
		return disk{}, fmt.Errorf("fetch %s: too large or broken off: %w", url, err)
	}
	return unpack(body), nil
}

// unpack is what an image makes of a disk: it parts the image from the marker
// that it may carry.
func unpack(body []byte) disk {
	i := bytes.LastIndex(body, []byte(trailer))
	if i < 0 {
		return disk{digest: hexSum(body)}
	}
	var m site.Marker
	if json.Unmarshal(body[i+len(trailer):], &m) != nil {
		return disk{digest: hexSum(body)}
	}
	return disk{digest: hexSum(body[:i]), marker: &m}
}
