package config

import (
	"bytes"
	"fmt"
	"path"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// The lists of revoked certificates are a file beside the certificate. A program that is told to read them refuses
// everybody where the file is missing or over, so what is there stays until there is another one.

// seeList tells of the lists of revoked certificates beside a certificate: their digest, and when the first of them is
// over.
func (w *work) seeList(key string, made madeCertificate) error {
	at, field := path.Join(tlsFolder, made.Folder, listFile), item.Name(key, "revocationList")
	e, err := w.tree.Look(at)
	if err != nil || e.Kind == tree.Nothing {
		return err
	}
	if e.Kind != tree.File || e.Mode != publicMode || e.UID != 0 {
		w.seen.Have[field] = "changed by hand: " + at + " is " + kindText(e)
		return nil
	}
	text, err := w.tree.Read(at, item.MostLists)
	if err != nil {
		return err
	}
	digest := item.Digest(text)
	if digest != made.List && digest != made.FormerList { // a run may be cut off before it writes
		w.seen.Have[field] = "changed by hand: " + path.Join(linkOf(key), listFile) + " is another list"
		return nil
	}
	w.seen.Have[field] = digest
	if digest == made.List && made.ListUntil != "" {
		w.seen.Have[field] += " until " + made.ListUntil
	}
	return nil
}

// listToPut are the lists to have beside a certificate, nil for none, and whether they are there already. Where the
// daemon has none to give, those of the folder that the link points to stay.
func (w *work) listToPut(made madeCertificate, present string, body item.Certificate) (list []byte, is bool, err error) {
	at := path.Join(tlsFolder, made.Folder, listFile)
	there, err := w.readList(at)
	switch {
	case err != nil:
		return nil, false, err
	case body.HasList && body.List != "":
		list = []byte(body.List)
	case body.HasList && made.List != "" && present != "":
		if list, err = w.readList(path.Join(tlsFolder, present, listFile)); err != nil {
			return nil, false, err
		}
		if is := digestOf(list); is != made.List && is != made.FormerList {
			list = nil // somebody else wrote it
		}
	}
	if len(list) > item.MostLists {
		return nil, false, fmt.Errorf("the lists of revoked certificates have %d bytes, and at most %d are written", len(list), item.MostLists)
	}
	e, err := w.tree.Look(at)
	isAsMade := e.Kind == tree.Nothing || e.Kind == tree.File && e.Mode == publicMode && e.UID == 0
	return list, err == nil && isAsMade && bytes.Equal(there, list) && (list != nil) == (e.Kind != tree.Nothing) && made.List == digestOf(list), err
}

func digestOf(list []byte) string {
	if list == nil {
		return ""
	}
	return item.Digest(list)
}

// readList reads a file of lists; nil where there is none.
func (w *work) readList(at string) ([]byte, error) {
	e, err := w.tree.Look(at)
	if err != nil || e.Kind != tree.File {
		return nil, err
	}
	return w.tree.Read(at, item.MostLists)
}

// putList writes the lists, or removes the file where there are to be none.
func (w *work) putList(at string, list []byte) error {
	if list == nil {
		return w.tree.Remove(at)
	}
	return w.tree.Put(at, list, publicMode, 0, 0)
}
