package design

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"time"
)

// withTexts are files with other texts in the places of some.
func withTexts(files fs.FS, texts map[string][]byte) fs.FS { return textsOver{files, texts} }

type textsOver struct {
	fs.FS
	texts map[string][]byte
}

// Open opens a file, with the other text where there is one.
func (o textsOver) Open(name string) (fs.File, error) {
	text, is := o.texts[name]
	if !is {
		return o.FS.Open(name)
	}
	return replaced{bytes.NewReader(text), replacedInfo{path.Base(name), int64(len(text))}}, nil
}

// ReadDir lists a folder. A file with another text has no entry of the files below, which may know
// its content by an id.
func (o textsOver) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(o.FS, name)
	for i, e := range all {
		if text, is := o.texts[path.Join(name, e.Name())]; is {
			all[i] = fs.FileInfoToDirEntry(replacedInfo{e.Name(), int64(len(text))})
		}
	}
	return all, err
}

// replaced is an open file with another text.
type replaced struct {
	io.Reader
	info replacedInfo
}

func (r replaced) Stat() (fs.FileInfo, error) { return r.info, nil }
func (r replaced) Close() error               { return nil }

// replacedInfo is what is told of it.
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
