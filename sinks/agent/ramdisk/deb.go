package ramdisk

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// These are the bounds of one package.
const (
	maxControl = 1 << 20   // bytes of its control file
	maxFile    = 256 << 20 // bytes of one of its files that is kept
)

// deb is a Debian package in a file.
type deb struct {
	file    *os.File
	members []member
	fields  map[string]string // of its control file, only those of one line
}

// member is a part of the package's ar archive.
type member struct {
	name     string
	at, size int64
}

// openDeb reads a package's description, and checks that the package is complete.
func openDeb(name string) (*deb, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	d := &deb{file: f}
	if err = d.readMembers(); err == nil {
		err = d.readControl()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

func (d *deb) Close() { d.file.Close() }

// readMembers lists the parts of the archive, in the format of ar(5) and deb(5).
func (d *deb) readMembers() error {
	const magic, head = "!<arch>\n", 60
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	start := make([]byte, len(magic))
	if _, err := d.file.ReadAt(start, 0); err != nil || string(start) != magic {
		return errors.New("it is not a Debian package")
	}
	for at := int64(len(magic)); at < info.Size(); {
		var h [head]byte
		if _, err := d.file.ReadAt(h[:], at); err != nil {
			return errCut
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		if err != nil || size < 0 || string(h[58:]) != "`\n" {
			return errors.New("it is not a Debian package, or it is damaged")
		}
		m := member{strings.TrimRight(strings.TrimSpace(string(h[:16])), "/"), at + head, size}
		if m.at+size > info.Size() {
			return errCut
		}
		d.members = append(d.members, m)
		at = m.at + size + size%2
	}
	return nil
}

var errCut = errors.New("the package is cut off; fetch it again")

// open unpacks the part with a name prefix: "control.tar" or "data.tar".
func (d *deb) open(name string) (io.ReadCloser, error) {
	for _, m := range d.members {
		packed, ok := strings.CutPrefix(m.name, name)
		if !ok {
			continue
		}
		r := io.NewSectionReader(d.file, m.at, m.size)
		switch packed {
		case "":
			return io.NopCloser(r), nil
		case ".gz":
			return gzip.NewReader(r)
		case ".xz":
			x, err := xz.NewReader(r)
			if err != nil {
				return nil, err
			}
			return io.NopCloser(x), nil
		case ".zst":
			z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
			if err != nil {
				return nil, err
			}
			return z.IOReadCloser(), nil
		}
		return nil, fmt.Errorf("its part %s is packed in a way that Slipway does not read", m.name)
	}
	return nil, fmt.Errorf("it has no part %s: %w", name, errCut)
}

// each passes on the files of a part of the package one by one, with paths without a leading "/".
func (d *deb) each(part string, visit func(name string, h *tar.Header, content io.Reader) error) error {
	r, err := d.open(part)
	if err != nil {
		return err
	}
	defer r.Close()
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = visit(strings.TrimPrefix(path.Clean("/"+h.Name), "/"), h, t)
		}
		if err != nil {
			return damaged(err)
		}
	}
}

// damaged explains an unpacking error.
func damaged(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errCut
	}
	return err
}

func (d *deb) readControl() error {
	text := []byte(nil)
	err := d.each("control.tar", func(name string, h *tar.Header, content io.Reader) (err error) {
		if name == "control" {
			text, err = io.ReadAll(io.LimitReader(content, maxControl))
		}
		return err
	})
	if err != nil {
		return err
	}
	d.fields = map[string]string{}
	for l := range bytes.Lines(text) {
		if name, value, ok := strings.Cut(string(l), ":"); ok && !strings.HasPrefix(name, " ") {
			d.fields[name] = strings.TrimSpace(value)
		}
	}
	if d.fields["Package"] == "" || d.fields["Version"] == "" {
		return errors.New("it does not say which package it is")
	}
	return nil
}

// digest is the SHA-256 of the whole file.
func (d *deb) digest() (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(d.file, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readFile reads a file of a package, within a limit.
func readFile(h *tar.Header, content io.Reader) ([]byte, error) {
	if h.Size > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than Slipway reads: %w", h.Name, h.Size, fs.ErrInvalid)
	}
	all := make([]byte, h.Size)
	_, err := io.ReadFull(content, all)
	return all, err
}
