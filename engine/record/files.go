package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Files hold values that are too large for etcd, compressed. Each is named by its
// site and the SHA-256 of its content: SITE.DIGEST.json.gz. A file is never changed.
// With records in a shared etcd they are there too (chunks.go), and not on disk.

const fileSuffix = ".json.gz"

// ownFile matches what follows "SITE." in the names of a site's files.
var ownFile = regexp.MustCompile(`^(?:([0-9a-f]{64})\.json\.gz|tmp[0-9]+)$`)

func (s *Store) files() string { return filepath.Join(s.dir, "files") }

func (s *Site) filePath(digest string) string {
	return filepath.Join(s.store.files(), s.name+"."+digest+fileSuffix)
}

// writeFile stores a value and returns its digest.
func (s *Site) writeFile(ctx context.Context, value []byte) (digest string, err error) {
	return s.saveFile(ctx, func(w io.Writer) error {
		_, err := w.Write(value)
		return err
	})
}

// saveFile stores what fill writes, and returns once it is durable.
func (s *Site) saveFile(ctx context.Context, fill func(io.Writer) error) (digest string, err error) {
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	packed := func(w io.Writer) error {
		z.Reset(w)
		return errors.Join(fill(z), z.Close())
	}
	if s.store.shared != nil {
		return s.saveChunks(ctx, packed)
	}
	return s.saveOnDisk(packed)
}

// saveOnDisk stores what fill writes in a file of the state directory. The file gets its name only
// after it is complete and on disk.
func (s *Site) saveOnDisk(fill func(io.Writer) error) (digest string, err error) {
	f, err := os.CreateTemp(s.store.files(), s.name+".tmp*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	h := sha256.New()
	if err := fill(io.MultiWriter(f, h)); err != nil {
		return "", err
	}
	digest = hex.EncodeToString(h.Sum(nil))
	if err := s.store.syncFile(f); err != nil {
		return "", err
	}
	if err := os.Rename(f.Name(), s.filePath(digest)); err != nil {
		return "", err
	}
	return digest, s.store.syncFolder(s.store.files())
}

// writeWhole writes a file of mode 0600. It gets its name only after it is complete and on disk: an empty one after a
// power loss would count as damaged.
func (s *Store) writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := s.syncFile(f); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return s.syncFolder(filepath.Dir(path))
}

func (s *Store) syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return s.syncFile(d)
}

func (s *Store) syncFile(f *os.File) error {
	if !s.sync {
		return nil
	}
	return f.Sync()
}

// openFile returns the content of a file after checking its digest.
func (s *Site) openFile(ctx context.Context, digest string) (io.Reader, error) {
	read := s.readFromDisk
	if s.store.shared != nil {
		read = func(digest string) ([]byte, error) { return s.readChunks(ctx, digest) }
	}
	b, err := read(digest)
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(bytes.NewReader(b))
}

func (s *Site) readFromDisk(digest string) ([]byte, error) {
	path := s.filePath(digest)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, damaged(err)
	}
	if is := sha256.Sum256(b); hex.EncodeToString(is[:]) != digest {
		return nil, damaged(fmt.Errorf("%s does not have the content that its name says", path))
	}
	return b, nil
}

// readFile returns the value that writeFile stored.
func (s *Site) readFile(ctx context.Context, digest string) ([]byte, error) {
	r, err := s.openFile(ctx, digest)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// dropFile removes a file that no record names any more. If an export may be
// reading it, the next start sweeps it instead.
func (s *Site) dropFile(ctx context.Context, digest string) error {
	switch {
	case s.store.exporting.Load() > 0:
		return nil
	case s.store.shared != nil:
		return s.dropChunks(ctx, digest)
	}
	if err := os.Remove(s.filePath(digest)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// sweepFiles removes the site's files that are not in use.
func (s *Site) sweepFiles(ctx context.Context, used map[string]bool) error {
	if s.store.shared != nil {
		return s.sweepChunks(ctx, used)
	}
	all, err := os.ReadDir(s.store.files())
	if err != nil {
		return err
	}
	for _, f := range all {
		rest, ours := strings.CutPrefix(f.Name(), s.name+".")
		if m := ownFile.FindStringSubmatch(rest); !ours || m == nil || used[m[1]] {
			continue
		}
		if err := os.Remove(filepath.Join(s.store.files(), f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// writeDesign stores a design as a sequence of JSON values: the site without
// its nodes, then one node after the other. So reading needs memory for the
// text of one node at a time.
func (s *Site) writeDesign(ctx context.Context, design *site.Site) (digest string, err error) {
	return s.saveFile(ctx, func(w io.Writer) error {
		buf := bufio.NewWriterSize(w, 64<<10)
		enc := json.NewEncoder(buf)
		head := *design
		head.Nodes = nil
		if err := enc.Encode(head); err != nil {
			return err
		}
		for _, name := range design.NodeNames() {
			if err := enc.Encode(design.Nodes[name]); err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
		}
		return buf.Flush()
	})
}

// readDesign reads what writeDesign stored.
func (s *Site) readDesign(ctx context.Context, digest string) (*site.Site, error) {
	r, err := s.openFile(ctx, digest)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(r)
	design := &site.Site{}
	if err := dec.Decode(design); err != nil {
		return nil, err
	}
	design.Nodes = map[string]*site.Node{}
	for {
		n := &site.Node{}
		if err := dec.Decode(n); errors.Is(err, io.EOF) {
			return design, nil
		} else if err != nil {
			return nil, err
		}
		design.Nodes[n.Name] = n
	}
}

// Compressors and decompressors are pooled: each takes up to a megabyte.
var (
	compressors = sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // no error for a known level
		return z
	}}
	decompressors = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

// compress compresses a repetitive value.
func compress(value []byte) []byte {
	var b bytes.Buffer
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(&b)
	z.Write(value) // writing to memory cannot fail
	z.Close()
	return b.Bytes()
}

func decompress(value []byte) ([]byte, error) {
	z := decompressors.Get().(*gzip.Reader)
	defer decompressors.Put(z)
	if err := z.Reset(bytes.NewReader(value)); err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
