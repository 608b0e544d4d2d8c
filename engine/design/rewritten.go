package design

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"time"
)

// withTexts returns files with the texts of some replaced.
func withTexts(files fs.FS, texts map[string][]byte) fs.FS { return textsOver{files, texts} }

type textsOver struct {
	fs.FS
	texts map[string][]byte
}

// Open opens a file, with its replaced text if it has one.
func (o textsOver) Open(name string) (fs.File, error) {
	text, is := o.texts[name]
	if !is {
		return o.FS.Open(name)
	}
	return replaced{bytes.NewReader(text), replacedInfo{path.Base(name), int64(len(text))}}, nil
}

// ReadDir lists a folder. A replaced file gets a new entry, because the original entry may have a
// content ID.
func (o textsOver) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(o.FS, name)
	for i, e := range all {
		if text, is := o.texts[path.Join(name, e.Name())]; is {
			all[i] = fs.FileInfoToDirEntry(replacedInfo{e.Name(), int64(len(text))})
		}
	}
	return all, err
}

// replaced is an open file with a replaced text.
type replaced struct {
	io.Reader
	info replacedInfo
}

func (r replaced) Stat() (fs.FileInfo, error) { return r.info, nil }
func (r replaced) Close() error               { return nil }

// replacedInfo is the file info of a replaced file.
type replacedInfo struct {
	name string
	size int64
}

func (i replacedInfo) Name() string     { return i.name }
func (i replacedInfo) Size() int64      { return i.size }
func (replacedInfo) Mode() fs.FileMode  { return 0o644 }
func (replacedInfo) ModTime() time.Time { return time.Time{} }
func (replacedInfo) IsDir() bool        { return false }
func (replacedInfo) Sys() any           { return nil }
