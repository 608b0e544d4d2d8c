package config

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// withoutKey is what is told of a file with a secret where the daemon gave no key for its digest:
// the design does not ask for the secret any more.
const withoutKey = "a secret"

// keyedDigest is item.KeyedDigest of a file's content. A file that is larger than any secret is
// not read.
func (w *work) keyedDigest(file string, e tree.Entry, key []byte) (string, error) {
	if e.Size > item.MaxSecret {
		return fmt.Sprintf("a file of %d bytes", e.Size), nil
	}
	content, err := w.tree.Read(file, item.MaxSecret)
	if err != nil {
		return "", err
	}
	defer clear(content)
	return item.KeyedDigest(key, content), nil
}

// isSecret says whether Slipway has put a secret into a file.
func (w *work) isSecret(key string) bool {
	var made madeFile
	w.items.Load(key, nil, &made)
	return made.Secret
}

// noteSecret notes of a file that is Slipway's whether its content is a secret. Of one that is
// to become a secret it does so before the content is there, and else afterwards.
func (w *work) noteSecret(key string, is bool) error {
	var made madeFile
	if ours := w.items.Load(key, nil, &made); !ours || made.Secret == is {
		return nil
	}
	if made.Secret = is; is {
		made.Content, made.Stamp = "", ""
	}
	return w.items.Note(key, made)
}
