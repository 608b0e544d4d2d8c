package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML reads a YAML document whose top is a mapping.
func parseYAML(src []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(src))
	var doc, next yaml.Node
	if err := d.Decode(&doc); err != nil {
		return nil, yamlError(err)
	}
	if err := d.Decode(&next); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has several documents, separated by `---`, or more after it: keep one")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it does not hold an object with keys")
	}
	return doc.Content[0], nil
}

// yamlError keeps only the line of an error, because its text may contain a value.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, _, ok := strings.Cut(strings.TrimPrefix(text, "line "), ":"); ok {
		if n, err := strconv.Atoi(line); err == nil {
			return fmt.Errorf("%d: the text is not YAML", n)
		}
	}
	return errors.New("the text is not YAML")
}

func tooMuch(n *yaml.Node) error {
	return fmt.Errorf("%d: it has more than %d values: divide it", n.Line, mostLeaves)
}

// check refuses what SOPS and Slipway could read differently, and what exceeds the
// limits.
func check(n *yaml.Node, depth int, leaves *int) error {
	switch {
	case depth > mostDepth:
		return fmt.Errorf("%d: it is nested more than %d levels deep", n.Line, mostDepth)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fmt.Errorf("%d: it has an anchor or alias of YAML: write the value where it belongs", n.Line)
	}
	if *leaves++; *leaves > mostLeaves { // objects and lists count too
		return tooMuch(n)
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return nil
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if err := check(item, depth+1, leaves); err != nil {
				return err
			}
		}
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
			return fmt.Errorf("%d: a key is not a plain text: put it in quotes", key.Line)
		}
		if strings.Contains(key.Value, ":") {
			return fmt.Errorf("%d: the key %q holds \":\", which SOPS puts between keys, so a value could be moved to another place: rename it", key.Line, key.Value)
		}
		if seen[key.Value] {
			return fmt.Errorf("%d: the key %q stands twice in one object: remove one of the two", key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := check(n.Content[i+1], depth+1, leaves); err != nil {
			return err
		}
	}
	return nil
}

// child returns the value of a key of a mapping, or nil without one.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// take removes a key from a mapping and returns its value, or nil without one.
func take(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			v := n.Content[i+1]
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			return v
		}
	}
	return nil
}

// parseJSON reads a JSON object into nodes, in its order.
func parseJSON(src []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	line, counted, nodes := 1, int64(0), 0
	at := func() int { // counts on from the last call, because a file has many tokens
		line += bytes.Count(src[counted:d.InputOffset()], []byte("\n"))
		counted = d.InputOffset()
		return line
	}
	var value func(t json.Token, depth int) (*yaml.Node, error)
	bad := func() error { return fmt.Errorf("%d: the text is not JSON", at()) }
	value = func(t json.Token, depth int) (*yaml.Node, error) {
		n := &yaml.Node{Kind: yaml.ScalarNode, Line: at()}
		if nodes++; nodes > 2*mostLeaves { // keys are nodes too
			return nil, tooMuch(n)
		}
		switch t := t.(type) {
		case json.Delim:
			if t != '{' && t != '[' || depth > mostDepth {
				return nil, bad()
			}
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
			if t == '[' {
				n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
			}
			for d.More() {
				t, err := d.Token()
				if err != nil {
					return nil, bad()
				}
				one, err := value(t, depth+1)
				if err != nil {
					return nil, err
				}
				n.Content = append(n.Content, one)
			}
			if _, err := d.Token(); err != nil {
				return nil, bad()
			}
		case string:
			n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
		case json.Number:
			n.Tag, n.Value = "!!float", t.String()
			if i, err := t.Int64(); err == nil {
				n.Tag, n.Value = "!!int", strconv.FormatInt(i, 10)
			}
		case bool:
			n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
		default:
			n.Tag, n.Value = "!!null", "null"
		}
		return n, nil
	}
	t, err := d.Token()
	if err != nil {
		return nil, bad()
	}
	n, err := value(t, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%d: there is more after the object", at())
	}
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("it does not hold an object with keys")
	}
	return n, nil
}

// indent is the indentation of SOPS in YAML.
const indent = 4

// Bytes returns the file's text.
func (f *File) Bytes() ([]byte, error) {
	whole := *f.root
	whole.Content = append(whole.Content[:len(whole.Content):len(whole.Content)], text("sops"), f.meta.node())
	var out bytes.Buffer
	if f.json {
		if err := emitJSON(&out, &whole, "\n"); err != nil {
			return nil, err
		}
		out.WriteByte('\n')
		return out.Bytes(), nil
	}
	e := yaml.NewEncoder(&out)
	e.SetIndent(indent)
	if err := errors.Join(e.Encode(&whole), e.Close()); err != nil {
		return nil, err
	}
	// The library writes some comments so that it cannot read them again.
	if _, err := Parse(".yaml", out.Bytes()); err != nil {
		return nil, fmt.Errorf("the file cannot be written as YAML: %w: remove its comments, or write it as JSON", err)
	}
	return out.Bytes(), nil
}

// emitJSON writes a node as JSON. newline is a line break with the current
// indentation.
func emitJSON(out *bytes.Buffer, n *yaml.Node, newline string) error {
	list := func(open, end byte, step int, one func(i int) error) error {
		out.WriteByte(open)
		for i := 0; i+step <= len(n.Content); i += step {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(newline + "\t")
			if err := one(i); err != nil {
				return err
			}
		}
		if len(n.Content) > 0 {
			out.WriteString(newline)
		}
		out.WriteByte(end)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return list('{', '}', 2, func(i int) error {
			out.Write(quoted(n.Content[i].Value))
			out.WriteString(": ")
			return emitJSON(out, n.Content[i+1], newline+"\t")
		})
	case yaml.SequenceNode:
		return list('[', ']', 1, func(i int) error { return emitJSON(out, n.Content[i], newline+"\t") })
	}
	if n.ShortTag() == "!!str" {
		out.Write(quoted(n.Value))
	} else {
		out.WriteString(n.Value)
	}
	return nil
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s) // a text is always JSON
	return b
}
