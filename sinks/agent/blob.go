package agent

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Supply implements driver.Supplied.
func (m *machine) Supply(open func(sha256 string) (io.ReadCloser, int64, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.supply = open
}

// blobs opens the artifacts that the helper wants for items, or says why not. The machine must not see any other
// artifact.
func (m *machine) blobs(items []item.Item) func(w wire.Want) (io.ReadCloser, wire.Blob) {
	m.mu.Lock()
	open := m.supply
	m.mu.Unlock()
	return suppliedTo(items, open)
}

func suppliedTo(items []item.Item, open func(sha256 string) (io.ReadCloser, int64, error)) func(w wire.Want) (io.ReadCloser, wire.Blob) {
	return func(w wire.Want) (io.ReadCloser, wire.Blob) {
		if w.SHA256 == "" || !slices.ContainsFunc(items, func(i item.Item) bool { return slices.Contains(i.Artifacts(), w.SHA256) }) {
			return nil, wire.Blob{Refused: site.Printable(w.For) + ": no file of the design has this content"}
		}
		return blobOf(w, open)
	}
}

func blobOf(w wire.Want, open func(sha256 string) (io.ReadCloser, int64, error)) (io.ReadCloser, wire.Blob) {
	file := site.Printable(w.For)
	refuse := func(format string, args ...any) (io.ReadCloser, wire.Blob) {
		return nil, wire.Blob{Refused: file + ": " + fmt.Sprintf(format, args...)}
	}
	if open == nil {
		return refuse("its content is an artifact, and this daemon has no artifact store")
	}
	content, size, err := open(w.SHA256)
	if err != nil {
		return refuse("its content is an artifact: %v", err)
	}
	switch {
	case size > item.MaxArtifact:
		content.Close()
		return refuse("its content is an artifact of %d bytes, and a file gets at most %d. Put more into a package or into the image", size, int64(item.MaxArtifact))
	case size > w.Room:
		content.Close()
		return refuse("its content has %d bytes, and there is room for %d on its file system. Make room there; the file is as it was", size, w.Room)
	}
	return content, wire.Blob{Size: size}
}

// tellBlobEvery is the interval between progress reports while an artifact is sent.
const tellBlobEvery = 2 * time.Second

// send answers a want. On an error, the machine waits for bytes that will not come, so the caller must close the
// connection.
func (x exchange) send(to io.Writer, w wire.Want) error {
	var content io.ReadCloser
	b := wire.Blob{Refused: "the contents of files cannot be sent here"}
	if x.supply != nil {
		content, b = x.supply(w)
	}
	if wire.Write(to, b) != nil || content == nil {
		return nil // the peer is gone; the next read reports it
	}
	defer content.Close()
	sent := &counted{to: to, told: time.Now(), tell: func(n int64) {
		if x.tell != nil {
			x.tell(wire.Progress{Text: fmt.Sprintf("sending the content of %s: %d of %d MB", site.Printable(w.For), n/1e6, b.Size/1e6)})
		}
	}}
	if _, err := io.CopyN(sent, content, b.Size); err != nil && sent.err == nil {
		return fmt.Errorf("read the content of %s: %w", site.Printable(w.For), err)
	}
	return nil // if the peer is gone, the caller reads what the helper said
}

// counted counts the bytes written and reports them from time to time.
type counted struct {
	to   io.Writer
	n    int64
	err  error // from writing
	told time.Time
	tell func(n int64)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n, c.err = c.n+int64(n), err
	if time.Since(c.told) > tellBlobEvery {
		c.told = time.Now()
		c.tell(c.n)
	}
	return n, err
}
