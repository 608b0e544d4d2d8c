package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

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

// digest is item.Digest of a file's content. It does not read files that are larger than any designed file, because
// a user may make a file arbitrarily large. The size shows that the file differs.
func (w *work) digest(key, file string, e tree.Entry) (string, error) {
	if with, isSecret := w.h.Keys[key]; isSecret {
		return w.keyedDigest(file, e, with)
	}
	var made madeFile
	w.items.Load(key, nil, &made)
	if made.Secret {
		return withoutKey, nil
	}
	if made.Stamp == e.Stamp && made.Content != "" {
		return made.Content, nil
	}
	if e.Size > item.MaxArtifact {
		return fmt.Sprintf("a file of %d bytes", e.Size), nil
	}
	return w.tree.Digest(w.ctx, file, item.MaxArtifact)
}

// show returns the content of a file that differs from the design, if it may be shown and there is space for it.
func (w *work) show(key, file string) {
	text, size, err := w.tree.ReadPublic(file, item.MaxShown)
	c := item.Content{Bytes: size}
	switch {
	case w.isSecret(key):
		c = item.Content{Withheld: item.IsSecret}
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

// privateKey occurs in every PEM private key.
var privateKey = []byte("PRIVATE KEY-----")

// kindText describes what is there instead of a file.
func kindText(e tree.Entry) string {
	if e.Kind == tree.Link {
		return "a link to " + e.Target
	}
	return "a " + string(e.Kind)
}
