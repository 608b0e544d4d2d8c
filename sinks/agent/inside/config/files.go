package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// place is what is at a path, as stored in the list of what Slipway made.
type place struct {
	Kind    tree.Kind `json:"kind,omitempty"`
	Content []byte    `json:"content,omitempty"`
	Target  string    `json:"target,omitempty"`
	Mode    uint32    `json:"mode,omitempty"`
	UID     int       `json:"uid,omitempty"`
	GID     int       `json:"gid,omitempty"`
	// Secret says that the content was not kept, because it is a private key or a secret replaced it.
	Secret bool `json:"secret,omitempty"`
}

// fileBefore is what was at a file's path, and the folders that Slipway made.
type fileBefore struct {
	place
	Folders []string `json:"folders,omitempty"`
}

// madeFile is what is kept of a file that Slipway made. If its content is an artifact, Content is the digest at
// that Stamp, so that a large file is read once. Nothing is kept of a secret's content.
type madeFile struct {
	Content string `json:"content"`
	Stamp   string `json:"stamp"`
	// Unread is the boot in which the file changed and systemd has not read it; otherwise empty. systemd reads all
	// files at the next boot.
	Unread string `json:"unread,omitempty"`
	// Uncreated is the boot in which the file changed and systemd-tmpfiles has not processed it; otherwise empty.
	// It does so at the next boot.
	Uncreated string `json:"uncreated,omitempty"`
	// Restart lists the units that must restart because the file changed in the boot Boot. At the next boot they
	// start with the new file.
	Restart []string `json:"restart,omitempty"`
	Boot    string   `json:"boot,omitempty"`
	// Secret says that the content is a secret. Its digest is only reported with a key.
	Secret bool `json:"secret,omitempty"`
}

// applyFiles makes files. Absent files go first, because a folder may replace one.
func (w *work) applyFiles(items []item.Item) {
	for _, absent := range []bool{true, false} {
		for _, i := range items {
			if (i.Fields["state"] == item.Absent) == absent {
				if err := w.applyFile(i, absent); err != nil {
					w.fail(i.Key, err)
				}
			}
		}
	}
}

func (w *work) applyFile(i item.Item, absent bool) error {
	file := item.ID(i.Key)
	why, err := w.forbiddenAt(file)
	if err != nil {
		return err
	}
	if why != "" {
		return &wire.Error{Class: wire.Refused, Text: why}
	}
	e, err := w.tree.Look(file)
	if err != nil {
		return err
	}
	if other(e.Kind) {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s is %s, which Slipway does not replace. Move it away, or take the file out of the design", file, kindText(e))}
	}
	if absent {
		return w.absentFile(i.Key, file, e)
	}
	var body item.File
	if err := json.Unmarshal(i.Body, &body); err != nil {
		return fmt.Errorf("the body of the item: %w", err)
	}
	mode, uid, gid, err := w.attributes(body)
	if err != nil {
		return err
	}
	if err := w.guardOwner(file, mode, uid); err != nil {
		return err
	}
	if body.Artifact != "" {
		err = w.putArtifact(i.Key, file, e, body, mode, uid, gid)
	} else {
		err = w.putContent(i.Key, file, e, body, mode, uid, gid)
	}
	if err != nil {
		return err
	}
	return w.noteSecret(i.Key, len(body.Key) > 0)
}

// putContent makes a file whose content is in the item.
func (w *work) putContent(key, file string, e tree.Entry, body item.File, mode uint32, uid, gid int) error {
	if so, err := w.isFile(file, e, body.Content, mode, uid, gid); err != nil || so {
		return err
	}
	isSecret := len(body.Key) > 0
	if err := w.guardContent(file, body.Content, isSecret); err != nil {
		return err
	}
	if err := w.takeFile(key, file, e, isSecret); err != nil {
		return err
	}
	if isSecret {
		if err := w.noteSecret(key, true); err != nil {
			return err
		}
	}
	if err := w.noteChange(key, file); err != nil {
		return err
	}
	if err := w.putFile(file, body.Content, mode, uid, gid); err != nil {
		return err
	}
	return w.tree.Sweep(file)
}

func (w *work) isFile(file string, e tree.Entry, content []byte, mode uint32, uid, gid int) (bool, error) {
	if e.Kind != tree.File || e.Mode != mode || e.UID != uid || e.GID != gid || e.Size != int64(len(content)) {
		return false, nil
	}
	digest, err := w.tree.Digest(w.ctx, file, int64(len(content)))
	if err != nil || digest != item.Digest(content) {
		return false, err
	}
	return true, w.tree.Sweep(file)
}

func (w *work) attributes(f item.File) (mode uint32, uid, gid int, err error) {
	m, err := strconv.ParseUint(orElse(f.Mode, "0644"), 8, 32)
	if err != nil || m > 0o7777 {
		return 0, 0, 0, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%q is not a mode such as \"0644\"", f.Mode)}
	}
	a, err := w.names()
	if err != nil {
		return 0, 0, 0, err
	}
	uid, ok := a.users.of(orElse(f.Owner, "root"))
	if !ok {
		return 0, 0, 0, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("no account %q on this system. Add it to system.users, or the package that brings it", f.Owner)}
	}
	gid, ok = a.groups.of(orElse(f.Group, "root"))
	if !ok {
		return 0, 0, 0, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("no group %q on this system. Add the package that brings it", f.Group)}
	}
	return uint32(m), uid, gid, nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// takeFile takes ownership of a file, and keeps what was there before. If a secret replaces the file, the old
// content is probably a secret too and is not kept.
func (w *work) takeFile(key, file string, e tree.Entry, isSecret bool) error {
	if _, ours := w.h.Owned.Entry(name, key); ours {
		return nil
	}
	p, err := w.kept(file, e, isSecret)
	if err != nil {
		return err
	}
	folders, err := w.foldersOf(file)
	if err != nil {
		return err
	}
	return w.items.Take(key, fileBefore{p, folders})
}

func (w *work) absentFile(key, file string, e tree.Entry) error {
	if e.Kind != tree.Nothing {
		if err := w.takeFile(key, file, e, false); err != nil {
			return err
		}
		if err := w.noteChange(key, file); err != nil {
			return err
		}
	}
	if err := w.tree.Remove(file); err != nil {
		return err
	}
	var before fileBefore
	if !w.items.Load(key, &before, nil) {
		return nil
	}
	return w.tree.RemoveFolders(before.Folders)
}

// removeFiles restores what was there before files that left the design, deepest first.
func (w *work) removeFiles(keys []string) {
	slices.Reverse(keys)
	for _, key := range keys {
		if err := w.removeFile(key); err != nil {
			w.fail(key, err)
		}
	}
}

func (w *work) removeFile(key string) error {
	var before fileBefore
	w.items.Load(key, &before, nil)
	file := item.ID(key)
	why, err := w.forbiddenAt(file)
	if err != nil {
		return err
	}
	if why != "" {
		return &wire.Error{Class: wire.Refused, Text: why}
	}
	e, err := w.tree.Look(file)
	if err != nil {
		return err
	}
	if other(e.Kind) {
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s is %s now, which Slipway did not make. Move it away", file, kindText(e))}
	}
	if err := w.noteChange(key, file); err != nil {
		return err
	}
	isPackages, err := w.leftToPackage(file, before.place)
	if err == nil && !isPackages {
		err = w.putBack(file, before.place)
	}
	if err != nil {
		return err
	}
	if !isPackages && (before.Kind == tree.Nothing || before.Secret) {
		if err := w.tree.RemoveFolders(before.Folders); err != nil {
			return err
		}
	}
	if slices.Contains(w.unread, key) || slices.Contains(w.uncreated, key) || slices.Contains(w.unheard, key) {
		w.gone = append(w.gone, key) // until systemd, systemd-tmpfiles or the unit has noticed
		return nil
	}
	return w.items.Drop(key)
}

// kept is what is at a path, kept for a later restore. Private keys and other secrets are not kept.
func (w *work) kept(file string, e tree.Entry, isSecret bool) (place, error) {
	p := place{Kind: e.Kind, Target: e.Target, Mode: e.Mode, UID: e.UID, GID: e.GID}
	if p.Secret = isSecret && e.Kind == tree.File; e.Kind != tree.File || p.Secret {
		return p, nil
	}
	content, err := w.tree.Read(file, inside.MaxBefore)
	if err != nil {
		return p, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%v, which is too large to keep. Move it away, then Slipway puts the designed file there", err)}
	}
	if p.Secret = bytes.Contains(content, privateKey); !p.Secret {
		p.Content = content
	}
	return p, nil
}

// putBack restores what was at a path.
func (w *work) putBack(file string, p place) error {
	switch {
	case p.Kind == tree.File && p.Secret:
		w.h.Tell(file + ": Slipway stores no secrets, so it does not restore the one that was here before")
		return w.tree.Remove(file)
	case p.Kind == tree.File:
		return w.putFile(file, p.Content, p.Mode, p.UID, p.GID)
	case p.Kind == tree.Link:
		if e, err := w.tree.Look(file); err != nil || e.Kind == tree.Link && e.Target == p.Target {
			return err
		}
		return w.tree.PutLink(file, p.Target, p.UID, p.GID)
	}
	return w.tree.Remove(file)
}

// putFile makes a file and skips the write if the file is already right. It replaces a file of another owner even
// with equal content: the owner may have it open or mapped and could go on writing.
func (w *work) putFile(file string, content []byte, mode uint32, uid, gid int) error {
	e, err := w.tree.Look(file)
	if err != nil {
		return err
	}
	same := false
	if e.Kind == tree.File && e.Size == int64(len(content)) {
		digest, err := w.tree.Digest(w.ctx, file, int64(len(content)))
		if err != nil {
			return err
		}
		same = digest == item.Digest(content)
	}
	same = same && e.UID == uid && e.GID == gid
	if same && e.Mode == mode {
		return nil
	}
	if same {
		if err := w.tree.SetMode(file, e, mode); !errors.Is(err, tree.ErrOther) {
			return err
		}
	}
	return w.tree.Put(file, content, mode, uid, gid)
}

// other reports kinds that Slipway neither replaces nor removes.
func other(k tree.Kind) bool { return k != tree.Nothing && k != tree.File && k != tree.Link }
