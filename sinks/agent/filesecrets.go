package agent

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A file's content may be the value of a credential. The daemon sends it to the machine when it sets the file. The
// content never comes back. At each look the daemon sends a random key, and the machine returns a digest made with
// that key.

// newDigestKey returns a random key for one use.
func newDigestKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return key
}

// digestKeys makes keys for the files whose content is the value of a credential.
func digestKeys(items []item.Item) map[string][]byte {
	keys := map[string][]byte{}
	for _, key := range withCredential(item.KindFiles, items) {
		keys[key] = newDigestKey()
	}
	return keys
}

// contentOf returns the content of a file that is the value of a credential.
func contentOf(i item.Item, get values) ([]byte, error) {
	value, err := valueOf(i, get)
	if err != nil {
		return nil, err
	}
	content := value.Content()
	if len(content) > item.MaxSecret {
		credential, _ := i.Credential()
		return nil, fmt.Errorf("its content cannot be set: credential %q: it is longer than the %d bytes that a file gets of a credential", credential, item.MaxSecret)
	}
	return content, nil
}

// compareContent records whether a file has the value of its credential. If the credential cannot be read, the
// answer is unknown and Slipway cannot set any field of the file.
func (m *machine) compareContent(s *site.FacetState, i item.Item, key []byte) {
	name := item.Name(i.Key, "content")
	content, err := contentOf(i, m.getter())
	if err != nil {
		if item.IsKeyed(s.Have[name]) {
			s.Have[name] = "unknown"
		}
		for field := range i.Fields {
			cannot(s, err, item.Name(i.Key, field))
		}
		return
	}
	defer clear(content)
	have := s.Have[name]
	rest, same := strings.CutPrefix(have, item.KeyedDigest(key, content))
	switch {
	case same:
		s.Have[name] = i.Fields["content"] + rest // a service that reads the file may not use the new content yet
	case strings.HasPrefix(have, "sha256:"): // no helper should report this
		s.Have[name] = item.OtherValue
	}
}

// giveContent puts the content of a file into its item.
func giveContent(i item.Item, get values) (item.Item, error) {
	content, err := contentOf(i, get)
	if err != nil {
		return i, err
	}
	var body item.File
	if err := json.Unmarshal(i.Body, &body); err != nil {
		return i, err
	}
	body.Content, body.Key = content, newDigestKey()
	fields := maps.Clone(i.Fields)
	fields["content"] = body.Fields()["content"]
	return item.New(i.Key, fields, body), nil
}
