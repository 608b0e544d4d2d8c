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

// The content of a file that is the value of a credential is sent to the machine when it is
// set, and never comes back: at each look the machine is given a random key, and tells the
// digest of what is there that is made with it.

// newDigestKey is a key that is used once.
func newDigestKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // which never fails
	return key
}

// digestKeys are keys for the files whose content is the value of a credential.
func digestKeys(items []item.Item) map[string][]byte {
	keys := map[string][]byte{}
	for _, key := range withCredential(item.KindFiles, items) {
		keys[key] = newDigestKey()
	}
	return keys
}

// contentOf is the content of a file that is the value of a credential.
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

// compareContent says whether a file has the value of its credential. Where that cannot be
// read nobody knows, and nothing of the file can be set.
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
		s.Have[name] = i.Fields["content"] + rest // what reads the file may not go by it yet
	case strings.HasPrefix(have, "sha256:"): // which no helper should tell
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
