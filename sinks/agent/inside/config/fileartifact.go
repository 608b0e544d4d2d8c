package config

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// putArtifact makes a file whose content the daemon sends if it is missing.
func (w *work) putArtifact(key, file string, e tree.Entry, body item.File, mode uint32, uid, gid int) error {
	is := ""
	if e.Kind == tree.File {
		var err error
		if is, err = w.digest(key, file, e); err != nil {
			return err
		}
	}
	want := item.DigestOf(body.Artifact)
	if is != want || e.Mode != mode || e.UID != uid || e.GID != gid {
		if err := w.takeFile(key, file, e, false); err != nil {
			return err
		}
		if err := w.noteChange(key, file); err != nil {
			return err
		}
		err := tree.ErrOther
		if is == want && e.UID == uid && e.GID == gid {
			err = w.tree.SetMode(file, e, mode)
		}
		if errors.Is(err, tree.ErrOther) {
			err = w.fetch(file, body.Artifact, mode, uid, gid)
		}
		if err != nil {
			return err
		}
	}
	if err := w.tree.Sweep(file); err != nil {
		return err
	}
	if _, ours := w.h.Owned.Entry(name, key); !ours {
		return nil // it was already so before Slipway
	}
	e, err := w.tree.Look(file)
	if err != nil {
		return err
	}
	var made madeFile
	w.items.Load(key, nil, &made)
	made.Content, made.Stamp = want, e.Stamp
	return w.items.Note(key, made)
}

// fetch writes the bytes of an artifact to a file.
func (w *work) fetch(file, sha256 string, mode uint32, uid, gid int) error {
	room, err := w.tree.Room(file)
	if err != nil {
		return err
	}
	if w.h.Fetch == nil {
		return &wire.Error{Class: wire.Refused, Text: "the contents of files cannot be sent here"}
	}
	content, size, err := w.h.Fetch(sha256, file, room)
	if err != nil {
		return err
	}
	defer content.Close()
	text, err := w.guardFetched(file, content, size)
	if err != nil {
		return err
	}
	err = w.tree.PutFrom(file, text, size, sha256, mode, uid, gid)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the file system of %s is full: it has no room for %d bytes. Make room; the file is as it was", file, size)}
	}
	return err
}
