package config

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
)

// withoutKey is reported for a file with a secret if the daemon sent no key for its digest: the design no longer
// asks for the secret.
const withoutKey = "a secret"

// keyedDigest is item.KeyedDigest of a file's content. It does not read files that are larger than any secret.
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

// isSecret reports whether Slipway has put a secret into a file.
func (w *work) isSecret(key string) bool {
	var made madeFile
	w.items.Load(key, nil, &made)
	return made.Secret
}

// noteSecret records whether the content of Slipway's file is a secret. For a file that becomes a secret, the
// caller does this before writing the content; otherwise afterwards.
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
