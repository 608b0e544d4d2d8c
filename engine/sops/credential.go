package sops

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-gitops/slipway/engine/sealed"
)

// header are the keys of a credential besides its secret. Each is a text or a list.
var header = []string{"hosts", "use", "ports", "username"}

// Credential returns a credential of a file as the text of a credential file: header
// lines, an empty line, and the secret. It also returns when the file was last changed,
// which its digest protects. The key is the path of an object with the keys site, hosts,
// use and secret, and optionally ports and username.
func Credential(name string, text []byte, key, siteName string, id sealed.Identity) (plain []byte, changed time.Time, err error) {
	f, err := Parse(name, text)
	if err != nil {
		return nil, changed, err
	}
	c, err := f.Open(id)
	if err != nil {
		return nil, changed, err
	}
	path := strings.Split(key, ".")
	if n := f.at(path); n == nil || n.Kind != yaml.MappingNode {
		return nil, changed, fmt.Errorf("there is no object at the key %q: write the keys site, hosts, use and secret below it", key)
	}
	at := func(last string) []string { return append(path[:len(path):len(path)], last) }
	is, bound, ok := c.Text(at("site"))
	if ok && !bound {
		return nil, changed, fmt.Errorf("%s.site %w", key, errOpen)
	}
	if !ok || is != siteName {
		return nil, changed, fmt.Errorf("%s.site does not say %q, so the secret may be that of another site: set it with `sops edit`", key, siteName)
	}
	var b strings.Builder
	for _, field := range header {
		line, err := c.line(at(field))
		if err != nil {
			return nil, changed, fmt.Errorf("%s.%s %w", key, field, err)
		}
		if line != "" {
			fmt.Fprintf(&b, "%s: %s\n", field, line)
		}
	}
	secret, encrypted, ok := c.Text(at("secret"))
	switch {
	case !ok || secret == "":
		return nil, changed, fmt.Errorf("there is no secret at %s.secret: set it with `sops edit`", key)
	case !encrypted:
		return nil, changed, fmt.Errorf("%s.secret stands in the file as clear text: rename it or change the rule of the file so that it is encrypted, and replace the secret wherever it is valid", key)
	}
	b.WriteString("\n" + secret)
	return []byte(b.String()), f.meta.lastModified, nil
}

// errOpen says why a part of a credential must be encrypted. A file's digest covers the
// values joined, without their keys, so one clear value could be split into two.
var errOpen = errors.New("stands in the file as clear text, and could be changed by whoever can merge: change the rule of the file so that it is encrypted, and set it again with `sops edit`")

// line returns a text, or the texts of a list joined by commas.
func (c *Content) line(path []string) (string, error) {
	n := c.file.at(path)
	if n == nil {
		return "", nil
	}
	if !c.file.meta.encrypts(path) {
		return "", errOpen
	}
	leaves := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		leaves = n.Content
	}
	var texts []string
	for _, leaf := range leaves {
		if leaf.Kind != yaml.ScalarNode {
			return "", errors.New("is neither a text nor a list of texts")
		}
		texts = append(texts, string(bytesOf(c.values[leaf])))
	}
	line := strings.Join(texts, ", ")
	if strings.ContainsAny(line, "\r\n") {
		return "", errors.New("has several lines: write one")
	}
	return line, nil
}

// PutCredential sets a credential in a file, in the form that Credential reads.
func (c *Content) PutCredential(key, siteName string, text []byte) error {
	path := strings.Split(key, ".")
	head, secret, ok := strings.Cut(string(text), "\n\n")
	if !ok {
		return errors.New("there is no empty line between the header and the secret")
	}
	set := func(last, value string) error { return c.Set(append(path[:len(path):len(path)], last), value) }
	if err := set("site", siteName); err != nil {
		return err
	}
	given := map[string]string{}
	for line := range strings.Lines(head) {
		field, value, _ := strings.Cut(line, ":")
		given[strings.TrimSpace(field)] = strings.TrimSpace(value)
	}
	for _, field := range header {
		if n := c.file.at(append(path[:len(path):len(path)], field)); n != nil {
			take(c.file.at(path), field)
		}
		if given[field] != "" {
			if err := set(field, given[field]); err != nil {
				return err
			}
		}
	}
	return set("secret", secret)
}

// Others counts the values of a file that do not belong to a credential.
func (c *Content) Others(key string) (n int) {
	of := strings.Split(key, ".")
	_ = c.file.each(func(path []string, _ *yaml.Node) error {
		if len(path) <= len(of) || !slices.Equal(path[:len(of)], of) {
			n++
		}
		return nil
	})
	return n
}
