package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// place is what is at a path, in the form that the list of what Slipway made has.
type place struct {
	Kind    tree.Kind `json:"kind,omitempty"`
	Content []byte    `json:"content,omitempty"`
	Target  string    `json:"target,omitempty"`
	Mode    uint32    `json:"mode,omitempty"`
	UID     int       `json:"uid,omitempty"`
	GID     int       `json:"gid,omitempty"`
	// Secret says that the content was not kept, since it is a private key.
	Secret bool `json:"secret,omitempty"`
}

// fileBefore is what was at a file's path, and the folders that Slipway made.
type fileBefore struct {
	place
	Folders []string `json:"folders,omitempty"`
}

// forbidden says why a file at a path is not made, or nothing.
func forbidden(file string) string {
	if !path.IsAbs(file) || path.Clean(file) != file || file == "/" || strings.ContainsRune(file, 0) {
		return fmt.Sprintf("%q is not a plain absolute path. Write it from the root, without \"..\", \"//\" and a \"/\" at its end", file)
	}
	for _, folder := range []string{"/proc", "/sys", "/dev"} {
		if below(file, folder) {
			return fmt.Sprintf("files below %s belong to the kernel; use system.sysctl or a udev rule", folder)
		}
	}
	if below(file, inside.Folder) {
		return inside.Folder + " is where Slipway keeps its own state"
	}
	if slices.Contains([]string{"/etc/shadow", "/etc/gshadow", "/etc/passwd", "/etc/group"}, file) {
		return file + " holds the accounts; use system.users"
	}
	return ""
}

func below(file, folder string) bool { return file == folder || strings.HasPrefix(file, folder+"/") }

// forbiddenAt is forbidden for the path and for where links in its folders lead.
func (w *work) forbiddenAt(file string) (string, error) {
	if why := forbidden(file); why != "" {
		return why, nil
	}
	at, err := w.tree.Resolve(file, false)
	var link *tree.UnsafeLink
	if errors.As(err, &link) {
		return w.unsafe(link), nil
	}
	if err != nil {
		return "", err
	}
	return forbidden("/" + at), nil
}

// unsafe says why a link is not followed, with the name of the account.
func (w *work) unsafe(link *tree.UnsafeLink) string {
	a, err := w.names()
	if err != nil {
		return link.Error()
	}
	return link.Text(a.users.text(link.UID))
}

func (w *work) observeFile(key string) {
	file := item.ID(key)
	why, err := w.forbiddenAt(file)
	if why != "" {
		w.seen.Cannot[key] = why
		return
	}
	var e tree.Entry
	if err == nil {
		e, err = w.tree.Look(file)
	}
	if err == nil && e.Kind == tree.File {
		w.seen.Have[item.Name(key, "content")], err = w.digest(key, file, e)
	}
	var a *accounts
	if err == nil {
		a, err = w.names()
	}
	if err != nil {
		delete(w.seen.Have, item.Name(key, "content"))
		w.seen.Unread[key] = err.Error()
		return
	}
	if designed, asked := w.h.Show[key]; asked && e.Kind == tree.File && w.seen.Have[item.Name(key, "content")] != designed {
		w.show(key, file)
	}
	unread, err := w.unheeded(key)
	if err != nil {
		delete(w.seen.Have, item.Name(key, "content"))
		w.seen.Unread[key] = err.Error()
		return
	}
	switch e.Kind {
	case tree.Nothing:
		w.seen.Have[item.Name(key, "state")] = item.Absent + unread
		return
	case tree.File:
		w.seen.Have[item.Name(key, "content")] += unread
		w.seen.Have[item.Name(key, "mode")] = tree.ModeText(e.Mode)
		w.seen.Have[item.Name(key, "owner")] = a.users.text(e.UID) + ":" + a.groups.text(e.GID)
	default:
		w.seen.Have[item.Name(key, "content")] = kindText(e)
	}
	w.seen.Have[item.Name(key, "state")] = item.Present
}

// madeFile is what is kept of a file whose content was an artifact: the digest that was
// seen when it had that stamp. So what may be large is read once.
type madeFile struct {
	Content string `json:"content"`
	Stamp   string `json:"stamp"`
	// Unread is the boot in which the file was changed and systemd has not read it; empty where
	// it has. At the next boot it reads all files.
	Unread string `json:"unread,omitempty"`
	// Uncreated is the boot in which the file was changed and systemd-tmpfiles has not carried
	// out its lines; empty where it has. At the next boot it does so.
	Uncreated string `json:"uncreated,omitempty"`
	// Restart are the units that must be restarted since the file was changed, in the boot
	// Boot: at the next one they start by it.
	Restart []string `json:"restart,omitempty"`
	Boot    string   `json:"boot,omitempty"`
}

// digest is item.Digest of a file's content. A file that is larger than any design has it
// is not read, since a user may make one of his as large as he likes: its size tells that
// it differs.
func (w *work) digest(key, file string, e tree.Entry) (string, error) {
	var made madeFile
	if w.items.Load(key, nil, &made); made.Stamp == e.Stamp && made.Content != "" {
		return made.Content, nil
	}
	if e.Size > item.MaxArtifact {
		return fmt.Sprintf("a file of %d bytes", e.Size), nil
	}
	return w.tree.Digest(w.ctx, file, item.MaxArtifact)
}

// putArtifact makes a file whose content the daemon sends where it is not there yet.
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
		if err := w.takeFile(key, file, e); err != nil {
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
		return nil // it was so before Slipway
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

// fetch puts the bytes of an artifact in the place of a file.
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

// show tells the content of a file that differs from the design, as far as it may be
// shown and as there is room for it.
func (w *work) show(key, file string) {
	text, size, err := w.tree.ReadPublic(file, item.MaxShown)
	c := item.Content{Bytes: size}
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.Withheld = item.NotPublic
	case err != nil:
		c.Withheld = "it cannot be read: " + err.Error()
	case size > item.MaxShown:
		c.Withheld = item.TooLarge(size)
	case item.Digest(text) != w.seen.Have[item.Name(key, "content")]:
		c.Withheld = "it was changed while it was read"
	case bytes.Contains(text, privateKey):
		c.Withheld = "it holds a private key"
	case w.shown+len(text) > item.MaxShownAll:
		c.Withheld = fmt.Sprintf("the files that differ have more than the %d bytes that are shown", item.MaxShownAll)
	default:
		c = item.Show("0644", text)
		w.shown += len(c.Text)
	}
	w.seen.Contents[key] = c
}

// privateKey is in every private key in PEM form.
var privateKey = []byte("PRIVATE KEY-----")

// kindText tells what is in the place of a file.
func kindText(e tree.Entry) string {
	if e.Kind == tree.Link {
		return "a link to " + e.Target
	}
	return "a " + string(e.Kind)
}

// readFolders collects the folders that owned items made.
func (w *work) readFolders() {
	w.folders = map[string]bool{}
	for _, key := range w.h.Owned.Keys(name) {
		var before fileBefore
		w.items.Load(key, &before, nil)
		for _, folder := range before.Folders {
			w.folders[folder] = true
		}
	}
}

// foldersOf are the folders above a path that Slipway has made or would make.
func (w *work) foldersOf(file string) ([]string, error) {
	folders, err := w.tree.MissingFolders(file)
	if err != nil {
		return nil, err
	}
	for folder := path.Dir(file); folder != "/"; folder = path.Dir(folder) {
		if w.folders[folder] {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	for _, folder := range folders {
		w.folders[folder] = true
	}
	return folders, nil
}

// kept is what is at a path, to be put back one day. Private keys are not kept.
func (w *work) kept(file string, e tree.Entry) (place, error) {
	p := place{Kind: e.Kind, Target: e.Target, Mode: e.Mode, UID: e.UID, GID: e.GID}
	if e.Kind != tree.File {
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
		w.h.Tell(file + ": Slipway stores no private keys, so it does not restore the one that was here before")
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

// putFile makes a file so and writes nothing that is so already. A file of another owner is
// replaced, whatever it holds: who owned it may have it open or mapped, and could go on writing.
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

// removeFiles puts back what was there before files that left the design, the
// deepest first.
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
		w.gone = append(w.gone, key) // until systemd, systemd-tmpfiles, or the unit has read that
		return nil
	}
	return w.items.Drop(key)
}

// other tells of what is neither replaced nor removed.
func other(k tree.Kind) bool { return k != tree.Nothing && k != tree.File && k != tree.Link }

// applyFiles makes files; those to be absent first, since a folder may come in
// the place of one.
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
		return w.putArtifact(i.Key, file, e, body, mode, uid, gid)
	}
	if so, err := w.isFile(file, e, body.Content, mode, uid, gid); err != nil || so {
		return err
	}
	if err := w.guardContent(file, body.Content); err != nil {
		return err
	}
	if err := w.takeFile(i.Key, file, e); err != nil {
		return err
	}
	if err := w.noteChange(i.Key, file); err != nil {
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

func (w *work) takeFile(key, file string, e tree.Entry) error {
	if _, ours := w.h.Owned.Entry(name, key); ours {
		return nil
	}
	p, err := w.kept(file, e)
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
		if err := w.takeFile(key, file, e); err != nil {
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
