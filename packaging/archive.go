package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"time"
)

// writeArchive writes a tree as a gzip-compressed tar whose one folder has the
// files as they are below /.
func writeArchive(file string, r release, tree []entry) error {
	packed, err := tarOf("slipway-"+r.version, r.time, tree)
	if err == nil {
		packed, err = gzipped(packed)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, packed, 0o644)
}

// tarOf is a tar of a tree, in the order of its paths.
func tarOf(below string, when time.Time, tree []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	tree = slices.Clone(tree)
	slices.SortFunc(tree, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	for _, e := range tree {
		content, err := e.content()
		if err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(below+e.path, "/"), Mode: int64(e.mode), Size: int64(len(content)),
			Uid: e.owner, Gid: e.owner, ModTime: when, Format: tar.FormatPAX}
		if e.folder {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
